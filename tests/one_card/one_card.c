/*
 * A CUDA driver that makes several cards of one: the tests' own driver shows what happens on many cards, and this one lets
 * the same tests run on the card of a machine that has only one.
 *
 * It lies where a process looks for libcuda.so.1 and hands each call to the driver that ONE_CARD_DRIVER names. Card 0 is
 * the card with its primary context; each further one is the same card with a context of its own, so work in one context
 * that uses memory of another without a copy fails as it does on two cards. FAKE_CUDA_DEVICES says how many there are, as
 * it does for the tests' own driver.
 *
 * It knows the functions that Umbo uses, as the tests' own driver does, and answers that driver's questions: it counts the
 * memory that is alive, finds no mistakes and lets no call fail.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, INVALID_DEVICE = 101, MOST = 64 };

typedef void *handle;
typedef unsigned long long address;
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
static atomic_ullong alive;
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
  if (!driver) {
    fprintf(stderr, "one_card: ONE_CARD_DRIVER names no driver: %s\n", path ? dlerror() : "it is not set");
    exit(1);
  }
  cards = count ? atoi(count) : 1;
  if (cards < 1 || cards > MOST) {
    fprintf(stderr, "one_card: ONE_CARD_COUNT is %s; it can be 1 to %d\n", count, (int)MOST);
    exit(1);
  }
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
  if (!function) {                                  \
    *(void **)&function = below(#name);             \
  }

#define HAND_DOWN_0(name) \
  int name(void) { BELOW(name, void) return function(); }
#define HAND_DOWN_1(name, A) \
  int name(A a) { BELOW(name, A) return function(a); }
#define HAND_DOWN_2(name, A, B) \
  int name(A a, B b) { BELOW(name, A, B) return function(a, b); }
#define HAND_DOWN_3(name, A, B, C) \
  int name(A a, B b, C c) { BELOW(name, A, B, C) return function(a, b, c); }
#define HAND_DOWN_4(name, A, B, C, D) \
  int name(A a, B b, C c, D d) { BELOW(name, A, B, C, D) return function(a, b, c, d); }
#define HAND_DOWN_6(name, A, B, C, D, E, F) \
  int name(A a, B b, C c, D d, E e, F f) { BELOW(name, A, B, C, D, E, F) return function(a, b, c, d, e, f); }

HAND_DOWN_1(cuInit, number)
HAND_DOWN_2(cuGetErrorName, int, const char **)
HAND_DOWN_2(cuGetErrorString, int, const char **)
HAND_DOWN_1(cuCtxSetCurrent, handle)
HAND_DOWN_1(cuCtxGetCurrent, handle *)
HAND_DOWN_0(cuCtxSynchronize)
HAND_DOWN_2(cuStreamCreate, handle *, number)
HAND_DOWN_1(cuStreamDestroy_v2, handle)
HAND_DOWN_1(cuStreamQuery, handle)
HAND_DOWN_1(cuStreamSynchronize, handle)
HAND_DOWN_3(cuStreamWaitEvent, handle, handle, number)
HAND_DOWN_2(cuStreamGetCtx, handle, handle *)
HAND_DOWN_3(cuLaunchHostFunc, handle, handle, handle)
HAND_DOWN_2(cuEventCreate, handle *, number)
HAND_DOWN_1(cuEventDestroy_v2, handle)
HAND_DOWN_2(cuEventRecord, handle, handle)
HAND_DOWN_1(cuEventSynchronize, handle)
HAND_DOWN_3(cuEventElapsedTime, float *, handle, handle)
HAND_DOWN_2(cuMemGetInfo_v2, size_t *, size_t *)
HAND_DOWN_3(cuMemHostAlloc, handle *, size_t, number)
HAND_DOWN_1(cuMemFreeHost, handle)
HAND_DOWN_3(cuPointerGetAttribute, handle, int, address)
HAND_DOWN_3(cuMemcpyHtoD_v2, address, const void *, size_t)
HAND_DOWN_4(cuMemcpyHtoDAsync_v2, address, const void *, size_t, handle)
HAND_DOWN_3(cuMemcpyDtoH_v2, handle, address, size_t)
HAND_DOWN_4(cuMemcpyDtoHAsync_v2, handle, address, size_t, handle)
HAND_DOWN_4(cuMemcpyDtoDAsync_v2, address, address, size_t, handle)
HAND_DOWN_6(cuMemcpyPeerAsync, address, handle, address, handle, size_t, handle)
HAND_DOWN_4(cuMemsetD8Async, address, unsigned char, size_t, handle)
HAND_DOWN_3(cuMemPoolGetAttribute, handle, int, handle)
HAND_DOWN_3(cuMemPoolSetAttribute, handle, int, handle)
HAND_DOWN_2(cuMemPoolTrimTo, handle, size_t)
HAND_DOWN_2(cuModuleLoadData, handle *, const void *)
HAND_DOWN_3(cuModuleGetFunction, handle *, handle, const char *)

int cuLaunchKernel(handle kernel, number grid_x, number grid_y, number grid_z, number block_x, number block_y, number block_z,
                   number shared, handle stream, void **parameters, void **list) {
  BELOW(cuLaunchKernel, handle, number, number, number, number, number, number, number, handle, void **, void **)
  return function(kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, parameters, list);
}

/* Counts what is alive. */
static int made(int code) {
  alive += code == SUCCESS;
  return code;
}

static int freed(int code) {
  alive -= code == SUCCESS;
  return code;
}

int cuMemAlloc_v2(address *at, size_t bytes) {
  BELOW(cuMemAlloc_v2, address *, size_t)
  return made(function(at, bytes));
}

int cuMemAllocAsync(address *at, size_t bytes, handle stream) {
  BELOW(cuMemAllocAsync, address *, size_t, handle)
  return made(function(at, bytes, stream));
}

int cuMemAllocFromPoolAsync(address *at, size_t bytes, handle pool, handle stream) {
  BELOW(cuMemAllocFromPoolAsync, address *, size_t, handle, handle)
  return made(function(at, bytes, pool, stream));
}

int cuMemFree_v2(address at) {
  BELOW(cuMemFree_v2, address)
  return freed(function(at));
}

int cuMemFreeAsync(address at, handle stream) {
  BELOW(cuMemFreeAsync, address, handle)
  return freed(function(at, stream));
}

/* Whether there is such a card. */
static int is_card(int device) {
  pthread_once(&once, start);
  return device >= 0 && device < cards;
}

int cuDeviceGetCount(int *count) {
  BELOW(cuDeviceGetCount, int *)
  int code = function(count);
  if (code == SUCCESS && *count > 0) {
    *count = cards;
  }
  return code;
}

int cuDeviceGet(int *device, int ordinal) {
  BELOW(cuDeviceGet, int *, int)
  int code = function(device, 0);
  if (code != SUCCESS) {
    return code;
  }
  if (!is_card(ordinal)) {
    return INVALID_DEVICE;
  }
  *device = ordinal;
  return SUCCESS;
}

int cuDeviceGetName(char *name, int room, int device) {
  BELOW(cuDeviceGetName, char *, int, int)
  return is_card(device) ? function(name, room, 0) : INVALID_DEVICE;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
  BELOW(cuDeviceGetAttribute, int *, int, int)
  return is_card(device) ? function(value, attribute, 0) : INVALID_DEVICE;
}

int cuDeviceGetDefaultMemPool(handle *pool, int device) {
  BELOW(cuDeviceGetDefaultMemPool, handle *, int)
  return is_card(device) ? function(pool, 0) : INVALID_DEVICE;
}

int cuDevicePrimaryCtxRetain(handle *context, int device) {
  BELOW(cuDevicePrimaryCtxRetain, handle *, int)
  if (!is_card(device)) {
    return INVALID_DEVICE;
  }
  if (device == 0) {
    return function(context, 0);
  }
  static int (*create)(handle *, number, int);
  static int (*pop)(handle *);
  if (!create) {
    *(void **)&create = below("cuCtxCreate_v2");
    *(void **)&pop = below("cuCtxPopCurrent_v2");
  }
  int code = SUCCESS;
  pthread_mutex_lock(&lock);
  if (others[device].holders == 0) {
    handle current;
    code = create(&others[device].context, 0, 0);
    /* It has become the thread's current one, which retaining does not do. */
    if (code == SUCCESS) {
      code = pop(&current);
    }
  }
  if (code == SUCCESS) {
    others[device].holders += 1;
    *context = others[device].context;
  }
  pthread_mutex_unlock(&lock);
  return code;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  BELOW(cuDevicePrimaryCtxRelease_v2, int)
  if (!is_card(device)) {
    return INVALID_DEVICE;
  }
  if (device == 0) {
    return function(0);
  }
  static int (*destroy)(handle);
  if (!destroy) {
    *(void **)&destroy = below("cuCtxDestroy_v2");
  }
  int code = SUCCESS;
  pthread_mutex_lock(&lock);
  if (others[device].holders == 0) {
    code = INVALID_VALUE;
  } else if (--others[device].holders == 0) {
    code = destroy(others[device].context);
  }
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
    if (code != SUCCESS) {
      return code;
    }
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
  if (room > 0) {
    text[0] = 0;
  }
  return strcmp(question, "live memory") == 0 ? alive : 0;
}
