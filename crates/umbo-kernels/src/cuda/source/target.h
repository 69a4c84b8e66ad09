// The differences between the compilers of the kernels: clang for PTX (without CUDA's headers),
// NVRTC, and any C++ compiler, for which the kernels are ordinary functions that tests call.
//
// Every arithmetic operation on floating-point numbers is rounded to nearest by itself: no
// compiler may contract two of them. So the bits are those of the CPU's kernels.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;

// Threads of every block. Kernels ask for at least one block at a time on a processor of the card,
// which is always possible; without this, the assembler keeps registers in memory to make more
// blocks possible. Where more blocks have room without that, the kernel asks for them.
#define THREADS 256

#if defined(__CUDACC_RTC__) || defined(__NVCC__)

#define KERNEL_WITH(BLOCKS) extern "C" __global__ __launch_bounds__(THREADS, BLOCKS)
#define DEVICE static __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__
#define SHARED static __shared__
// Pointers to the card's memory.
#define GLOBAL
struct alignas(16) Sixteen { u64 low, high; };
DEVICE u32 thread_number() { return threadIdx.x; }
DEVICE u32 block_number() { return blockIdx.x; }
DEVICE void barrier() { __syncthreads(); }
DEVICE float add(float a, float b) { return __fadd_rn(a, b); }
DEVICE float sub(float a, float b) { return __fsub_rn(a, b); }
DEVICE float mul(float a, float b) { return __fmul_rn(a, b); }
DEVICE float quotient(float a, float b) { return __fdiv_rn(a, b); }
DEVICE float root(float a) { return __fsqrt_rn(a); }
DEVICE double add(double a, double b) { return __dadd_rn(a, b); }
DEVICE double sub(double a, double b) { return __dsub_rn(a, b); }
DEVICE double mul(double a, double b) { return __dmul_rn(a, b); }
DEVICE double quotient(double a, double b) { return __ddiv_rn(a, b); }
DEVICE double root(double a) { return __dsqrt_rn(a); }

#elif defined(__CUDA__)

// Compiled with -ffp-contract=off: the operators are add.rn, mul.rn and so on.
#define KERNEL_WITH(BLOCKS) \
    extern "C" __attribute__((global)) __attribute__((launch_bounds(THREADS, BLOCKS)))
#define DEVICE static __attribute__((device, always_inline)) inline
#define DEVICE_MEMBER __attribute__((device, always_inline)) inline
#define SHARED static __attribute__((shared))
#define GLOBAL __attribute__((address_space(1)))
typedef u64 Sixteen __attribute__((vector_size(16)));
DEVICE u32 thread_number() { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE u32 block_number() { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE void barrier() { __syncthreads(); }
DEVICE float add(float a, float b) { return a + b; }
DEVICE float sub(float a, float b) { return a - b; }
DEVICE float mul(float a, float b) { return a * b; }
DEVICE float quotient(float a, float b) { return __nvvm_div_rn_f(a, b); }
DEVICE float root(float a) { return __nvvm_sqrt_rn_f(a); }
DEVICE double add(double a, double b) { return a + b; }
DEVICE double sub(double a, double b) { return a - b; }
DEVICE double mul(double a, double b) { return a * b; }
DEVICE double quotient(double a, double b) { return __nvvm_div_rn_d(a, b); }
DEVICE double root(double a) { return __nvvm_sqrt_rn_d(a); }

#else

#define KERNEL_WITH(BLOCKS) extern "C"
#define DEVICE static inline
#define DEVICE_MEMBER inline
#define SHARED static thread_local
#define GLOBAL
typedef u64 Sixteen __attribute__((vector_size(16)));
// The caller of the kernels defines these functions: which thread of which block it plays, and
// how it lets the others of the block reach the same barrier.
u32 thread_number();
u32 block_number();
void barrier();
DEVICE float add(float a, float b) { return a + b; }
DEVICE float sub(float a, float b) { return a - b; }
DEVICE float mul(float a, float b) { return a * b; }
DEVICE float quotient(float a, float b) { return a / b; }
DEVICE float root(float a) { return __builtin_sqrtf(a); }
DEVICE double add(double a, double b) { return a + b; }
DEVICE double sub(double a, double b) { return a - b; }
DEVICE double mul(double a, double b) { return a * b; }
DEVICE double quotient(double a, double b) { return a / b; }
DEVICE double root(double a) { return __builtin_sqrt(a); }

#endif

#if defined(__clang__) || defined(__CUDACC_RTC__) || defined(__NVCC__)
#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")
#define UNROLL_4 _Pragma("unroll 4")
#define UNROLL_16 _Pragma("unroll 16")
#else
#define UNROLL
#define NO_UNROLL
#define UNROLL_4
#define UNROLL_16
#endif

#define KERNEL KERNEL_WITH(1)

// The card's memory at an address. Addresses come in tables, so compilers cannot know that they
// are not addresses of a block's own memory.
template <class T> DEVICE GLOBAL const T *reading(const void *address) {
    return (GLOBAL const T *)address;
}
template <class T> DEVICE GLOBAL T *writing(void *address) { return (GLOBAL T *)address; }
