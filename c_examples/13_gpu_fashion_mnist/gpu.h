/* A GPU as this program uses it: matrix products by cuBLAS and the kernels of kernels.cu. The driver and cuBLAS are found
 * at run time, so that the program is compiled and started on machines without them. */
#ifndef GPU_H
#define GPU_H

#include <stdint.h>
#include <umbo/umbo.h>

enum {
  GPU_NORMALIZE,
  GPU_ADD_BIAS,
  GPU_ADD_BIAS_AND_RECTIFY,
  GPU_MASK,
  GPU_SOFTMAX_CROSS_ENTROPY,
  GPU_ACCUMULATE,
  GPU_KERNELS
};

/* What a replica has on its GPU. Zeros: nothing. */
typedef struct {
  void *stream; /* the CUstream of its context: all that it queues is queued here, and the run waits for it */
  void *blas;   /* a cublasHandle_t of its own */
  void *kernels[GPU_KERNELS]; /* as CUfunction */
  int blas_version;
} gpu;

/* Finds the driver and cuBLAS; returns NULL, or what is missing. */
const char *gpu_find(void);

/* The file that cuBLAS was found in. */
const char *gpu_blas_file(void);

/* In the callback of a replica on a GPU, whose context is current there. tf32: products on tensor cores, whose factors
 * have 10 bits after the point; otherwise float32 throughout ("pedantic" to cuBLAS). In both modes runs on one kind of
 * card are bit-identical: a handle has one stream, and cuBLAS may not use atomic additions, its default. */
umbo_status gpu_open(gpu *g, void *stream, int tf32);

/* In a callback of the same replica, after gpu_open(), also if that failed. */
umbo_status gpu_close(gpu *g);

/* Queues a kernel: a thread for each element, and pointers to its arguments in their order. */
umbo_status gpu_launch(const gpu *g, int kernel, int64_t elements, void **arguments);

/* Queue products of contiguous row-major matrices, as matrix.h computes them: c[m, n] = a[m, k] b[k, n], */
umbo_status gpu_multiply(const gpu *g, int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c);

/* c[m, n] = transpose(a[k, m]) b[k, n], */
umbo_status gpu_multiply_transposed_a(const gpu *g, int64_t m, int64_t n, int64_t k, const float *a, const float *b,
                                      float *c);

/* c[m, n] = a[m, k] transpose(b[n, k]) */
umbo_status gpu_multiply_transposed_b(const gpu *g, int64_t m, int64_t n, int64_t k, const float *a, const float *b,
                                      float *c);

#endif
