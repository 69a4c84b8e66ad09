/* A CUDA driver that makes several cards of one, so that tests of many run on the card of a machine that has one.
 *
 * It lies where a process looks for libcuda.so.1 and hands each call to the driver that ONE_CARD_DRIVER names. Card 0
 * has the card's primary context; each further one is the same card with a context of its own, so work in one context
 * that uses memory of another without a copy fails as on two cards. FAKE_CUDA_DEVICES says how many there are.
 *
 * It knows the functions that Umbo uses, as the tests' own driver does, and answers that driver's questions: it counts
 * the memory that is alive, finds no mistakes and lets no call fail. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_DEVICE = 101, MOST = 64 };

typedef void *handle;
typedef unsigned int number;

typedef struct {
  int type;
  int id;
} location;

/* CUmemPoolProps, up to where the device is. What follows is copied as it is. */
typedef struct {
  int allocation;
  int handles;
  location at;
  char rest[72];
} pool_properties;

typedef struct {
  location at;
  int flags;
} pool_access;

static void *driver;
static int cards;
static atomic_llong alive;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  handle context;
  int holders;
} others[MOST];

static void start(void) {
  const char *path = getenv("ONE_CARD_DRIVER");
  const char *count = getenv("FAKE_CUDA_DEVICES");
  driver = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  cards = count ? atoi(count) : 1;
  if (driver && cards >= 1 && cards <= MOST) return;
  fprintf(stderr, "one_card: ONE_CARD_DRIVER: %s; FAKE_CUDA_DEVICES: %s, of 1 to %d\n", driver ? path : "no driver",
          count ? count : "1", (int)MOST);
  exit(1);
}

/* A function of the driver below. */
static void *below(const char *name) {
  pthread_once(&once, start);
  void *found = dlsym(driver, name);
  if (!found) {
    fprintf(stderr, "one_card: the driver has no function %s\n", name);
    exit(1);
  }
  return found;
}

/* Declares a function's type, and looks the function up when it is called first. */
#define BELOW(name, ...)                            \
  static int (*function)(__VA_ARGS__);              \
  if (!function) *(void **)&function = below(#name);

/* Arguments are numbers and addresses, at most six, which lie in registers: what a function does not have goes along.
 * `change` is how much more memory is alive after it. */
typedef uintptr_t word;
#define HAND_DOWN_COUNTING(name, change)                                          \
  int name(word a, word b, word c, word d, word e, word f) {              \
    BELOW(name, word, word, word, word, word, word)                       \
    int code = function(a, b, c, d, e, f);                                \
    if (code == SUCCESS) alive += (change);                               \
    return code;                                                          \
  }
#define HAND_DOWN(name) HAND_DOWN_COUNTING(name, 0)
HAND_DOWN_COUNTING(cuMemAlloc_v2, 1) HAND_DOWN_COUNTING(cuMemAllocAsync, 1)
HAND_DOWN_COUNTING(cuMemAllocFromPoolAsync, 1) HAND_DOWN_COUNTING(cuMemFree_v2, -1)
HAND_DOWN_COUNTING(cuMemFreeAsync, -1)
HAND_DOWN(cuInit) HAND_DOWN(cuGetErrorName) HAND_DOWN(cuGetErrorString) HAND_DOWN(cuCtxSetCurrent)
HAND_DOWN(cuCtxGetCurrent) HAND_DOWN(cuCtxSynchronize) HAND_DOWN(cuStreamCreate) HAND_DOWN(cuStreamDestroy_v2)
HAND_DOWN(cuStreamQuery) HAND_DOWN(cuStreamSynchronize) HAND_DOWN(cuStreamWaitEvent) HAND_DOWN(cuStreamGetCtx)
HAND_DOWN(cuLaunchHostFunc) HAND_DOWN(cuEventCreate) HAND_DOWN(cuEventDestroy_v2) HAND_DOWN(cuEventRecord)
HAND_DOWN(cuEventSynchronize) HAND_DOWN(cuEventElapsedTime) HAND_DOWN(cuMemGetInfo_v2) HAND_DOWN(cuMemHostAlloc)
HAND_DOWN(cuMemFreeHost) HAND_DOWN(cuMemHostRegister_v2) HAND_DOWN(cuMemHostUnregister)
HAND_DOWN(cuPointerGetAttribute) HAND_DOWN(cuMemcpyHtoD_v2) HAND_DOWN(cuMemcpyHtoDAsync_v2)
HAND_DOWN(cuMemcpyDtoH_v2) HAND_DOWN(cuMemcpyDtoHAsync_v2) HAND_DOWN(cuMemcpyDtoDAsync_v2)
HAND_DOWN(cuMemcpyPeerAsync) HAND_DOWN(cuMemsetD8Async) HAND_DOWN(cuMemPoolGetAttribute)
HAND_DOWN(cuMemPoolSetAttribute) HAND_DOWN(cuMemPoolTrimTo) HAND_DOWN(cuModuleLoadData)
HAND_DOWN(cuModuleGetFunction)

int cuLaunchKernel(handle kernel, number grid_x, number grid_y, number grid_z, number block_x, number block_y,
                   number block_z, number shared, handle stream, void **parameters, void **list) {
  BELOW(cuLaunchKernel, handle, number, number, number, number, number, number, number, handle, void **, void **)
  return function(kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, parameters, list);
}

/* Whether there is such a card. */
static int is_card(int device) {
  pthread_once(&once, start);
  return device >= 0 && device < cards;
}

int cuDeviceGetCount(int *count) {
  BELOW(cuDeviceGetCount, int *)
  int code = function(count);
  if (code == SUCCESS && *count > 0) *count = cards;
  return code;
}

int cuDeviceGet(int *device, int ordinal) {
  BELOW(cuDeviceGet, int *, int)
  int code = function(device, 0);
  if (code != SUCCESS) return code;
  if (!is_card(ordinal)) return INVALID_DEVICE;
  *device = ordinal;
  return SUCCESS;
}

/* A question about a card is one about the card. */
#define ON_THE_CARD(name, A, B)                                           \
  int name(A a, B b, int device) {                                        \
    BELOW(name, A, B, int)                                                \
    return is_card(device) ? function(a, b, 0) : INVALID_DEVICE;          \
  }
ON_THE_CARD(cuDeviceGetName, char *, int)
ON_THE_CARD(cuDeviceGetAttribute, int *, int)

int cuDeviceGetDefaultMemPool(handle *pool, int device) {
  BELOW(cuDeviceGetDefaultMemPool, handle *, int)
  return is_card(device) ? function(pool, 0) : INVALID_DEVICE;
}

static int create(handle *context) {
  BELOW(cuCtxCreate_v2, handle *, number, int)
  return function(context, 0, 0);
}

/* A new context is the thread's current one, which a retained one is not. */
static int leave(void) {
  BELOW(cuCtxPopCurrent_v2, handle *)
  handle current;
  return function(&current);
}

static int destroy(handle context) {
  BELOW(cuCtxDestroy_v2, handle)
  return function(context);
}

int cuDevicePrimaryCtxRetain(handle *context, int device) {
  BELOW(cuDevicePrimaryCtxRetain, handle *, int)
  if (!is_card(device) || device == 0) return device == 0 ? function(context, 0) : INVALID_DEVICE;
  pthread_mutex_lock(&lock);
  int code = others[device].holders > 0 ? SUCCESS : create(&others[device].context);
  if (code == SUCCESS && others[device].holders == 0) code = leave();
  if (code == SUCCESS) {
    others[device].holders += 1;
    *context = others[device].context;
  }
  pthread_mutex_unlock(&lock);
  return code;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  BELOW(cuDevicePrimaryCtxRelease_v2, int)
  if (!is_card(device) || device == 0) return device == 0 ? function(0) : INVALID_DEVICE;
  pthread_mutex_lock(&lock);
  int code = --others[device].holders == 0 ? destroy(others[device].context) : SUCCESS;
  pthread_mutex_unlock(&lock);
  return code;
}

int cuMemPoolCreate(handle *pool, const pool_properties *properties) {
  BELOW(cuMemPoolCreate, handle *, const pool_properties *)
  pool_properties own = *properties;
  own.at.id = 0;
  return function(pool, &own);
}

int cuMemPoolSetAccess(handle pool, const pool_access *list, size_t count) {
  BELOW(cuMemPoolSetAccess, handle, const pool_access *, size_t)
  for (size_t index = 0; index < count; index++) {
    pool_access own = list[index];
    own.at.id = 0;
    int code = function(pool, &own, 1);
    if (code != SUCCESS) return code;
  }
  return SUCCESS;
}

int cuMemPoolGetAccess(int *flags, handle pool, const location *at) {
  BELOW(cuMemPoolGetAccess, int *, handle, const location *)
  location own = {at->type, 0};
  return function(flags, pool, &own);
}

/* What tests ask their own driver. */
unsigned long long fake_cuda_ask(const char *question, char *text, size_t room) {
  if (room > 0) text[0] = 0;
  return strcmp(question, "live memory") == 0 ? (unsigned long long)alive : 0;
}
