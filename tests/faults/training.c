/* A training program: variables, input, all optimizers, and what works on values across replicas. */

#include "faults.h"

#include <umbo/all.h>

enum { ROWS = 48, BATCH = 8, STEPS = 3, TABLE = 16, VARIABLES = 5 };

/* ---- the program */

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
    UMBO_TRY(umbo_value_view(args, "x", UMBO_DTYPE_NONE, &rows));
    UMBO_TRY(umbo_variable_view(all.variables[0], context, UMBO_DTYPE_NONE, &weight));
    UMBO_TRY(umbo_variable_view(all.variables[0], context, UMBO_DTYPE_BFLOAT16, &narrow));
    UMBO_TRY(umbo_replica_context_scratch(context, 200000, &scratch));
    UMBO_TRY(umbo_replica_context_add_metric(context, "loss", 1.0, (double)rows.shape[0]));
    for (at = 0; at < (plan->table ? VARIABLES - 1 : 1); at++) {
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
    status = umbo_replica_context_merge_call(context, count_up, field, NULL, &merged);
    umbo_value_release(field);
    umbo_value_release(merged);
    UMBO_TRY(status);
    UMBO_TRY(umbo_replica_context_all_reduce(context, all.values[3], UMBO_REDUCE_SUM, &reduced));
    *result = reduced;
    return UMBO_OK;
}

static umbo_status plain_step(umbo_replica_context *context, const umbo_value *args,
                              void *user_data, umbo_value **result) {
    const step_plan *plan = user_data;
    umbo_replica_context_info position = UMBO_REPLICA_CONTEXT_INFO_INIT;
    umbo_view rows, gradient;
    float sum = 0;
    int64_t row;
    (void)result;
    UMBO_TRY(umbo_value_view(args, "x", UMBO_DTYPE_NONE, &rows));
    UMBO_TRY(umbo_replica_context_get_info(context, &position));
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

static umbo_status generate(void *pass, void *user_data, umbo_value **element) {
    int *made = pass;
    (void)user_data;
    if (*made == 5) return UMBO_OK;
    UMBO_TRY(umbo_value_retain(all.values[2], element));
    ++*made;
    return UMBO_OK;
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

static void make_variables(void) {
    umbo_variable_options options = UMBO_VARIABLE_OPTIONS_INIT;
    static const int64_t four[1] = {4}, large[1] = {LARGE};
    CALL(umbo_variable_create(all.strategy, "weights", all.tensors[1], NULL, &all.variables[0]));
    options.initializer = initialize;
    options.dtype = UMBO_DTYPE_FLOAT32;
    options.ndim = 1;
    options.shape = large;
    CALL(umbo_variable_create(all.strategy, "large", NULL, &options, &all.variables[1]));
    CALL(umbo_variable_create(all.strategy, "table", all.tensors[4], NULL, &all.variables[2]));
    options.shape = four;
    CALL(umbo_variable_create(NULL, "bias", NULL, &options, &all.variables[3]));
    CALL(umbo_variable_create(all.strategy, "counter", all.tensors[2], NULL, &all.variables[4]));
    CALL(umbo_variable_create_drawn(all.strategy, "drawn", UMBO_DTYPE_FLOAT32, 1, large, UMBO_INITIAL_NORMAL, 7,
                                    &all.variables[VARIABLES + 1]));
}

static void make_input(void) {
    static const char *const names[2] = {"x", "y"};
    umbo_value *fields[2];
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
    shuffle.buffer_capacity = 16;
    CALL(umbo_dataset_retain(d[0], &d[1]));
    CALL(umbo_dataset_shuffle(&d[1], &shuffle));
    map.parallel_call_count = 2;
    CALL(umbo_dataset_retain(d[1], &d[2]));
    CALL((hold(), umbo_dataset_map(&d[2], same, NULL, destroy, &map)));
    CALL(umbo_dataset_retain(d[2], &d[3]));
    CALL(umbo_dataset_batch(&d[3], BATCH, 1));
    CALL(umbo_dataset_retain(d[3], &d[4]));
    CALL(umbo_dataset_prefetch(&d[4], 2));
    CALL(umbo_dataset_retain(d[4], &d[5]));
    CALL(umbo_dataset_repeat(&d[5], 2));
    CALL(umbo_strategy_distribute_dataset(all.strategy, d[5], &distribute, &all.distributed[0]));
    CALL(umbo_iterator_from_distributed_dataset(all.distributed[0], &all.iterators[0]));
    CALL(umbo_dataset_from_npy_file(array_file, &d[6]));
    CALL(umbo_dataset_retain(d[6], &d[7]));
    CALL(umbo_dataset_cache(&d[7]));
    CALL(umbo_dataset_retain(d[7], &d[8]));
    CALL(umbo_dataset_padded_batch(&d[8], 5, 0, NULL));
    CALL(umbo_iterator_from_dataset(d[8], &all.iterators[1]));
    CALL(umbo_element_spec_create_tensor(UMBO_DTYPE_FLOAT32, 0, NULL, &all.specs[0]));
    generator.begin = begin;
    generator.next = generate;
    generator.end = end;
    CALL((hold(), umbo_dataset_from_generator(all.specs[0], &generator, NULL, destroy, &d[9])));
    CALL(umbo_dataset_retain(d[9], &d[10]));
    CALL(umbo_dataset_batch(&d[10], 2, 0));
    CALL(umbo_iterator_from_dataset(d[10], &all.iterators[2]));
}

static void make_optimizers(void) {
    umbo_variable *variables[VARIABLES - 1];
    static int32_t row_sparse[VARIABLES - 1] = {0, 0, 1, 0};
    umbo_gradients_options gradients = UMBO_GRADIENTS_OPTIONS_INIT;
    umbo_optimizer_options options = UMBO_OPTIMIZER_OPTIONS_INIT;
    umbo_group_options group = UMBO_GROUP_OPTIONS_INIT;
    umbo_optimizer **o = all.optimizers;
    int at;
    for (at = 0; at < 4; at++) variables[at] = all.variables[at];
    gradients.row_sparse = row_sparse;
    CALL(umbo_gradients_create(all.strategy, VARIABLES - 1, variables, UMBO_LOSS_SUM, &gradients,
                               &all.gradients[0]));
    gradients.row_sparse = NULL;
    gradients.accumulation_steps = 2;
    CALL(umbo_gradients_create(all.strategy, 1, variables, UMBO_LOSS_SUM, &gradients, &all.gradients[1]));
    CALL(umbo_optimizer_create_adam(all.strategy, NULL, &o[0]));
    CALL(umbo_optimizer_create_sgd(all.strategy, NULL, &o[1]));
    CALL(umbo_optimizer_create_momentum(all.strategy, NULL, &o[2]));
    CALL(umbo_optimizer_create_adamw(all.strategy, NULL, &o[3]));
    CALL(umbo_optimizer_create_lamb(all.strategy, NULL, &o[4]));
    CALL(umbo_optimizer_create_adagrad(all.strategy, NULL, &o[5]));
    CALL(umbo_optimizer_create_rmsprop(all.strategy, NULL, &o[6]));
    CALL(umbo_optimizer_create_ftrl(all.strategy, NULL, &o[7]));
    CALL(umbo_optimizer_create_nadam(all.strategy, NULL, &o[8]));
    CALL(umbo_optimizer_create_radam(all.strategy, NULL, &o[9]));
    CALL(umbo_optimizer_create_lion(all.strategy, NULL, &o[10]));
    CALL(umbo_optimizer_create_lars(all.strategy, NULL, &o[11]));
    CALL(umbo_optimizer_create_muon(all.strategy, NULL, &o[12]));
    CALL(umbo_optimizer_create_adafactor(all.strategy, NULL, &o[13]));
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
    umbo_metric_result metric = UMBO_METRIC_RESULT_INIT;
    umbo_run_options limits = UMBO_RUN_OPTIONS_INIT;
    static const int64_t kept[3] = {3, 0, 1};
    umbo_value **v = all.values;
    int at;
    plan.gradients = all.gradients[0];
    plan.table = 1;
    apply.measure_norm = 1;
    for (at = 0; at < STEPS; at++) {
        CALL_ONCE(umbo_iterator_next(all.iterators[0], &v[20]));
        CALL(umbo_strategy_run(all.strategy, step, v[20], &plan, NULL, &v[21]));
        CALL(umbo_strategy_metric_result(all.strategy, "loss", &metric));
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
            CALL((hold(), umbo_strategy_run(all.strategy, plain_step, v[20], &plan, &limits, NULL)));
            CALL(umbo_optimizer_apply(all.optimizers[at], all.gradients[1], NULL, &report));
        }
    }
    CALL(umbo_optimizer_read_state(all.optimizers[0], all.variables[0], "m", &all.tensors[20]));
    CALL(umbo_strategy_check_equivalence(all.strategy, all.gradients[1], plain_step, v[10], &plan,
                                         NULL, &all.equivalence));
    CALL(umbo_optimizer_change_rows(all.optimizers[0], all.variables[2], 3, kept, NULL,
                                    &all.variables[VARIABLES + 2]));
}

static umbo_status measure(umbo_replica_context *context, const umbo_value *args, void *user_data,
                           umbo_value **result) {
    umbo_view rows;
    void *scratch;
    (void)user_data;
    (void)result;
    UMBO_TRY(umbo_value_view(args, "x", UMBO_DTYPE_NONE, &rows));
    UMBO_TRY(umbo_replica_context_scratch(context, 400000, &scratch));
    return umbo_replica_context_add_metric(context, "rows", (double)rows.shape[0], 1);
}

static void evaluate(void) {
    CALL(umbo_strategy_iterate(all.strategy, all.datasets[3], NULL, &all.iterators[3]));
    CALL(umbo_evaluate(all.strategy, all.iterators[3], measure, NULL, NULL, NULL));
}

/* Arrays of the program: a batch, all weights as one, and weights in memory. */
static void use_own_memory(void) {
    static const char *const names[1] = {"x"};
    static const int64_t shape[2] = {7, WIDTH};
    static float flat[2 * LARGE];
    static unsigned char saved[16 * LARGE];
    umbo_variable *const two[2] = {all.variables[1], all.variables[VARIABLES + 1]};
    const umbo_view view = umbo_view_of_memory(UMBO_DTYPE_FLOAT32, 2, shape, numbers);
    size_t length = 0;
    CALL(umbo_strategy_split_arrays(all.strategy, 1, names, &view, &all.values[70]));
    CALL(umbo_strategy_run(all.strategy, measure, all.values[70], NULL, NULL, NULL));
    CALL(umbo_variable_download_flat(2, two, flat, sizeof(flat)));
    CALL(umbo_checkpoint_create(all.strategy, &all.checkpoint));
    CALL(umbo_checkpoint_add_variable(all.checkpoint, NULL, two[0]));
    CALL(umbo_checkpoint_add_variable(all.checkpoint, NULL, two[1]));
    CALL(umbo_checkpoint_save_weights_to_memory(all.checkpoint, NULL, saved, sizeof(saved), &length));
    flat[LARGE] = 7;
    CALL(umbo_variable_upload_flat(2, two, flat, sizeof(flat)));
    CALL(umbo_checkpoint_load_weights_from_memory(all.checkpoint, saved, length, NULL));
    CALL(umbo_variable_upload_flat(2, two, flat, sizeof(flat)));
}

static void collect(void) {
    umbo_destination destination = UMBO_DESTINATION_INIT;
    umbo_value *items[MOST_HANDLES];
    static int64_t rows[3] = {1, 2, 9}, shape[1] = {3}, dense[2] = {TABLE, WIDTH};
    umbo_value **v = all.values;
    const umbo_destination *only = &destination;
    int at, count;
    CALL(umbo_strategy_values_from_function(all.strategy, number_for, NULL, &v[30]));
    CALL(umbo_strategy_reduce(all.strategy, v[20], UMBO_REDUCE_MEAN, NULL, &v[31]));
    CALL(umbo_strategy_gather(all.strategy, v[20], 0, NULL, &v[32]));
    CALL(umbo_strategy_local_results(all.strategy, v[20], &v[33]));
    destination.variable = all.variables[0];
    CALL(umbo_strategy_reduce_to(all.strategy, v[30], UMBO_REDUCE_SUM, &destination, &v[34]));
    items[0] = v[30];
    CALL(umbo_strategy_batch_reduce_to(all.strategy, 1, items, UMBO_REDUCE_SUM, &only,
                                       &v[35]));
    CALL(umbo_strategy_broadcast_to(all.strategy, v[2], &destination, &v[36]));
    CALL(umbo_strategy_update(all.strategy, all.variables[0], twice, v[1], NULL, &v[37]));
    CALL(umbo_variable_assign(all.variables[4], v[2]));
    CALL(umbo_tensor_from_data(UMBO_DTYPE_INT64, 1, shape, rows, NULL, &all.tensors[21]));
    CALL(umbo_tensor_slice(all.tensors[4], 0, 0, 3, 1, &all.tensors[22]));
    CALL(umbo_value_create_indexed_slices(all.tensors[22], all.tensors[21], 2, dense, &v[38]));
    CALL(umbo_variable_scatter(all.variables[2], v[38], UMBO_SCATTER_ADD));
    CALL(umbo_tensor_copy(all.tensors[4], NULL, &all.tensors[23]));
    CALL(umbo_tensor_transpose(all.tensors[23], NULL, &all.tensors[24]));
    CALL(umbo_variable_copy(all.variables[1], &all.variables[VARIABLES]));
    for (count = 0; count < 50; count++) items[count] = v[2];
    CALL(umbo_value_create_tuple(count, items, &v[39]));
    CALL(umbo_value_retain(v[39], &v[40]));
    for (at = 0; at < 4; at++) {
        CALL_ONCE(umbo_iterator_next(all.iterators[1], &v[50 + at]));
        CALL_ONCE(umbo_iterator_next(all.iterators[2], &v[60 + at]));
    }
}

void training(void) {
    make_strategy();
    CALL(umbo_scope_enter(all.strategy, &all.scope));
    make_tensor(1, 2, 10, WIDTH);
    make_tensor(2, 0, 0, 0);
    make_tensor(3, 1, WIDTH, 0);
    make_tensor(4, 2, TABLE, WIDTH);
    make_tensor(5, 2, ROWS, WIDTH);
    make_tensor(6, 1, ROWS, 0);
    make_variables();
    CALL(umbo_scope_exit(all.scope));
    all.scope = NULL;
    make_input();
    make_optimizers();
    train();
    evaluate();
    use_own_memory();
    collect();
}
