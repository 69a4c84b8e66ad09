/* Written by tests/c/generator from umbo.h: random calls of all public functions, with a model of
 * which handles are alive.
 *
 *   sequences [--calls N] [--seconds S] [--seed X] [--without FUNCTION[,FUNCTION...]]
 *
 * Handles are live ones, released ones, ones of other types, NULL and made-up numbers; numbers are
 * small, negative and extreme; callbacks make calls of their own. Nothing may crash, hang, give
 * INTERNAL or write an output without success; only live handles of the right type can be retained;
 * umbo_live_handles must agree with the model; each user data is destroyed exactly once. What is saved
 * goes into a new folder in the working one, which is removed at the end; one that is left tells of a crash. */
#define _GNU_SOURCE
#include <ftw.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#include <umbo/dlpack.h>
#include <umbo/all.h>

/* Of each type so many handles are kept, and so many that are gone. */
#define MOST_LIVE 12
#define MOST_GONE 16
#define KINDS (UMBO_HANDLE_TRAINER + 1)
/* Elements of arrays that go in, and of arrays that come out. */
#define MOST_ITEMS 8
#define MOST_ROOM 16
#define MOST_DEPTH 6
#define MOST_NESTING 2
#define MOST_TOKENS (1 << 24)
#ifndef PATIENCE
#define PATIENCE 120
#endif
#define BLOCK 65536
#define TRACE 16

struct live {
    void *handle;
    int depth;
    /* The callback at whose end the library releases it; 0: none. */
    int64_t until;
};

struct fuzzer {
    uint64_t state;
    struct live live[KINDS][MOST_LIVE];
    int count[KINDS];
    void *gone[KINDS][MOST_GONE];
    int gone_count[KINDS];
    /* How deep what goes into the call is. */
    int depth;
    int nesting;
    /* The callback that is running, if it releases what is made in it; 0 otherwise. How many there were. */
    int64_t callback, callbacks;
    int64_t calls, succeeded, refused;
    pthread_t thread;
    int64_t tokens;
    /* Scopes that are open, innermost last. */
    void *scopes[MOST_ROOM];
    int scope_count;
    const char *trace[TRACE];
    int64_t arrays[8][MOST_ROOM];
    int32_t axes[8][MOST_ROOM];
    double reals[8][MOST_ROOM];
    const char *texts[8][MOST_ROOM];
    void *picked[8][MOST_ITEMS];
    int turn;
    char place[1 << 16];
};

static struct fuzzer fuzzer;
static uint64_t seed = 1;
static int failures;
/* How often each user data was destroyed. */
static unsigned char destroyed[MOST_TOKENS];
static int64_t tokens_destroyed;
static char memory[BLOCK + 64];
static const char *without = "";

static void wrong(const struct fuzzer *f, const char *what, const char *detail) {
    if (__atomic_add_fetch(&failures, 1, __ATOMIC_SEQ_CST) > 20) return;
    fprintf(stderr, "sequences --seed %llu: call %lld, %s: %s: %s\n", (unsigned long long)seed,
            (long long)f->calls, f->trace[f->calls % TRACE], what, detail);
}

/* ---- drawing */

static uint64_t draw(struct fuzzer *f) {
    uint64_t z = f->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int below(struct fuzzer *f, int count) { return (int)(draw(f) % (uint64_t)count); }
static int one_in(struct fuzzer *f, int count) { return below(f, count) == 0; }

/* -1 to -4, or a special number. */
static int small(struct fuzzer *f) {
    return one_in(f, 16) ? -1 - 10 * below(f, 2) - below(f, 4) : below(f, 5);
}
static int room(struct fuzzer *f) { return one_in(f, 16) ? 0 : 1 + below(f, MOST_ROOM); }
static int ndim(struct fuzzer *f) { return one_in(f, 16) ? 10 * below(f, 2) - 1 : below(f, 4); }

static int32_t narrow(struct fuzzer *f) {
    static const int32_t extremes[] = {INT32_MIN, INT32_MAX, -2, 1000, 64, 255};
    return one_in(f, 10) ? extremes[below(f, COUNT_OF(extremes))] : small(f);
}

/* A constant of an enum, or another number. */
static int32_t constant(struct fuzzer *f, const int32_t *constants, int count) {
    return one_in(f, 10) ? narrow(f) + 100 * below(f, 20) : constants[below(f, count)];
}

static int64_t wide(struct fuzzer *f) {
    static const int64_t extremes[] = {INT64_MIN, INT64_MAX, INT32_MAX, -2, (int64_t)1 << 40, 1000};
    return one_in(f, 10) ? extremes[below(f, COUNT_OF(extremes))] : small(f);
}

static double real(struct fuzzer *f) {
    const double reals[] = {0, 1, 0.5, 0.9, -1, 1e300, 1e-300, NAN, INFINITY, 2};
    return reals[below(f, COUNT_OF(reals))];
}

static double deadline(struct fuzzer *f) {
    const double reals[] = {0, 1e-5, 1, 1e9, -1, NAN, INFINITY};
    return reals[below(f, COUNT_OF(reals))];
}

static size_t size_of_struct(struct fuzzer *f, size_t size) {
    const size_t sizes[] = {0, size, UMBO_STRUCT_MARK + 4, UMBO_STRUCT_MARK + 8, UMBO_STRUCT_MARK + size - 8};
    return one_in(f, 24) ? sizes[below(f, COUNT_OF(sizes))] : UMBO_STRUCT_MARK + size;
}

static const char *text(struct fuzzer *f) {
    static const char *const all[] = {
        NULL, "", "x", "m", "momentum", "CPU:0", "CPU:1", "GPU:0", "/device:CPU:0", "cpu",
        "/job:localhost/replica:0/task:0/device:CPU:0", "\xff\xfe", "{}", "{\"cluster\": {}}",
        "no such file", "name_1", "[", "CPU:99999999999999999999"};
    return all[below(f, COUNT_OF(all))];
}

/* Files and folders that may be written, in the folder of enter_folder, and paths that name none. */
static const char *path(struct fuzzer *f) {
    static const char *const all[] = {NULL, "", "\xff\xfe", ".", "/dev/null/none", "sequences_1.safetensors",
                                      "sequences_2.safetensors", "sequences_folder"};
    return all[below(f, COUNT_OF(all))];
}

static char folder[] = "umbo_sequences_XXXXXX";

/* Goes into a new folder: relative paths are drawn, and nothing else may be overwritten by them. */
static void enter_folder(void) { CHECK(mkdtemp(folder) != NULL && chdir(folder) == 0); }

static int remove_entry(const char *name, const struct stat *status, int kind, struct FTW *where) {
    (void)status, (void)kind, (void)where;
    return remove(name);
}

static void remove_folder(void) {
    CHECK(chdir("..") == 0 && nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS) == 0);
}

static void *block(struct fuzzer *f) {
    const size_t address = ((size_t)memory + 63) & ~(size_t)63;
    return one_in(f, 12) ? NULL : (char *)address + (one_in(f, 24) ? 1 : 0);
}

/* Arrays stay for the call that they are drawn for. */
static int next_array(struct fuzzer *f) { return f->turn = (f->turn + 1) % 8; }

static const int64_t *sizes(struct fuzzer *f) {
    int64_t *const array = f->arrays[next_array(f)];
    int index;
    for (index = 0; index < MOST_ROOM; index++) array[index] = one_in(f, 30) ? -1 : below(f, 4);
    return one_in(f, 12) ? NULL : array;
}

/* A tensor of another library: often a good one. What it leads to stays until the end. */
static DLTensor others_elements(struct fuzzer *f) {
    DLTensor drawn;
    drawn.data = block(f);
    drawn.device.device_type = one_in(f, 12) ? (DLDeviceType)below(f, 8) : kDLCPU;
    drawn.device.device_id = 0;
    drawn.ndim = one_in(f, 12) ? below(f, 12) - 2 : below(f, 4);
    drawn.dtype.code = (uint8_t)(one_in(f, 4) ? below(f, 8) : kDLFloat);
    drawn.dtype.bits = (uint8_t)(one_in(f, 4) ? below(f, 72) : 32);
    drawn.dtype.lanes = one_in(f, 12) ? 0 : 1;
    drawn.shape = (int64_t *)sizes(f);
    drawn.strides = one_in(f, 2) ? NULL : (int64_t *)sizes(f);
    drawn.byte_offset = (uint64_t)(one_in(f, 6) ? below(f, 16) : 0);
    return drawn;
}

static void no_longer_used(struct DLManagedTensorVersioned *managed) { managed->manager_ctx = NULL; }
static void no_longer_used_legacy(struct DLManagedTensor *managed) { managed->manager_ctx = NULL; }

static CHECK_MAYBE_UNUSED struct DLManagedTensorVersioned *others_tensor(struct fuzzer *f) {
    static struct DLManagedTensorVersioned drawn[64];
    struct DLManagedTensorVersioned *const one = &drawn[below(f, 64)];
    /* The library has read all but the deleter of one that is in use. */
    one->version.major = one_in(f, 12) ? (uint32_t)below(f, 3) : DLPACK_MAJOR_VERSION;
    one->version.minor = (uint32_t)below(f, 3);
    one->deleter = one_in(f, 6) ? NULL : no_longer_used;
    one->flags = (uint64_t)below(f, 4);
    one->dl_tensor = others_elements(f);
    return one_in(f, 20) ? NULL : one;
}

static CHECK_MAYBE_UNUSED struct DLManagedTensor *others_legacy_tensor(struct fuzzer *f) {
    static struct DLManagedTensor drawn[64];
    struct DLManagedTensor *const one = &drawn[below(f, 64)];
    one->deleter = one_in(f, 6) ? NULL : no_longer_used_legacy;
    one->dl_tensor = others_elements(f);
    return one_in(f, 20) ? NULL : one;
}

static CHECK_MAYBE_UNUSED umbo_view view(struct fuzzer *f) {
    const int64_t *const shape = sizes(f);
    const int axes = ndim(f);
    umbo_view drawn = umbo_view_of_memory((umbo_dtype)(UMBO_DTYPE_FLOAT16 + below(f, 14)),
                                          shape == NULL && axes > 0 ? 0 : axes, shape, block(f));
    /* Not that of a GPU: it would take the address for one of its own. */
    if (one_in(f, 12)) drawn.device.type = (umbo_device_type)(below(f, 2) * 3);
    if (one_in(f, 12)) drawn.flags = UMBO_VIEW_READ_ONLY;
    return drawn;
}

static const int64_t *strides(struct fuzzer *f) {
    int64_t *const array = f->arrays[next_array(f)];
    int index;
    for (index = 0; index < MOST_ROOM; index++) array[index] = below(f, 4);
    return one_in(f, 2) ? NULL : array;
}

static const int32_t *axes(struct fuzzer *f) {
    int32_t *const array = f->axes[next_array(f)];
    int index;
    for (index = 0; index < MOST_ROOM; index++) array[index] = small(f);
    return one_in(f, 12) ? NULL : array;
}

static const double *reals(struct fuzzer *f) {
    double *const array = f->reals[next_array(f)];
    int index;
    for (index = 0; index < MOST_ROOM; index++) array[index] = real(f);
    return one_in(f, 12) ? NULL : array;
}

static const char *const *texts(struct fuzzer *f) {
    const char **const array = f->texts[next_array(f)];
    int index;
    for (index = 0; index < MOST_ROOM; index++) array[index] = text(f);
    return one_in(f, 12) ? NULL : array;
}

