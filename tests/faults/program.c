/* A training program in which the system refuses what the library asks for: memory, mappings,
 * threads. Preloaded with fail_requests.c; usage() says what it is told.
 *
 * Each trial is a child process that runs the whole program while one request fails, or so many in
 * a row, or all from one on. A call that fails must say RESOURCE_EXHAUSTED and leave all variables as
 * they were before it, which a run without failures has recorded call by call. Then memory is back,
 * and the trial goes on in one of two ways: the call is repeated and must succeed, or everything is
 * released, still without memory, and the program starts again. Either way it must end with the same
 * bits as the run without failures, and without handles. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#endif
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <umbo/umbo.h>

void umbo_faults_arm(long start, long number, size_t least);
long umbo_faults_off(void);
long umbo_faults_refused(void);

enum {
    REPLICAS = 2,
    ROWS = 48,
    WIDTH = 6,
    BATCH = 8,
    STEPS = 3,
    TABLE = 16,
    LARGE = 300000, /* float32: more than the size from which memory is mapped */
    OPTIMIZERS = 8,
    MOST_CALLS = 40000,
    MOST_VARIABLES = 4000,
    MOST_HANDLES = 160
};

/* What the run without failures has found, shared with all trials. */
static struct {
    long requests;
    long calls;
    uint64_t weights[MOST_CALLS]; /* after each call */
} *expected;

/* ---- handles, all of which are released at the end or when a call fails */

static struct {
    umbo_strategy *strategy;
    umbo_scope *scope;
    umbo_tensor *tensors[MOST_HANDLES];
    umbo_value *values[MOST_HANDLES];
    umbo_variable *variables[MOST_VARIABLES];
    umbo_dataset *datasets[MOST_HANDLES];
    umbo_distributed_dataset *distributed[4];
    umbo_iterator *iterators[4];
    umbo_gradients *gradients[4];
    umbo_optimizer *optimizers[OPTIMIZERS + 4];
    umbo_element_spec *specs[4];
    umbo_equivalence *equivalence;
    umbo_cancellation *cancellation;
} all;

/* How many user data the library holds; 0 when all handles are released. */
static _Atomic int held;

static int variable_count = 5;

static void release_all(void) {
    int at;
    if (all.scope != NULL && umbo_scope_exit(all.scope) != UMBO_OK) _exit(20);
    if (all.strategy != NULL && umbo_strategy_synchronize(all.strategy) != UMBO_OK) _exit(21);
    umbo_cancellation_release(all.cancellation);
    umbo_equivalence_release(all.equivalence);
    for (at = 0; at < 4; at++) {
        umbo_iterator_release(all.iterators[at]);
        umbo_distributed_dataset_release(all.distributed[at]);
        umbo_gradients_release(all.gradients[at]);
        umbo_element_spec_release(all.specs[at]);
    }
    for (at = 0; at < OPTIMIZERS + 4; at++) umbo_optimizer_release(all.optimizers[at]);
    for (at = 0; at < MOST_HANDLES; at++) {
        umbo_value_release(all.values[at]);
        umbo_tensor_release(all.tensors[at]);
        umbo_dataset_release(all.datasets[at]);
    }
    for (at = 0; at < MOST_VARIABLES; at++) umbo_variable_release(all.variables[at]);
    umbo_strategy_release(all.strategy);
    memset(&all, 0, sizeof all);
}

/* ---- judging calls */

static enum { RECORDING, REPEATING, RESTARTING } mode;
static int failed_once, restarted;
static jmp_buf restart;
static long call_number;

static void fail(const char *what, const char *call) {
    const char *message = umbo_last_error_message();
    umbo_faults_off();
    fprintf(stderr, "call %ld, %s: %s\n  last error: %s\n", call_number, call, what, message);
    _exit(1);
}

/* A number for the bits of all variables. */
static uint64_t weights(void) {
    uint64_t hash = 1469598103934665603u;
    int at;
    for (at = 0; at < MOST_VARIABLES && all.variables[at] != NULL; at++) {
        umbo_tensor *tensor = NULL;
        umbo_view view;
        size_t bytes = sizeof(float), byte;
        int32_t axis;
        if (umbo_variable_read(all.variables[at], &tensor) != UMBO_OK ||
            umbo_tensor_view(tensor, &view) != UMBO_OK) {
            fail("the variables cannot be read", "umbo_variable_read");
        }
        for (axis = 0; axis < view.rank; axis++) bytes *= (size_t)view.shape[axis];
        for (byte = 0; byte < bytes; byte += sizeof(float)) {
            uint32_t bits;
            memcpy(&bits, (const char *)view.data + byte, sizeof bits);
            hash = (hash ^ bits) * 1099511628211u;
        }
        umbo_tensor_release(tensor);
    }
    return hash;
}

/* Whether the call is to be made again. */
static int judge(umbo_status status, const char *call, int repeatable) {
    if (call_number >= MOST_CALLS) fail("there are more calls than foreseen", call);
    if (status == UMBO_OK) {
        if (mode == RECORDING) {
            expected->weights[call_number] = weights();
            expected->calls = call_number + 1;
        }
        call_number++;
        return 0;
    }
    if (status != UMBO_STATUS_RESOURCE_EXHAUSTED) fail(umbo_status_name(status), call);
    if (mode == RECORDING) fail("fails without failures", call);
    if (umbo_faults_refused() == 0) fail("fails although nothing was refused", call);
    /* An iterator that reads ahead tells later what happened while there was no memory. */
    if (failed_once && (repeatable || restarted)) fail("fails although memory is back", call);
    failed_once = 1;
    if (*umbo_last_error_message() == '\0') fail("says nothing", call);
    if (mode == RESTARTING || !repeatable) longjmp(restart, 1);
    umbo_faults_off();
    if (call_number > 0 && weights() != expected->weights[call_number - 1]) {
        fail("has changed variables although it failed", call);
    }
    return 1;
}

#define CALL(call) \
    while (judge((call), #call, 1)) {}
/* A call that goes on behind what failed, so that repeating it is something else. */
#define CALL_ONCE(call) (void)judge((call), #call, 0)

/* ---- the program */

static float numbers[LARGE];
static char array_file[64];

/* The library takes one more user data. */
static void hold(void) {
    held++;
}

static void destroy(void *user_data) {
    (void)user_data;
    held--;
}

typedef struct {
    umbo_gradients *gradients;
    int table; /* whether the gradients have one */
} step_plan;

static umbo_status count_up(umbo_strategy *strategy, const umbo_value *args, void *user_data,
                            umbo_value **result) {
    (void)strategy;
    (void)user_data;
    UMBO_TRY(umbo_variable_assign_add(all.variables[4], all.values[2]));
    return umbo_value_retain(args, result);
}

static umbo_status step(umbo_replica_context *context, const umbo_value *args, void *user_data,
                        umbo_value **result) {
    const step_plan *plan = user_data;
    umbo_view rows, weight, narrow, gradient, indices, values;
    umbo_value *merged = NULL, *reduced = NULL, *field = NULL;
    umbo_status status;
    void *scratch;
    float sum = 0;
    int64_t row, column;
    int at;
    UMBO_TRY(umbo_value_view(args, "x", &rows));
    UMBO_TRY(umbo_variable_view(all.variables[0], context, &weight));
    UMBO_TRY(umbo_variable_view_as(all.variables[0], context, UMBO_DTYPE_BFLOAT16, &narrow));
    UMBO_TRY(umbo_replica_context_scratch(context, 200000, &scratch));
    UMBO_TRY(umbo_replica_context_add_metric(context, "loss", 1.0, (double)rows.shape[0]));
    for (at = 0; at < (plan->table ? variable_count - 1 : 1); at++) {
        if (at == 2) continue;
        UMBO_TRY(umbo_gradients_view(plan->gradients, context, at, UMBO_GRADIENT_OVERWRITE, &gradient));
        for (row = 0; row < rows.shape[0]; row++) {
            for (column = 0; column < WIDTH; column++) {
                sum += ((const float *)rows.data)[row * rows.strides[0] + column];
            }
        }
        ((float *)gradient.mutable_data)[0] = sum + ((const float *)weight.data)[0];
    }
    if (plan->table) {
        UMBO_TRY(umbo_gradients_add_rows(plan->gradients, context, 2, 3, &indices, &values));
        for (row = 0; row < 3; row++) {
            ((int64_t *)indices.mutable_data)[row] = 5 * row;
            for (column = 0; column < WIDTH; column++) {
                ((float *)values.mutable_data)[row * WIDTH + column] = (float)(row + column) + sum;
            }
        }
    }
    UMBO_TRY(umbo_gradients_submit(plan->gradients, context));
    UMBO_TRY(umbo_value_field(args, "x", &field));
    status = umbo_replica_context_merge_call(context, count_up, NULL, field, &merged);
    umbo_value_release(field);
    umbo_value_release(merged);
    UMBO_TRY(status);
    UMBO_TRY(umbo_replica_context_all_reduce(context, UMBO_REDUCE_SUM, all.values[3], &reduced));
    *result = reduced;
    return UMBO_OK;
}

static umbo_status plain_step(umbo_replica_context *context, const umbo_value *args,
                              void *user_data, umbo_value **result) {
    const step_plan *plan = user_data;
    umbo_batch_position position = UMBO_BATCH_POSITION_INIT;
    umbo_view rows, gradient;
    float sum = 0;
    int64_t row;
    (void)result;
    UMBO_TRY(umbo_value_view(args, "x", &rows));
    UMBO_TRY(umbo_replica_context_batch_position(context, &position));
    for (row = 0; row < rows.shape[0]; row++) sum += ((const float *)rows.data)[row * rows.strides[0]];
    UMBO_TRY(umbo_replica_context_add_metric(context, "loss", sum, (double)rows.shape[0]));
    UMBO_TRY(umbo_gradients_view(plan->gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &gradient));
    ((float *)gradient.mutable_data)[0] = sum;
    return umbo_gradients_submit(plan->gradients, context);
}

static umbo_status twice(umbo_variable *variable, const umbo_value *args, void *user_data,
                         umbo_value **result) {
    (void)user_data;
    UMBO_TRY(umbo_variable_assign(variable, args));
    return umbo_value_retain(args, result);
}

static umbo_status same(const umbo_value *element, void *user_data, umbo_value **result) {
    (void)user_data;
    return umbo_value_retain(element, result);
}

static umbo_status number_for(const umbo_value_context *context, void *user_data,
                              umbo_value **value) {
    (void)context;
    (void)user_data;
    return umbo_value_retain(all.values[3], value);
}

static umbo_status begin(void *user_data, void **pass) {
    (void)user_data;
    *pass = calloc(1, sizeof(int));
    return *pass == NULL ? UMBO_STATUS_RESOURCE_EXHAUSTED : UMBO_OK;
}

static umbo_status generate(void *pass, void *user_data, umbo_value **element) {
    int *made = pass;
    (void)user_data;
    if (*made == 5) return UMBO_OK;
    UMBO_TRY(umbo_value_retain(all.values[2], element));
    ++*made;
    return UMBO_OK;
}

static void end(void *pass, void *user_data) {
    (void)user_data;
    free(pass);
}

static umbo_status initialize(const umbo_view *memory, void *user_data) {
    (void)user_data;
    ((float *)memory->mutable_data)[1] = 2;
    return UMBO_OK;
}

static umbo_status rate(int64_t at, void *user_data, double *learning_rate) {
    (void)user_data;
    *learning_rate = 0.01 + 0.001 * (double)at;
    return UMBO_OK;
}

static void tensor(int place, int32_t rank, int64_t rows, int64_t columns) {
    const int64_t shape[2] = {rows, columns};
    CALL(umbo_tensor_from_data(UMBO_DTYPE_FLOAT32, rank, shape, numbers, NULL, &all.tensors[place]));
    CALL(umbo_value_from_tensor(all.tensors[place], &all.values[place]));
}

static void make_variables(void) {
    umbo_variable_options options = UMBO_VARIABLE_OPTIONS_INIT;
    static const int64_t four[1] = {4}, large[1] = {LARGE};
    static char name[32];
    int at;
    CALL(umbo_variable_create(all.strategy, "weights", all.tensors[1], NULL, &all.variables[0]));
    options.initializer = initialize;
    options.dtype = UMBO_DTYPE_FLOAT32;
    options.rank = 1;
    options.shape = large;
    CALL(umbo_variable_create(all.strategy, "large", NULL, &options, &all.variables[1]));
    CALL(umbo_variable_create(all.strategy, "table", all.tensors[4], NULL, &all.variables[2]));
    options.shape = four;
    CALL(umbo_variable_create(NULL, "bias", NULL, &options, &all.variables[3]));
    CALL(umbo_variable_create(all.strategy, "counter", all.tensors[2], NULL, &all.variables[4]));
    for (at = 5; at < variable_count; at++) {
        snprintf(name, sizeof name, "more/%d", at);
        CALL(umbo_variable_create(all.strategy, name, NULL, &options, &all.variables[at]));
    }
}

static void make_input(void) {
    static const char *const names[2] = {"x", "y"};
    const umbo_value *fields[2];
    umbo_shuffle_options shuffle = UMBO_SHUFFLE_OPTIONS_INIT;
    umbo_map_options map = UMBO_MAP_OPTIONS_INIT;
    umbo_generator generator = UMBO_GENERATOR_INIT;
    umbo_distribute_options distribute = UMBO_DISTRIBUTE_OPTIONS_INIT;
    umbo_dataset **d = all.datasets;
    fields[0] = all.values[5];
    fields[1] = all.values[6];
    CALL(umbo_value_create_struct(2, names, fields, &all.values[10]));
    CALL(umbo_dataset_from_tensor_slices(all.values[10], &d[0]));
    shuffle.seed = 7;
    shuffle.buffer_size = 16;
    CALL(umbo_dataset_shuffle(d[0], &shuffle, &d[1]));
    map.parallel_calls = 2;
    CALL((hold(), umbo_dataset_map(d[1], same, NULL, destroy, &map, &d[2])));
    CALL(umbo_dataset_batch(d[2], BATCH, 1, &d[3]));
    CALL(umbo_dataset_prefetch(d[3], 2, &d[4]));
    CALL(umbo_dataset_repeat(d[4], 2, &d[5]));
    CALL(umbo_strategy_distribute_dataset(all.strategy, d[5], &distribute, &all.distributed[0]));
    CALL(umbo_iterator_from_distributed_dataset(all.distributed[0], &all.iterators[0]));
    CALL(umbo_dataset_from_npy_file(array_file, &d[6]));
    CALL(umbo_dataset_cache(d[6], &d[7]));
    CALL(umbo_dataset_padded_batch(d[7], 5, 0, &d[8]));
    CALL(umbo_iterator_from_dataset(d[8], &all.iterators[1]));
    CALL(umbo_element_spec_create_tensor(UMBO_DTYPE_FLOAT32, 0, NULL, &all.specs[0]));
    generator.begin = begin;
    generator.next = generate;
    generator.end = end;
    CALL((hold(), umbo_dataset_from_generator(all.specs[0], &generator, NULL, destroy, &d[9])));
    CALL(umbo_dataset_batch(d[9], 2, 0, &d[10]));
    CALL(umbo_iterator_from_dataset(d[10], &all.iterators[2]));
}

static void make_optimizers(void) {
    umbo_variable *variables[MOST_VARIABLES];
    static int32_t row_sparse[MOST_VARIABLES] = {0, 0, 1, 0};
    umbo_gradients_options gradients = UMBO_GRADIENTS_OPTIONS_INIT;
    umbo_optimizer_options options = UMBO_OPTIMIZER_OPTIONS_INIT;
    umbo_group_options group = UMBO_GROUP_OPTIONS_INIT;
    umbo_optimizer **o = all.optimizers;
    int at;
    for (at = 0; at < 4; at++) variables[at] = all.variables[at];
    for (at = 5; at < variable_count; at++) variables[at - 1] = all.variables[at];
    gradients.loss_reduction = UMBO_LOSS_SUM;
    gradients.row_sparse = row_sparse;
    CALL(umbo_gradients_create(all.strategy, variable_count - 1, variables, &gradients,
                               &all.gradients[0]));
    gradients.row_sparse = NULL;
    gradients.accumulation_steps = 2;
    CALL(umbo_gradients_create(all.strategy, 1, variables, &gradients, &all.gradients[1]));
    CALL(umbo_optimizer_create_adam(all.strategy, NULL, &o[0]));
    CALL(umbo_optimizer_create_sgd(all.strategy, NULL, &o[1]));
    CALL(umbo_optimizer_create_momentum(all.strategy, NULL, &o[2]));
    CALL(umbo_optimizer_create_adamw(all.strategy, NULL, &o[3]));
    CALL(umbo_optimizer_create_lamb(all.strategy, NULL, &o[4]));
    CALL(umbo_optimizer_create_adagrad(all.strategy, NULL, &o[5]));
    CALL(umbo_optimizer_create_rmsprop(all.strategy, NULL, &o[6]));
    CALL(umbo_optimizer_create_ftrl(all.strategy, NULL, &o[7]));
    options.global_clip_norm = 1;
    options.non_finite = UMBO_NON_FINITE_SKIP;
    CALL(umbo_optimizer_configure(o[0], &options));
    group.learning_rate_factor = 0.5;
    CALL(umbo_optimizer_add_group(o[0], 1, &variables[3], &group));
    CALL((hold(), umbo_optimizer_set_schedule(o[0], rate, NULL, destroy)));
}

static void train(void) {
    static step_plan plan;
    umbo_apply_options apply = UMBO_APPLY_OPTIONS_INIT;
    umbo_apply_report report = UMBO_APPLY_REPORT_INIT;
    umbo_metric metric = UMBO_METRIC_INIT;
    umbo_run_options limits = UMBO_RUN_OPTIONS_INIT;
    umbo_value **v = all.values;
    int at;
    plan.gradients = all.gradients[0];
    plan.table = 1;
    apply.measure_norm = 1;
    for (at = 0; at < STEPS; at++) {
        CALL_ONCE(umbo_iterator_next(all.iterators[0], &v[20]));
        CALL(umbo_strategy_run(all.strategy, step, &plan, v[20], NULL, &v[21]));
        CALL(umbo_strategy_metric(all.strategy, "loss", &metric));
        CALL(umbo_optimizer_apply(all.optimizers[0], all.gradients[0], &apply, &report));
        if (at + 1 == STEPS) break;
        umbo_value_release(v[20]);
        umbo_value_release(v[21]);
        v[20] = v[21] = NULL;
    }
    plan.gradients = all.gradients[1];
    plan.table = 0;
    limits.timeout_seconds = 1000;
    limits.user_data_destroy = destroy;
    CALL(umbo_cancellation_create(&all.cancellation));
    limits.cancellation = all.cancellation;
    for (at = 1; at < OPTIMIZERS; at++) {
        int run;
        for (run = 0; run < 2; run++) {
            CALL((hold(), umbo_strategy_run(all.strategy, plain_step, &plan, v[20], &limits, NULL)));
            CALL(umbo_optimizer_apply(all.optimizers[at], all.gradients[1], NULL, &report));
        }
    }
    CALL(umbo_optimizer_state(all.optimizers[0], all.variables[0], "m", &all.tensors[20]));
    CALL(umbo_strategy_check_equivalence(all.strategy, plain_step, &plan, v[10], all.gradients[1],
                                         NULL, &all.equivalence));
}

static void collect(void) {
    umbo_destination destination = UMBO_DESTINATION_INIT;
    const umbo_value *items[MOST_HANDLES];
    static int64_t rows[3] = {1, 2, 9}, shape[1] = {3}, dense[2] = {TABLE, WIDTH};
    umbo_value **v = all.values;
    const umbo_destination *only = &destination;
    int at, count;
    CALL(umbo_strategy_values_from_function(all.strategy, number_for, NULL, &v[30]));
    CALL(umbo_strategy_reduce(all.strategy, UMBO_REDUCE_MEAN, v[20], NULL, &v[31]));
    CALL(umbo_strategy_gather(all.strategy, v[20], 0, NULL, &v[32]));
    CALL(umbo_strategy_local_results(all.strategy, v[20], &v[33]));
    destination.variable = all.variables[0];
    CALL(umbo_strategy_reduce_to(all.strategy, UMBO_REDUCE_SUM, v[30], &destination, &v[34]));
    items[0] = v[30];
    CALL(umbo_strategy_batch_reduce_to(all.strategy, UMBO_REDUCE_SUM, 1, items, &only,
                                       &v[35]));
    CALL(umbo_strategy_broadcast_to(all.strategy, v[2], &destination, &v[36]));
    CALL(umbo_strategy_update(all.strategy, all.variables[0], twice, NULL, v[1], NULL, &v[37]));
    CALL(umbo_variable_assign(all.variables[4], v[2]));
    CALL(umbo_tensor_from_data(UMBO_DTYPE_INT64, 1, shape, rows, NULL, &all.tensors[21]));
    CALL(umbo_tensor_slice(all.tensors[4], 0, 0, 3, 1, &all.tensors[22]));
    CALL(umbo_value_create_indexed_slices(all.tensors[22], all.tensors[21], 2, dense, &v[38]));
    CALL(umbo_variable_scatter_add(all.variables[2], v[38]));
    CALL(umbo_tensor_copy(all.tensors[4], NULL, &all.tensors[23]));
    CALL(umbo_tensor_transpose(all.tensors[23], NULL, &all.tensors[24]));
    CALL(umbo_variable_copy(all.variables[1], &all.variables[variable_count]));
    for (count = 0; count < 50; count++) items[count] = v[2];
    CALL(umbo_value_create_tuple(count, items, &v[39]));
    CALL(umbo_value_retain(v[39], &v[40]));
    for (at = 0; at < 4; at++) {
        CALL_ONCE(umbo_iterator_next(all.iterators[1], &v[50 + at]));
        CALL_ONCE(umbo_iterator_next(all.iterators[2], &v[60 + at]));
    }
}

static umbo_status pass_on(umbo_replica_context *context, const umbo_value *args, void *user_data,
                           umbo_value **result) {
    umbo_value *reduced = NULL;
    (void)user_data;
    UMBO_TRY(umbo_replica_context_all_reduce(context, UMBO_REDUCE_SUM, args, &reduced));
    *result = reduced;
    return UMBO_OK;
}

/* Nests and lists as long as there are variables: their tables are longer than what is set aside. */
static void nest(void) {
    static char texts[MOST_VARIABLES][16];
    static const char *names[MOST_VARIABLES];
    static const umbo_value *items[MOST_VARIABLES];
    static const umbo_dataset *datasets[MOST_VARIABLES];
    const umbo_dataset *few[2];
    static const umbo_tensor *tensors[MOST_VARIABLES];
    static const umbo_destination *destinations[MOST_VARIABLES];
    umbo_distribute_options distribute = UMBO_DISTRIBUTE_OPTIONS_INIT;
    umbo_destination like = UMBO_DESTINATION_INIT;
    umbo_value **v = all.values;
    umbo_dataset **d = all.datasets;
    static char text[1 << 20];
    size_t length;
    int at;
    for (at = 0; at < variable_count; at++) {
        snprintf(texts[at], sizeof texts[at], "f%d", at);
        names[at] = texts[at];
        items[at] = v[3];
        tensors[at] = all.tensors[3];
    }
    CALL(umbo_value_create_tuple(variable_count, items, &v[70]));
    CALL(umbo_value_create_struct(variable_count, names, items, &v[71]));
    CALL(umbo_strategy_run(all.strategy, pass_on, NULL, v[71], NULL, &v[72]));
    CALL(umbo_strategy_run(all.strategy, pass_on, NULL, v[70], NULL, &v[73]));
    CALL(umbo_strategy_local_results(all.strategy, v[73], &v[74]));
    CALL(umbo_value_retain(v[71], &v[75]));
    CALL(umbo_value_text(v[71], text, sizeof text, &length));
    CALL(umbo_dataset_from_tensor_slices(v[71], &d[20]));
    CALL(umbo_dataset_batch(d[20], 4, 0, &d[21]));
    CALL(umbo_strategy_distribute_dataset(all.strategy, d[21], &distribute, &all.distributed[1]));
    CALL(umbo_iterator_from_distributed_dataset(all.distributed[1], &all.iterators[3]));
    CALL_ONCE(umbo_iterator_next(all.iterators[3], &v[76]));
    CALL(umbo_strategy_reduce(all.strategy, UMBO_REDUCE_SUM, v[76], NULL, &v[77]));
    CALL(umbo_strategy_gather(all.strategy, v[76], 0, NULL, &v[78]));
    CALL(umbo_dataset_element_spec(d[21], &all.specs[1]));
    like.variable = all.variables[0];
    for (at = 0; at < variable_count; at++) {
        datasets[at] = d[20];
        destinations[at] = &like;
        items[at] = v[2];
    }
    few[0] = few[1] = d[0]; /* What zips and copies specs of thousands of tensors is in the header's list. */
    CALL(umbo_dataset_zip(2, few, NULL, &d[22]));
    CALL(umbo_dataset_concatenate(1 + variable_count / 2, datasets, &d[23]));
    CALL(umbo_dataset_from_elements(variable_count, tensors, &d[24]));
    CALL(umbo_strategy_batch_reduce_to(all.strategy, UMBO_REDUCE_SUM, variable_count, items,
                                       destinations, &v[79]));
}

static void program(void) {
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    options.cpu_replicas = REPLICAS;
    call_number = 0;
    CALL(umbo_set_worker_count(2));
    CALL(umbo_strategy_create(&options, &all.strategy));
    CALL(umbo_scope_enter(all.strategy, &all.scope));
    tensor(1, 2, 100, WIDTH);
    tensor(2, 0, 0, 0);
    tensor(3, 1, 30, 0);
    tensor(4, 2, TABLE, WIDTH);
    tensor(5, 2, ROWS, WIDTH);
    tensor(6, 1, ROWS, 0);
    make_variables();
    CALL(umbo_scope_exit(all.scope));
    all.scope = NULL;
    make_input();
    make_optimizers();
    train();
    collect();
    nest();
}

/* ---- trials */

static void finish(void) {
    int64_t live = -1;
    const uint64_t final = (umbo_faults_off(), weights());
    release_all();
    if (final != expected->weights[expected->calls - 1]) fail("the weights differ", "the end");
    if (umbo_live_handles(UMBO_HANDLE_ANY, &live) != UMBO_OK || live != 0) {
        fail("handles are left", "the end");
    }
    if (held != 0) fail("user data are left", "the end");
    _exit(0);
}

static void trial(long start, long number, size_t least) {
    umbo_faults_arm(start, number, least);
    if (setjmp(restart) != 0) {
        int64_t live = -1;
        restarted = 1;
        release_all();
        if (umbo_live_handles(UMBO_HANDLE_ANY, &live) != UMBO_OK || live != 0) {
            fail("handles are left", "a failed call");
        }
        if (held != 0) fail("user data are left", "a failed call");
        umbo_faults_off();
    }
    program();
    finish();
}

/* Where a trial hangs. */
static void hangs(int number) {
    char text[] = "hangs in call      \n";
    long left = call_number, at;
    (void)number;
    for (at = 18; at >= 14; at--, left /= 10) text[at] = (char)('0' + left % 10);
    (void)!write(2, text, sizeof text - 1);
    _exit(3);
}

/* Runs `work` in a child, which may take a minute. Returns its status as waitpid() gives it. */
static int in_child(void (*work)(long, long, size_t), long start, long number, size_t least) {
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGALRM, hangs);
        alarm(60);
        work(start, number, least);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("fork");
        exit(2);
    }
    return status;
}

static void record(long start, long number, size_t least) {
    mode = RECORDING;
    program();
    release_all();
    (void)start;
    (void)number;
    (void)least;
    _exit(held != 0);
}

static void count_requests(long start, long number, size_t least) {
    (void)start;
    (void)number;
    mode = REPEATING;
    umbo_faults_arm(LONG_MAX, 0, least);
    program();
    release_all();
    expected->requests = umbo_faults_off();
    _exit(0);
}

/* A .npy file of a column of numbers. */
static void write_array(void) {
    static const char header[] =
        "{'descr': '<f4', 'fortran_order': False, 'shape': (12, 2), }";
    char text[128];
    FILE *file;
    memset(text, ' ', sizeof text);
    memcpy(text, "\x93NUMPY\x01\x00\x76\x00", 10);
    memcpy(text + 10, header, sizeof header - 1);
    text[127] = '\n';
    snprintf(array_file, sizeof array_file, "faults-%ld.npy", (long)getpid());
    file = fopen(array_file, "wb");
    if (file == NULL || fwrite(text, sizeof text, 1, file) != 1 ||
        fwrite(numbers, 2 * sizeof(float), 12, file) != 12 || fclose(file) != 0) {
        perror(array_file);
        exit(2);
    }
}

static void usage(void) {
    fprintf(stderr,
            "usage: faults every|sample [variables [smallest]]\n"
            "  every: all requests; sample: some of them, for about ten seconds\n"
            "  variables: how many; smallest: only requests for so many bytes fail\n"
            "  UMBO_FAULTS_ONLY=number: only this trial; with UMBO_FAULTS_HERE in this process\n"
            "  UMBO_FAULTS_SHOW=1: prints where refused requests come from\n");
    exit(2);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int mode;
        long number;
    } ways[] = {{"one fails, and its call is repeated", REPEATING, 1},
                {"twenty fail, and the call is repeated", REPEATING, 20},
                {"all fail, and the call is repeated", REPEATING, LONG_MAX},
                {"all fail, and everything is released", RESTARTING, LONG_MAX}};
    const size_t way_count = sizeof ways / sizeof *ways;
    const time_t began = time(NULL);
    size_t least = 0, way;
    long trials = 0, wrong = 0, request, stride = 1, at, total;
    if (argc < 2) usage();
    if (argc > 2) variable_count = atoi(argv[2]);
    if (argc > 3) least = (size_t)atol(argv[3]);
    if (variable_count < 5 || variable_count >= MOST_VARIABLES - 1) usage();
    for (at = 0; at < LARGE; at++) numbers[at] = (float)(at % 17) / 8;
    expected = mmap(NULL, sizeof *expected, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (expected == MAP_FAILED) return 2;
    write_array();
    if (in_child(record, 0, 0, 0) != 0 || in_child(count_requests, 0, 0, least) != 0) {
        fprintf(stderr, "the program fails without failures\n");
        remove(array_file);
        return 1;
    }
    total = expected->requests * (long)way_count;
    /* A trial of a large program takes a second. */
    if (strcmp(argv[1], "sample") == 0) stride = variable_count > 100 ? 401 : 23;
    else if (strcmp(argv[1], "every") != 0) usage();
    printf("%ld calls, %ld requests\n", expected->calls, expected->requests);
    /* A few more, since threads make the number differ from run to run. */
    for (way = 0; way < way_count; way++) {
        for (request = 1 + (long)way; request <= expected->requests + 5; request += stride) {
            int status;
            if (getenv("UMBO_FAULTS_ONLY") != NULL &&
                atol(getenv("UMBO_FAULTS_ONLY")) != (long)way * 100000 + request) continue;
            fflush(NULL);
            mode = ways[way].mode;
            if (getenv("UMBO_FAULTS_HERE") != NULL) trial(request, ways[way].number, least);
            status = in_child(trial, request, ways[way].number, least);
            trials++;
            if (status == 0) continue;
            wrong++;
            fprintf(stderr, "from request %ld on %s (UMBO_FAULTS_ONLY=%ld): %s %d\n", request,
                    ways[way].name, (long)way * 100000 + request,
                    WIFSIGNALED(status) ? "signal" : "exit",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        }
    }
    remove(array_file);
    printf("%ld trials of %ld, %ld wrong, %ld s\n", trials, total, wrong, (long)(time(NULL) - began));
    return wrong != 0;
}
