/* Written by tests/c/generator from umbo.h: every public function, called in every context in which
 * the library calls back. Each call has to come back with an answer other than INTERNAL, whatever
 * the answer is, and afterwards the objects still work and no handle is left. The program rounds in another way than
 * usual, takes denormal numbers for zero, and has traps: no call may compute in this mode, and each leaves it as it is.
 *
 *   matrix [--context NAME] [--function NAME] [--patience SECONDS] [--jobs N] [--list]
 *          [--devices N] [--gpus SEED] [--contexts N] [--together N]
 *
 * A context is entered anew for a few functions that are called one after another, with new objects, in a child
 * process that goes from function to function: --together 1 has it entered for each, which takes longer. A function
 * that gives up an object is alone. A child that dies or does not go on is noted, and another one goes on
 * behind the functions. With --gpus two GPUs compute, and one of them holds the variables if the seed is
 * odd; --contexts has the seed choose as many of them. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "floating_point.h"
#include "gpu_memory.h"

#include <umbo/dlpack.h>
#include <umbo/all.h>

#define NPY_FILE "matrix.npy"
#define IDX_FILE "matrix.idx"
#define CHECKPOINT_FILE "matrix.safetensors"
#define OTHER_FILE "matrix_other.safetensors"

/* What a call may be given; made anew for each call. */
struct objects {
    /* HANDLES */
    umbo_variable *table;
    umbo_value *structure;
    umbo_value *variable_value;
    umbo_value *per_replica;
    umbo_tensor *indices;
    umbo_value *slices;
    umbo_value *table_slices;
    umbo_value *batch;
    umbo_dataset *batches;
    umbo_gradients *sparse_gradients;
    umbo_element_spec *structure_spec;
    umbo_optimizer *fresh_optimizer;
};

struct function {
    const char *name;
    umbo_status (*call)(struct objects good);
    /* The member whose last reference the call gives up. */
    size_t gives_up;
    int never_succeeds;
    /* It is the first that is called with its objects. */
    int needs_new_objects;
};

#define NOTHING ((size_t)-1)
#define REPLICAS 2
/* How many compute devices they are on: so many run at a time. */
static int64_t devices_in_use = REPLICAS;
#define MOST_FUNCTIONS 1024
#define MOST_CONTEXTS 128
#define MOST_FAILURES 4096

static const char cluster[] =
    "{\"cluster\": {\"worker\": [\"a:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 0}}";
static float numbers[16] = {1};
static umbo_view array_view;
static const char *const idx_file = IDX_FILE;
static const char *const two_gpus[2] = {"GPU:0", "GPU:1"};
/* Negative: CPUs compute. */
static long gpu_seed = -1;
static const int64_t sizes[1] = {1};
static const int32_t axes[1] = {0};
static const char *const texts[1] = {"x"};
static int64_t cells_of_a_matrix[4];

/* ---- what the children tell their parent */

struct failure {
    int context, function;
    char what[200];
};

static struct {
    /* Whether a function has succeeded in some context. */
    int succeeded[MOST_FUNCTIONS];
    int failure_count;
    struct failure failures[MOST_FAILURES];
    struct {
        int function;
        int reached;
    } at[MOST_CONTEXTS];
} *report;

/* Most functions that are called one after another with the same objects. */
static int most_together = 25;
/* What is being called: so many functions from the first. */
static int current_context, first_function, together, entered;
/* The one that this thread calls, or the last that it has called. */
static __thread int current_function;

static void fail(const char *what, const char *detail) {
    const int index = __atomic_fetch_add(&report->failure_count, 1, __ATOMIC_SEQ_CST);
    if (index < MOST_FAILURES) {
        report->failures[index].context = current_context;
        report->failures[index].function = current_function;
        snprintf(report->failures[index].what, sizeof(report->failures[index].what), "%s: %.150s",
                 what, detail);
    }
}

/* The answer of the call that the context is about. */
static void note(umbo_status status) {
    if (status == UMBO_STATUS_INTERNAL) fail("INTERNAL", umbo_last_error_message());
    if (status == UMBO_OK)
        __atomic_store_n(&report->succeeded[current_function], 1, __ATOMIC_RELAXED);
}

/* A step that is part of the frame and not of what is looked at. */
static void demand(umbo_status status, const char *what) {
    if (status != UMBO_OK) {
        char text[160];
        snprintf(text, sizeof(text), "%s gives %s: %.100s", what, umbo_status_name(status),
                 umbo_last_error_message());
        fail("afterwards", text);
    }
}

/* ---- callbacks that are passed to the functions */

/* The objects of the call in progress, for callbacks without user data. */
static struct objects *now;

/* SHARED */

static CHECK_MAYBE_UNUSED umbo_status good_map_fn(const umbo_value *element, void *user_data,
                                                  umbo_value **result) {
    (void)user_data;
    return umbo_value_retain(element, result);
}

static CHECK_MAYBE_UNUSED umbo_status good_dataset_fn(const umbo_input_context *context,
                                                      void *user_data, umbo_dataset **dataset) {
    (void)context;
    (void)user_data;
    return umbo_dataset_from_range(0, 4, 1, dataset);
}

static CHECK_MAYBE_UNUSED umbo_status good_open_file_fn(const char *path, int64_t number, void *user_data,
                                                        umbo_dataset **dataset) {
    (void)path;
    (void)number;
    (void)user_data;
    return umbo_dataset_from_range(0, 4, 1, dataset);
}

static CHECK_MAYBE_UNUSED umbo_status good_value_fn(const umbo_value_context *context,
                                                    void *user_data, umbo_value **value) {
    (void)context;
    (void)user_data;
    return umbo_value_retain(now->value, value);
}

/* ---- what some functions need first */

static umbo_status submit_on_a_replica(umbo_replica_context *context, const umbo_value *args,
                                       void *user_data, umbo_value **result) {
    const struct objects *good = user_data;
    umbo_view view;
    (void)args;
    (void)result;
    UMBO_TRY(umbo_gradients_view(good->gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &view));
    UMBO_TRY(put_number(context, &view, 1));
    return umbo_gradients_submit_weighted(good->gradients, context, 1);
}

static umbo_status metric_on_a_replica(umbo_replica_context *context, const umbo_value *args,
                                       void *user_data, umbo_value **result) {
    (void)args;
    (void)user_data;
    (void)result;
    return umbo_replica_context_add_metric(context, "x", 1, 1);
}

/* Something to apply, if the context allows runs or is a replica's. */
static void submit_in_place(struct objects good) {
    umbo_value *result = NULL;
    if (umbo_strategy_run(good.strategy, submit_on_a_replica, &good, NULL, NULL, NULL) != UMBO_OK)
        (void)submit_on_a_replica(good.replica_context, NULL, &good, &result);
}

/* A scope to be left, if the context allows one. */
static umbo_scope *scope_in_place(struct objects good) {
    umbo_scope *scope = NULL;
    return umbo_scope_enter(good.strategy, &scope) == UMBO_OK ? scope : NULL;
}

/* Where an iterator is, if the context allows asking. */
static void place_of(umbo_iterator *iterator, char *text, size_t capacity) {
    size_t length = 0;
    text[0] = '\0';
    umbo_ignore(umbo_iterator_save_position(iterator, text, capacity, &length));
}

static void prepare_metric(struct objects good) {
    umbo_ignore(umbo_strategy_run(good.strategy, metric_on_a_replica, NULL, NULL, NULL, NULL));
}

static void prepare_report(struct objects good) {
    umbo_ignore(umbo_strategy_measure_steps(good.strategy, 1));
    prepare_metric(good);
}

/* ---- the calls, one for each function */

/* CALLS */
static const struct function functions[] = {
    /* TABLE */
};

#define FUNCTIONS COUNT_OF(functions)

