#include "gpu.h"

#include "kernels.h" /* kernels.cu, compiled: the text `kernels_ptx` */

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 256 };

/* As cuda.h and cublas_v2.h declare them, neither of which this program needs to be compiled. */
enum { BLAS_PLAIN = 0, BLAS_TRANSPOSED = 1, BLAS_PEDANTIC_MATH = 2, BLAS_TF32_MATH = 3 };

static struct {
  int (*load_module)(void **module, const void *image);
  int (*find_function)(void **function, void *module, const char *name);
  int (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                unsigned block_z, unsigned shared_bytes, void *stream, void **arguments, void **extra);
  int (*error_name)(int code, const char **name);
} cuda;

static struct {
  char file[32];
  int (*create)(void **handle);
  int (*destroy)(void *handle);
  int (*set_stream)(void *handle, void *stream);
  int (*set_math_mode)(void *handle, int mode);
  int (*get_version)(void *handle, int *version);
  int (*multiply)(void *handle, int transpose_a, int transpose_b, int m, int n, int k, const float *alpha,
                  const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc);
} cublas;

static char missing[1024];

/* dlsym() gives functions as pointers to data. */
static int find_symbol(void *library, const char *name, void *function) {
  void *const found = dlsym(library, name);
  memcpy(function, &found, sizeof(found));
  if (found == NULL) snprintf(missing, sizeof(missing), "%s", dlerror());
  return found != NULL;
}

static int find_driver(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL) {
    snprintf(missing, sizeof(missing), "there is no CUDA driver: %.400s", dlerror());
    return 0;
  }
  return find_symbol(library, "cuModuleLoadData", &cuda.load_module) &&
         find_symbol(library, "cuModuleGetFunction", &cuda.find_function) &&
         find_symbol(library, "cuLaunchKernel", &cuda.launch) &&
         find_symbol(library, "cuGetErrorName", &cuda.error_name);
}

/* The newest that is there. */
static int find_blas(void) {
  void *library = NULL;
  int length = snprintf(missing, sizeof(missing), "there is no cuBLAS, whose folder belongs in LD_LIBRARY_PATH");
  for (int major = 13; library == NULL && major >= 11; --major) {
    snprintf(cublas.file, sizeof(cublas.file), "libcublas.so.%d", major);
    library = dlopen(cublas.file, RTLD_NOW);
    if (library == NULL) {
      length += snprintf(missing + length, sizeof(missing) - (size_t)length, "; %.200s", dlerror());
    }
  }
  if (library == NULL) return 0;
  return find_symbol(library, "cublasCreate_v2", &cublas.create) &&
         find_symbol(library, "cublasDestroy_v2", &cublas.destroy) &&
         find_symbol(library, "cublasSetStream_v2", &cublas.set_stream) &&
         find_symbol(library, "cublasSetMathMode", &cublas.set_math_mode) &&
         find_symbol(library, "cublasGetVersion_v2", &cublas.get_version) &&
         find_symbol(library, "cublasSgemm_v2", &cublas.multiply);
}

const char *gpu_find(void) { return find_driver() && find_blas() ? NULL : missing; }

const char *gpu_blas_file(void) { return cublas.file; }

static umbo_status fail(const char *what, int code, const char *name) {
  char message[160];
  snprintf(message, sizeof(message), "%s returned %d (%s)", what, code, name);
  return umbo_set_last_error(UMBO_STATUS_UNAVAILABLE, message, NULL, NULL);
}

static umbo_status check_cuda(const char *what, int code) {
  const char *name = "unknown";
  if (code == 0) return UMBO_OK;
  if (cuda.error_name(code, &name) != 0) name = "unknown";
  return fail(what, code, name);
}

static const char *blas_status_name(int code) {
  switch (code) {
    case 1: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case 3: return "CUBLAS_STATUS_ALLOC_FAILED";
    case 7: return "CUBLAS_STATUS_INVALID_VALUE";
    case 8: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case 13: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case 14: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case 15: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "see cublas_v2.h";
  }
}

static umbo_status check_blas(const char *what, int code) {
  return code == 0 ? UMBO_OK : fail(what, code, blas_status_name(code));
}

umbo_status gpu_open(gpu *g, void *stream, int tf32) {
  static const char *const names[GPU_KERNELS] = {
      "normalize", "add_bias", "add_bias_and_rectify", "mask", "softmax_cross_entropy", "accumulate"};
  void *module = NULL; /* goes with the context */
  g->stream = stream;
  UMBO_TRY(check_cuda("cuModuleLoadData", cuda.load_module(&module, kernels_ptx)));
  for (int i = 0; i < GPU_KERNELS; ++i) UMBO_TRY(check_cuda(names[i], cuda.find_function(&g->kernels[i], module, names[i])));
  UMBO_TRY(check_blas("cublasCreate_v2", cublas.create(&g->blas)));
  UMBO_TRY(check_blas("cublasSetStream_v2", cublas.set_stream(g->blas, stream)));
  UMBO_TRY(check_blas("cublasSetMathMode", cublas.set_math_mode(g->blas, tf32 ? BLAS_TF32_MATH : BLAS_PEDANTIC_MATH)));
  return check_blas("cublasGetVersion_v2", cublas.get_version(g->blas, &g->blas_version));
}

umbo_status gpu_close(gpu *g) {
  void *const blas = g->blas;
  g->blas = NULL;
  return blas == NULL ? UMBO_OK : check_blas("cublasDestroy_v2", cublas.destroy(blas));
}

umbo_status gpu_launch(const gpu *g, int kernel, int64_t elements, void **arguments) {
  const unsigned blocks = (unsigned)((elements + THREADS - 1) / THREADS);
  return check_cuda("cuLaunchKernel",
                    cuda.launch(g->kernels[kernel], blocks, 1, 1, THREADS, 1, 1, 0, g->stream, arguments, NULL));
}

/* A row-major matrix is a column-major one transposed, and cuBLAS computes column-major ones: transpose(c) is
 * transpose(b) times transpose(a), so that only the order of the factors changes. */
static umbo_status multiply(const gpu *g, int transpose_a, int transpose_b, int64_t m, int64_t n, int64_t k,
                            const float *a, const float *b, float *c) {
  const float one = 1.0f, zero = 0.0f;
  const int64_t a_columns = transpose_a == BLAS_TRANSPOSED ? m : k;
  const int64_t b_columns = transpose_b == BLAS_TRANSPOSED ? k : n;
  return check_blas("cublasSgemm_v2",
                    cublas.multiply(g->blas, transpose_b, transpose_a, (int)n, (int)m, (int)k, &one, b, (int)b_columns,
                                    a, (int)a_columns, &zero, c, (int)n));
}

umbo_status gpu_multiply(const gpu *g, int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c) {
  return multiply(g, BLAS_PLAIN, BLAS_PLAIN, m, n, k, a, b, c);
}

umbo_status gpu_multiply_transposed_a(const gpu *g, int64_t m, int64_t n, int64_t k, const float *a, const float *b,
                                      float *c) {
  return multiply(g, BLAS_TRANSPOSED, BLAS_PLAIN, m, n, k, a, b, c);
}

umbo_status gpu_multiply_transposed_b(const gpu *g, int64_t m, int64_t n, int64_t k, const float *a, const float *b,
                                      float *c) {
  return multiply(g, BLAS_PLAIN, BLAS_TRANSPOSED, m, n, k, a, b, c);
}
