/* Written by tests/c/generator from umbo.h: random calls of all public functions, with a model of
 * which handles are alive.
 *
 *   sequences [--calls N] [--seconds S] [--seed X] [--without FUNCTION[,FUNCTION...]]
 *
 * Handles are live ones, released ones, ones of other types, NULL and made-up numbers; numbers are
 * small, negative and extreme; callbacks make calls of their own. Nothing may crash, hang, give
 * INTERNAL or write an output without success; only live handles of the right type can be retained;
 * umbo_live_handles must agree with the model; each user data is destroyed exactly once. */
#define _GNU_SOURCE
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#include <umbo/dlpack.h>
#include <umbo/tensorflow.h>

/* Of each type so many handles are kept, and so many that are gone. */
#define MOST_LIVE 12
#define MOST_GONE 16
#define KINDS (UMBO_HANDLE_COMMUNICATOR + 1)
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

static int small(struct fuzzer *f) { return one_in(f, 16) ? -1 : below(f, 5); }
static int room(struct fuzzer *f) { return one_in(f, 16) ? 0 : 1 + below(f, MOST_ROOM); }
static int rank(struct fuzzer *f) { return one_in(f, 16) ? 10 * below(f, 2) - 1 : below(f, 4); }
static CHECK_MAYBE_UNUSED int rarely(struct fuzzer *f) { return one_in(f, 32); }

static int32_t narrow(struct fuzzer *f) {
    static const int32_t extremes[] = {INT32_MIN, INT32_MAX, -2, 1000, 64, 255};
    return one_in(f, 10) ? extremes[below(f, COUNT_OF(extremes))] : small(f);
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
    const size_t sizes[] = {0, 4, 8, size - 8};
    return one_in(f, 24) ? sizes[below(f, COUNT_OF(sizes))] : size;
}

static const char *text(struct fuzzer *f) {
    static const char *const all[] = {
        NULL, "", "x", "m", "momentum", "CPU:0", "CPU:1", "GPU:0", "/device:CPU:0", "cpu",
        "/job:localhost/replica:0/task:0/device:CPU:0", "\xff\xfe", "{}", "{\"cluster\": {}}",
        "no such file", "name_1", "[", "CPU:99999999999999999999"};
    return all[below(f, COUNT_OF(all))];
}

/* Files and folders that may be written, and what is none. */
static const char *path(struct fuzzer *f) {
    static const char *const all[] = {NULL, "", "\xff\xfe", ".", "/dev/null/none", "sequences_1.safetensors",
                                      "sequences_2.safetensors", "sequences_folder"};
    return all[below(f, COUNT_OF(all))];
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
    const int axes = rank(f);
    umbo_view drawn = umbo_view_of_memory((umbo_dtype)(1 + below(f, 14)),
                                          shape == NULL && axes > 0 ? 0 : axes, shape, block(f));
    if (one_in(f, 12)) drawn.device.type = (umbo_device_type)below(f, 4);
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

/* ---- the model of what is alive */

static struct live *find(struct fuzzer *f, int kind, const void *handle) {
    int index;
    for (index = 0; index < f->count[kind]; index++)
        if (f->live[kind][index].handle == handle) return &f->live[kind][index];
    return NULL;
}

/* A handle for a parameter of this type. */
static void *pick(struct fuzzer *f, int kind) {
    const int way = below(f, 40);
    int other = kind;
    if (way == 0) return NULL;
    if (way == 1 && f->gone_count[kind] > 0)
        return f->gone[kind][below(f, f->gone_count[kind] < MOST_GONE ? f->gone_count[kind]
                                                                      : MOST_GONE)];
    if (way == 2) return (void *)(size_t)draw(f);
    if (way == 3) return (void *)(size_t)below(f, 4096);
    if (way == 4) other = 1 + below(f, KINDS - 1);
    if (f->count[other] == 0) return NULL;
    {
        const struct live *const live = &f->live[other][below(f, f->count[other])];
        if (live->depth > f->depth) f->depth = live->depth;
        return live->handle;
    }
}

static void **picks(struct fuzzer *f, int kind) {
    void **const array = f->picked[next_array(f)];
    int index;
    for (index = 0; index < MOST_ITEMS; index++) array[index] = pick(f, kind);
    return one_in(f, 16) ? NULL : array;
}

static void forget(struct fuzzer *f, int kind, struct live *live) {
    f->gone[kind][f->gone_count[kind]++ % MOST_GONE] = live->handle;
    *live = f->live[kind][--f->count[kind]];
}

static void release(int kind, void *handle) {
    switch (kind) {
        case UMBO_HANDLE_TENSOR: umbo_tensor_release(handle); break;
        case UMBO_HANDLE_VALUE: umbo_value_release(handle); break;
        case UMBO_HANDLE_STRATEGY: umbo_strategy_release(handle); break;
        case UMBO_HANDLE_SCOPE: umbo_ignore(umbo_scope_exit(handle)); break;
        case UMBO_HANDLE_VARIABLE: umbo_variable_release(handle); break;
        case UMBO_HANDLE_DATASET: umbo_dataset_release(handle); break;
        case UMBO_HANDLE_DISTRIBUTED_DATASET: umbo_distributed_dataset_release(handle); break;
        case UMBO_HANDLE_ITERATOR: umbo_iterator_release(handle); break;
        case UMBO_HANDLE_GRADIENTS: umbo_gradients_release(handle); break;
        case UMBO_HANDLE_OPTIMIZER: umbo_optimizer_release(handle); break;
        case UMBO_HANDLE_CANCELLATION: umbo_cancellation_release(handle); break;
        case UMBO_HANDLE_CLUSTER_RESOLVER: umbo_cluster_resolver_release(handle); break;
        case UMBO_HANDLE_COMMUNICATOR: umbo_communicator_release(handle); break;
        case UMBO_HANDLE_ELEMENT_SPEC: umbo_element_spec_release(handle); break;
        case UMBO_HANDLE_EQUIVALENCE: umbo_equivalence_release(handle); break;
        case UMBO_HANDLE_METRICS: umbo_metrics_release(handle); break;
        case UMBO_HANDLE_CHECKPOINT: umbo_checkpoint_release(handle); break;
        case UMBO_HANDLE_CHECKPOINT_MANAGER: umbo_checkpoint_manager_release(handle); break;
        default: break;
    }
}

/* The innermost scope is left. */
static void leave_scope(struct fuzzer *f) {
    struct live *live;
    void *const scope = f->scopes[--f->scope_count];
    f->nesting += MOST_NESTING;
    if (umbo_scope_exit(scope) != UMBO_OK)
        wrong(f, "the innermost scope cannot be left", umbo_last_error_message());
    f->nesting -= MOST_NESTING;
    live = find(f, UMBO_HANDLE_SCOPE, scope);
    if (live != NULL) forget(f, UMBO_HANDLE_SCOPE, live);
}

/* What a call has made. */
static void adopt(struct fuzzer *f, int kind, umbo_status status, void *handle) {
    struct live *live;
    if (handle == NULL) return;
    if (status != UMBO_OK) {
        wrong(f, "an output without success", umbo_status_name(status));
        return;
    }
    if (find(f, kind, handle) != NULL) wrong(f, "a new handle", "one that lives was given again");
    if (kind == UMBO_HANDLE_SCOPE) {
        /* Scopes are left in order, so all are kept. */
        f->scopes[f->scope_count++] = handle;
    } else if (f->depth > MOST_DEPTH) {
        release(kind, handle);
        return;
    } else if (f->count[kind] == MOST_LIVE) {
        /* Makes room. What its end calls back may need the room itself. */
        struct live old = f->live[kind][below(f, MOST_LIVE)];
        forget(f, kind, find(f, kind, old.handle));
        f->nesting += MOST_NESTING;
        release(kind, old.handle);
        f->nesting -= MOST_NESTING;
    }
    live = &f->live[kind][f->count[kind]++];
    live->handle = handle;
    live->depth = f->depth + 1;
}

static void borrowed(struct fuzzer *f, int kind, umbo_status status, void *handle) {
    if (handle == NULL) return;
    if (status != UMBO_OK) wrong(f, "an output without success", umbo_status_name(status));
    f->gone[kind][f->gone_count[kind]++ % MOST_GONE] = handle;
}

static void released(struct fuzzer *f, int kind, const void *handle) {
    struct live *const live = find(f, kind, handle);
    int index;
    if (live == NULL) return;
    forget(f, kind, live);
    for (index = 0; kind == UMBO_HANDLE_SCOPE && index < f->scope_count; index++)
        if (f->scopes[index] == handle) {
            if (index != f->scope_count - 1) wrong(f, "a scope", "left although not innermost");
            f->scope_count--;
        }
}

static void retained(struct fuzzer *f, int kind, umbo_status status, const void *handle) {
    struct live *const live = find(f, kind, handle);
    if (live == NULL && status == UMBO_OK)
        wrong(f, "a handle that is not live is retained", umbo_last_error_message());
    if (live != NULL && status != UMBO_OK)
        wrong(f, "a live handle is refused", umbo_last_error_message());
}

static void check_live_handles(struct fuzzer *f) {
    int kind;
    for (kind = 1; kind < KINDS; kind++) {
        int64_t count = -1;
        int patience;
        /* Functions that run ahead of an iterator, on other threads, make handles for a moment. */
        for (patience = 20000; patience > 0; patience--) {
            if (umbo_live_handles(kind, &count) == UMBO_OK && count == f->count[kind]) break;
            (void)usleep(100);
        }
        if (patience == 0) {
            char detail[100];
            snprintf(detail, sizeof(detail), "%lld of type %d are alive, and %d by the model",
                     (long long)count, kind, f->count[kind]);
            wrong(f, "umbo_live_handles", detail);
        }
    }
}

/* Where an iterator is, or any text. */
static const char *place(struct fuzzer *f) {
    size_t length = 0;
    umbo_iterator *const iterator = pick(f, UMBO_HANDLE_ITERATOR);
    const umbo_status status =
        umbo_iterator_save_position(iterator, f->place, sizeof(f->place), &length);
    if (status != UMBO_OK || one_in(f, 12)) return text(f);
    /* Damaged now and then. */
    if (one_in(f, 6)) f->place[below(f, (int)length)] = (char)draw(f);
    return f->place;
}

/* User data that is to be destroyed once. */
static void *new_token(struct fuzzer *f) {
    if (one_in(f, 4)) return NULL;
    f->tokens++;
    destroyed[f->tokens % MOST_TOKENS] = 0;
    return (void *)(size_t)f->tokens;
}

static void begin_call(struct fuzzer *f, const char *name) {
    f->trace[(f->calls + 1) % TRACE] = name;
    /* Another thread watches it. */
    __atomic_store_n(&f->calls, f->calls + 1, __ATOMIC_SEQ_CST);
}

static void end_call(struct fuzzer *f, umbo_status status, const char *name) {
    if (status == UMBO_STATUS_INTERNAL) {
        char detail[200];
        snprintf(detail, sizeof(detail), "%s: %.150s", name, umbo_last_error_message());
        wrong(f, "INTERNAL", detail);
    }
    if (status == UMBO_OK) f->succeeded++;
    else f->refused++;
}

/* ---- callbacks, which may call again where they are on the thread that draws */

static void some_calls(struct fuzzer *f);

static void in_a_callback(void) {
    struct fuzzer *const f = &fuzzer;
    if (!pthread_equal(pthread_self(), f->thread) || f->nesting >= MOST_NESTING) return;
    f->nesting++;
    some_calls(f);
    f->nesting--;
}

static umbo_status outcome(void) {
    struct fuzzer *const f = &fuzzer;
    if (!pthread_equal(pthread_self(), f->thread) || !one_in(f, 10)) return UMBO_OK;
    {
        const umbo_status status = below(f, 20) - 1;
        /* That of the library's own mistakes. */
        return status == UMBO_STATUS_INTERNAL ? UMBO_OK : umbo_set_last_error(status, text(f), NULL, NULL);
    }
}

static void drawn_destroy_fn(void *user_data) {
    const int64_t token = (int64_t)(size_t)user_data;
    if (__atomic_fetch_add(&destroyed[token % MOST_TOKENS], 1, __ATOMIC_SEQ_CST) != 0)
        wrong(&fuzzer, "user data", "is destroyed twice");
    __atomic_fetch_add(&tokens_destroyed, 1, __ATOMIC_SEQ_CST);
    in_a_callback();
}

/* A pass of a generator. Passes of generators that were drawn without a function for the end are never
 * ended: the list is there so that they do not look lost. */
struct pass {
    int elements;
    struct pass *before, *after;
};

static struct pass passes = {0, &passes, &passes};
static pthread_mutex_t passes_mutex = PTHREAD_MUTEX_INITIALIZER;

static umbo_status drawn_generator_begin_fn(void *user_data, void **pass) {
    struct pass *const made = calloc(1, sizeof(*made));
    (void)user_data;
    CHECK(made != NULL);
    CHECK(pthread_mutex_lock(&passes_mutex) == 0);
    made->before = &passes;
    made->after = passes.after;
    made->before->after = made->after->before = made;
    CHECK(pthread_mutex_unlock(&passes_mutex) == 0);
    *pass = made;
    in_a_callback();
    return UMBO_OK;
}

static umbo_status drawn_generator_next_fn(void *pass, void *user_data, umbo_value **element) {
    (void)user_data;
    in_a_callback();
    if (pass != NULL && ++((struct pass *)pass)->elements < 4) *element = float_value(1);
    return outcome();
}

static umbo_status drawn_generator_reset_fn(void *pass, void *user_data) {
    (void)user_data;
    if (pass != NULL) ((struct pass *)pass)->elements = 0;
    in_a_callback();
    return outcome();
}

static void drawn_generator_end_fn(void *pass, void *user_data) {
    struct pass *const ended = pass;
    (void)user_data;
    if (ended != NULL) {
        CHECK(pthread_mutex_lock(&passes_mutex) == 0);
        ended->before->after = ended->after;
        ended->after->before = ended->before;
        CHECK(pthread_mutex_unlock(&passes_mutex) == 0);
        free(ended);
    }
    in_a_callback();
}

static void *
    drawn_mpi_find_fn(const char *name, void *user_data) {
    (void)name;
    (void)user_data;
    in_a_callback();
    return NULL;
}

/* Ranks that are not there send nothing. */
static umbo_status drawn_communicator_all_to_all_fn(const void *send, const int64_t *send_counts,
                                                    void *receive, const int64_t *receive_counts,
                                                    void *user_data) {
    (void)send;
    (void)send_counts;
    (void)receive;
    (void)receive_counts;
    (void)user_data;
    in_a_callback();
    return outcome();
}

static umbo_status drawn_communicator_all_gather_fn(const void *send, void *receive,
                                                    const int64_t *counts, void *user_data) {
    (void)send;
    (void)receive;
    (void)counts;
    (void)user_data;
    in_a_callback();
    return outcome();
}

static umbo_status drawn_communicator_broadcast_fn(void *data, int64_t bytes, int64_t root,
                                                   void *user_data) {
    (void)data;
    (void)bytes;
    (void)root;
    (void)user_data;
    in_a_callback();
    return outcome();
}

static umbo_status drawn_communicator_vote_fn(int64_t number, int64_t *least, int64_t *greatest,
                                              void *user_data) {
    (void)user_data;
    *least = *greatest = number;
    in_a_callback();
    return outcome();
}

static umbo_status drawn_communicator_barrier_fn(void *user_data) {
    (void)user_data;
    in_a_callback();
    return outcome();
}

static void drawn_communicator_abort_fn(const char *message, void *user_data) {
    (void)message;
    (void)user_data;
    in_a_callback();
}

static umbo_status drawn_map_fn(const umbo_value *element, void *user_data, umbo_value **result) {
    const umbo_status status = umbo_value_retain(element, result);
    (void)user_data;
    in_a_callback();
    return status == UMBO_OK ? outcome() : status;
}

static umbo_status drawn_dataset_fn(const umbo_input_context *context, void *user_data,
                                    umbo_dataset **dataset) {
    (void)context;
    (void)user_data;
    in_a_callback();
    return umbo_dataset_from_range(0, 4, 1, dataset);
}

static void drawn_update_tile_fn(const umbo_update_tile *tile, void *user_data) {
    (void)tile;
    (void)user_data;
}

static umbo_status drawn_schedule_fn(int64_t step, void *user_data, double *learning_rate) {
    (void)step;
    (void)user_data;
    *learning_rate = 0.1;
    in_a_callback();
    return outcome();
}

static umbo_status drawn_progress_fn(const umbo_progress *progress, void *user_data) {
    (void)progress;
    (void)user_data;
    in_a_callback();
    return outcome();
}

static umbo_status drawn_scope_fn(umbo_strategy *strategy, void *user_data) {
    (void)strategy;
    (void)user_data;
    in_a_callback();
    return outcome();
}

static umbo_status drawn_replica_fn(umbo_replica_context *context, const umbo_value *args,
                                    void *user_data, umbo_value **result) {
    (void)args;
    (void)user_data;
    (void)result;
    if (pthread_equal(pthread_self(), fuzzer.thread)) {
        struct live *const live = &fuzzer.live[UMBO_HANDLE_REPLICA_CONTEXT][0];
        const struct live outer = *live;
        const int had = fuzzer.count[UMBO_HANDLE_REPLICA_CONTEXT];
        /* Lent handles are not counted, but here they are of use. */
        live->handle = context;
        live->depth = 0;
        fuzzer.count[UMBO_HANDLE_REPLICA_CONTEXT] = 1;
        in_a_callback();
        fuzzer.count[UMBO_HANDLE_REPLICA_CONTEXT] = had;
        *live = outer;
        fuzzer.gone[UMBO_HANDLE_REPLICA_CONTEXT]
                   [fuzzer.gone_count[UMBO_HANDLE_REPLICA_CONTEXT]++ % MOST_GONE] = context;
    }
    return outcome();
}

static umbo_status drawn_merge_fn(umbo_strategy *strategy, const umbo_value *args,
                                  void *user_data, umbo_value **result) {
    (void)strategy;
    (void)args;
    (void)user_data;
    (void)result;
    in_a_callback();
    return outcome();
}

static umbo_status drawn_update_fn(umbo_variable *variable, const umbo_value *args,
                                   void *user_data, umbo_value **result) {
    (void)variable;
    (void)args;
    (void)user_data;
    (void)result;
    in_a_callback();
    return outcome();
}

static umbo_status drawn_value_fn(const umbo_value_context *context, void *user_data,
                                  umbo_value **value) {
    (void)context;
    (void)user_data;
    in_a_callback();
    *value = float_value(1);
    return outcome();
}

static umbo_status drawn_initializer_fn(const umbo_view *view, void *user_data) {
    (void)view;
    (void)user_data;
    in_a_callback();
    return outcome();
}

static umbo_status drawn_variable_creator_fn(umbo_variable_request *request, void *user_data,
                                          umbo_variable **variable) {
    (void)request;
    (void)user_data;
    (void)variable;
    in_a_callback();
    return outcome();
}

static void drawn_replica_thread_fn(const umbo_replica_thread *thread, void *user_data) {
    (void)thread;
    (void)user_data;
    in_a_callback();
}

static void drawn_log_fn(umbo_log_level level, const char *message, void *user_data) {
    (void)level;
    (void)message;
    (void)user_data;
    in_a_callback();
}

/* ---- the calls, one for each function */

/* CALLS */
static const struct {
    const char *name;
    void (*draw)(struct fuzzer *f);
    int calls_back;
} functions[] = {
    /* TABLE */
};

static int is_left_out(const char *name) {
    const size_t length = strlen(name);
    const char *found = without;
    while ((found = strstr(found, name)) != NULL) {
        if ((found == without || found[-1] == ',') &&
            (found[length] == 0 || found[length] == ','))
            return 1;
        found += length;
    }
    return 0;
}

static void one_call(struct fuzzer *f) {
    int index = below(f, COUNT_OF(functions));
    /* What is picked for this call, within another one that goes on. */
    const int depth = f->depth;
    if (one_in(f, 3))
        while (!functions[index].calls_back) index = below(f, COUNT_OF(functions));
    if (is_left_out(functions[index].name)) return;
    f->depth = 0;
    functions[index].draw(f);
    f->depth = depth;
}

/* The calls of a callback, which leaves the scopes that it has entered. */
static void some_calls(struct fuzzer *f) {
    const int scopes = f->scope_count;
    int count = below(f, 4);
    while (count-- > 0 && f->scope_count < MOST_LIVE - 2) one_call(f);
    while (f->scope_count > scopes) leave_scope(f);
}

static int finished;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Says where it was; may be called by a signal. */
static void say_where(const char *what) {
    char text[200];
    int index, length;
    length = snprintf(text, sizeof(text), "sequences --seed %llu %s in call %lld, after\n",
                      (unsigned long long)seed, what, (long long)fuzzer.calls);
    (void)!write(2, text, (size_t)length);
    for (index = TRACE - 1; index >= 0; index--) {
        const char *const name = fuzzer.trace[(fuzzer.calls - index + TRACE) % TRACE];
        length = snprintf(text, sizeof(text), "  %s\n", name == NULL ? "-" : name);
        (void)!write(2, text, (size_t)length);
    }
}

static void on_signal(int number) {
    say_where(strsignal(number));
    signal(number, SIG_DFL);
    raise(number);
}

static void *watch(void *user_data) {
    int64_t progress = -1;
    double since = now();
    (void)user_data;
    while (!__atomic_load_n(&finished, __ATOMIC_SEQ_CST)) {
        const int64_t calls = __atomic_load_n(&fuzzer.calls, __ATOMIC_SEQ_CST);
        usleep(100000);
        if (calls != progress) {
            progress = calls;
            since = now();
        } else if (now() - since > PATIENCE) {
            say_where("hangs");
            signal(SIGABRT, SIG_DFL);
            abort();
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    struct fuzzer *const f = &fuzzer;
    int64_t wanted = 1000000;
    double seconds = 1e9, began = now();
    int index, kind;
    pthread_t watcher;
    CHECK(setenv("UMBO_MPI_LIBRARY", "none.so", 1) == 0); /* MPI is not for random arguments */
    for (index = 1; index + 1 < argc; index += 2) {
        if (strcmp(argv[index], "--calls") == 0) wanted = atoll(argv[index + 1]);
        else if (strcmp(argv[index], "--seconds") == 0) seconds = atof(argv[index + 1]);
        else if (strcmp(argv[index], "--seed") == 0) seed = strtoull(argv[index + 1], NULL, 10);
        else if (strcmp(argv[index], "--without") == 0) without = argv[index + 1];
        else {
            fprintf(stderr, "usage: sequences [--calls N] [--seconds S] [--seed X] "
                            "[--without FUNCTION,...]\n");
            return 2;
        }
    }
    printf("sequences --seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    signal(SIGSEGV, on_signal);
    signal(SIGBUS, on_signal);
    signal(SIGABRT, on_signal);
    f->state = seed;
    f->thread = pthread_self();
    CHECK(pthread_create(&watcher, NULL, watch, NULL) == 0);
    while (f->calls < wanted && now() - began < seconds &&
           __atomic_load_n(&failures, __ATOMIC_SEQ_CST) < 20) {
        one_call(f);
        while (f->scope_count > 0 && (one_in(f, 3) || f->scope_count > MOST_LIVE - 4))
            leave_scope(f);
        if (one_in(f, 64)) check_live_handles(f);
    }
    while (f->scope_count > 0) leave_scope(f);
    umbo_ignore(umbo_set_strategy(NULL));
    f->nesting = MOST_NESTING;
    check_live_handles(f);
    for (kind = 1; kind < KINDS; kind++)
        while (f->count[kind] > 0) {
            struct live *const live = &f->live[kind][0];
            void *const handle = live->handle;
            forget(f, kind, live);
            release(kind, handle);
        }
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_ERROR, NULL, NULL, NULL));
    umbo_clear_last_error();
    __atomic_store_n(&finished, 1, __ATOMIC_SEQ_CST);
    CHECK(pthread_join(watcher, NULL) == 0);
    if (__atomic_load_n(&tokens_destroyed, __ATOMIC_SEQ_CST) != f->tokens) {
        char detail[80];
        snprintf(detail, sizeof(detail), "%lld of %lld", (long long)tokens_destroyed,
                 (long long)f->tokens);
        wrong(f, "user data destroyed", detail);
    }
    printf("%lld calls, %lld succeeded, %lld were refused, %lld user data, %d failures\n",
           (long long)f->calls, (long long)f->succeeded, (long long)f->refused,
           (long long)f->tokens, failures);
    return failures != 0 || finish() != 0;
}
