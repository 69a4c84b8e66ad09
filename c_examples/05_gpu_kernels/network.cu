/* The kernels: a thread for each element. nvcc compiles this, and so does clang without any of CUDA's
 * files, for which the few words of the language are said here. */
#if defined(__clang__) && !defined(__NVCC__)
#define __global__ __attribute__((global))
static inline __attribute__((device)) int thread_number(void) {
    return (int)(__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x());
}
#else
static inline __device__ int thread_number(void) { return (int)(blockIdx.x * blockDim.x + threadIdx.x); }
#endif

#include "network.h"

extern "C" __global__ void hidden(layers net, work w) {
    const int at = thread_number();
    if (at < w.examples * HIDDEN) compute_hidden(&net, &w, at / HIDDEN, at % HIDDEN);
}

extern "C" __global__ void errors(layers net, work w) {
    const int at = thread_number();
    if (at < w.examples) compute_errors(&net, &w, at);
}

extern "C" __global__ void gradient2(layers gradient, work w) {
    const int at = thread_number();
    if (at < CLASSES * (HIDDEN + 1)) compute_gradient2(&gradient, &w, at / (HIDDEN + 1), at % (HIDDEN + 1));
}

extern "C" __global__ void back(layers net, work w) {
    const int at = thread_number();
    if (at < w.examples * HIDDEN) compute_back(&net, &w, at / HIDDEN, at % HIDDEN);
}

extern "C" __global__ void gradient1(layers gradient, work w) {
    const int at = thread_number();
    if (at < HIDDEN * (PIXELS + 1)) compute_gradient1(&gradient, &w, at / (PIXELS + 1), at % (PIXELS + 1));
}
