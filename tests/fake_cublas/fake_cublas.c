/* A cuBLAS for tests, over the CUDA driver that the process has loaded, the tests' own one.
 *
 * A product is queued as cuBLAS queues its own: on the stream of its handle, after what is there. The factors are copied to
 * page-locked memory, a function of the stream multiplies them, and the product is copied back, so that the driver finds
 * what is not ordered, not written, or not memory of the device.
 *
 *   FAKE_CUBLAS_FAULT=FUNCTION:NUMBER:STATUS   the NUMBER-th call of FUNCTION returns STATUS
 *
 * What cuBLAS leaves undefined or a test must not do ends the process: a context other than the handle's, a handle without
 * a stream, with mathematics that were not chosen, or that is alive when the process ends. It shows nothing of what cuBLAS
 * does on GPUs. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, ALLOC_FAILED = 3, INVALID_VALUE = 7, EXECUTION_FAILED = 13 };
enum { PEDANTIC_MATH = 2, TF32_MATH = 3, VERSION = 129901 };

typedef struct memory {
  struct memory *next;
  float *at;
  size_t bytes;
} memory;

typedef struct {
  void *context, *stream;
  int math;
  memory *staging[3]; /* of both factors and the product; what was too small is kept, since work may use it */
} handle;

typedef struct {
  int transposed[2], m, n, k, leading[3];
  const float *factors[2];
  float *product;
  float alpha;
} job;

static struct {
  int (*get_current)(void **context);
  int (*synchronize)(void *stream);
  int (*allocate)(void **memory, size_t bytes, unsigned flags);
  int (*release)(void *memory);
  int (*to_host)(void *to, uint64_t from, size_t bytes, void *stream);
  int (*to_device)(uint64_t to, const void *from, size_t bytes, void *stream);
  int (*call)(void *stream, void (*function)(void *), void *data);
} cuda;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int alive;

static void mistake(const char *text) {
  fprintf(stderr, "fake-cublas: %s\n", text);
  abort();
}

static void find(void *library, const char *name, void *function) {
  void *const found = library == NULL ? NULL : dlsym(library, name);
  if (found == NULL) mistake(name);
  memcpy(function, &found, sizeof(found));
}

__attribute__((constructor)) static void start(void) {
  void *const library = dlopen("libcuda.so.1", RTLD_NOW);
  find(library, "cuCtxGetCurrent", &cuda.get_current);
  find(library, "cuStreamSynchronize", &cuda.synchronize);
  find(library, "cuMemHostAlloc", &cuda.allocate);
  find(library, "cuMemFreeHost", &cuda.release);
  find(library, "cuMemcpyDtoHAsync_v2", &cuda.to_host);
  find(library, "cuMemcpyHtoDAsync_v2", &cuda.to_device);
  find(library, "cuLaunchHostFunc", &cuda.call);
}

/* A program that something fails in may end where it stands. */
__attribute__((destructor)) static void end(void) {
  const int may_fail = getenv("FAKE_CUBLAS_FAULT") != NULL || getenv("FAKE_CUDA_FAULT") != NULL;
  if (alive > 0 && !may_fail) mistake("a handle was not destroyed");
}

/* The status that this call is to return. */
static int fault(const char *function) {
  static int calls;
  const char *const text = getenv("FAKE_CUBLAS_FAULT");
  const size_t length = strlen(function);
  int number = 0, status = SUCCESS;
  if (text == NULL || strncmp(text, function, length) != 0 || text[length] != ':') return SUCCESS;
  if (sscanf(text + length, ":%d:%d", &number, &status) != 2) mistake("FAKE_CUBLAS_FAULT is FUNCTION:NUMBER:STATUS");
  pthread_mutex_lock(&lock);
  if (++calls != number) status = SUCCESS;
  pthread_mutex_unlock(&lock);
  return status;
}

static void check_context(const handle *h) {
  void *context = NULL;
  if (cuda.get_current(&context) != 0 || context == NULL) mistake("no context is current");
  if (h != NULL && context != h->context) mistake("the current context is other than the handle's");
}

EXPORT int cublasCreate_v2(handle **created) {
  const int status = fault("cublasCreate_v2");
  if (status != SUCCESS) return status;
  check_context(NULL);
  *created = calloc(1, sizeof(handle));
  if (*created == NULL || cuda.get_current(&(*created)->context) != 0) return ALLOC_FAILED;
  pthread_mutex_lock(&lock);
  ++alive;
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}

EXPORT int cublasDestroy_v2(handle *h) {
  check_context(h);
  if (cuda.synchronize(h->stream) != 0) return EXECUTION_FAILED;
  for (int i = 0; i < 3; ++i) {
    while (h->staging[i] != NULL) {
      memory *const last = h->staging[i];
      h->staging[i] = last->next;
      if (cuda.release(last->at) != 0) mistake("page-locked memory was not released");
      free(last);
    }
  }
  free(h);
  pthread_mutex_lock(&lock);
  --alive;
  pthread_mutex_unlock(&lock);
  return fault("cublasDestroy_v2");
}

EXPORT int cublasSetStream_v2(handle *h, void *stream) {
  check_context(h);
  h->stream = stream;
  return fault("cublasSetStream_v2");
}

EXPORT int cublasSetMathMode(handle *h, int mode) {
  h->math = mode;
  return mode == PEDANTIC_MATH || mode == TF32_MATH ? fault("cublasSetMathMode") : INVALID_VALUE;
}

EXPORT int cublasGetVersion_v2(handle *h, int *version) {
  (void)h;
  *version = VERSION;
  return fault("cublasGetVersion_v2");
}

/* The element of op(factor) in a row and a column of it. */
static float element(const job *j, int factor, int row, int column) {
  const int transposed = j->transposed[factor];
  return j->factors[factor][(transposed ? column : row) + (size_t)(transposed ? row : column) * (size_t)j->leading[factor]];
}

/* Column by column, as BLAS has them. */
static void multiply(void *data) {
  job *const j = data;
  for (int column = 0; column < j->n; ++column) {
    float *const product = j->product + (size_t)column * (size_t)j->leading[2];
    for (int row = 0; row < j->m; ++row) product[row] = 0.0f;
    for (int i = 0; i < j->k; ++i) {
      const float factor = j->alpha * element(j, 1, i, column);
      for (int row = 0; row < j->m; ++row) product[row] += element(j, 0, row, i) * factor;
    }
  }
  free(j);
}

static float *stage(handle *h, int which, size_t bytes) {
  memory *last = h->staging[which];
  if (last == NULL || last->bytes < bytes) {
    memory *const larger = calloc(1, sizeof(*larger));
    void *at = NULL;
    if (larger == NULL || cuda.allocate(&at, bytes, 0) != 0) {
      free(larger);
      return NULL;
    }
    *larger = (memory){last, at, bytes};
    h->staging[which] = last = larger;
  }
  return last->at;
}

/* How many bytes there are from the first element to the last one of a matrix of columns. */
static size_t span(int rows, int columns, int leading) {
  return ((size_t)(columns - 1) * (size_t)leading + (size_t)rows) * sizeof(float);
}

static int queue(handle *h, job *j, const float *const *factors, float *product) {
  const int rows[2] = {j->transposed[0] ? j->k : j->m, j->transposed[1] ? j->n : j->k};
  const int columns[2] = {j->transposed[0] ? j->m : j->k, j->transposed[1] ? j->k : j->n};
  for (int i = 0; i < 2; ++i) {
    const size_t bytes = span(rows[i], columns[i], j->leading[i]);
    float *const staged = stage(h, i, bytes);
    if (staged == NULL) return ALLOC_FAILED;
    if (cuda.to_host(staged, (uint64_t)(uintptr_t)factors[i], bytes, h->stream) != 0) return EXECUTION_FAILED;
    j->factors[i] = staged;
  }
  const size_t bytes = span(j->m, j->n, j->leading[2]);
  j->product = stage(h, 2, bytes);
  if (j->product == NULL) return ALLOC_FAILED;
  float *const staged = j->product;
  if (cuda.call(h->stream, multiply, j) != 0) return EXECUTION_FAILED;
  /* The function frees the job, and may have run. */
  if (cuda.to_device((uint64_t)(uintptr_t)product, staged, bytes, h->stream) != 0) mistake("a product is lost");
  return SUCCESS;
}

EXPORT int cublasSgemm_v2(handle *h, int transpose_a, int transpose_b, int m, int n, int k, const float *alpha,
                          const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc) {
  const float *const factors[2] = {a, b};
  const int status = fault("cublasSgemm_v2");
  if (status != SUCCESS) return status;
  check_context(h);
  if (h->stream == NULL) mistake("a product on the default stream");
  if (h->math == 0) mistake("a product before cublasSetMathMode()");
  if (*beta != 0.0f || ldc != m) mistake("this product is not known: beta must be 0, and c be contiguous");
  if (m < 1 || n < 1 || k < 1 || lda < (transpose_a ? k : m) || ldb < (transpose_b ? n : k)) return INVALID_VALUE;
  job *const j = malloc(sizeof(*j));
  if (j == NULL) return ALLOC_FAILED;
  *j = (job){.transposed = {transpose_a, transpose_b}, .m = m, .n = n, .k = k, .leading = {lda, ldb, ldc}, .alpha = *alpha};
  const int queued = queue(h, j, factors, c);
  if (queued != SUCCESS) free(j);
  return queued;
}
