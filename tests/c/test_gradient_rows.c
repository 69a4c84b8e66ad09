/* Row-sparse gradients: rows that replicas add are merged, and no other rows are updated. */
#include <math.h>

#include "check.h"

enum { ROWS = 4, WIDTH = 2 };

typedef struct {
    umbo_gradients *gradients; /* of a scalar, the table and a vector */
    const umbo_value *slices;  /* what replica 1 adds after its own rows, or NULL */
    int64_t wrong;             /* an index of replica 1's; 0 is one that is right */
    double weight[2];
    umbo_optimizer *applies; /* inside of the step, or NULL */
} row_plan;

/* [[0, 0], [0, 0], [0, 0], [0, 0]], and [0, 0, 0, 0]. */
static umbo_variable *make_zeros(umbo_strategy *strategy, int32_t rank, const char *name) {
    static const float numbers[ROWS * WIDTH] = {0};
    const int64_t shape[2] = {ROWS, WIDTH};
    umbo_tensor *initial = make_tensor(UMBO_DTYPE_FLOAT32, rank, shape, numbers);
    umbo_variable *variable = NULL;
    CHECK_OK(umbo_variable_create(strategy, name, initial, NULL, &variable));
    umbo_tensor_release(initial);
    return variable;
}

static void expect(const umbo_variable *variable, int64_t count, const float *numbers) {
    umbo_tensor *tensor = NULL;
    umbo_value *value;
    CHECK_OK(umbo_variable_read(variable, &tensor));
    value = into_value(tensor);
    CHECK(has_floats(value, count, numbers));
    umbo_value_release(value);
}

/* Row `row` of two calls: the second call leaves the views of the first one valid. */
static umbo_status add_twice(umbo_replica_context *context, umbo_gradients *gradients, int64_t row,
                             float number) {
    umbo_view indices[2], values[2];
    int32_t call, position;
    for (call = 0; call < 2; call++) {
        UMBO_TRY(umbo_gradients_add_rows(gradients, context, 1, call + 1, &indices[call],
                                         &values[call]));
    }
    CHECK(indices[1].dtype == UMBO_DTYPE_INT64 && indices[1].ndim == 1 && indices[1].shape[0] == 2);
    CHECK(values[1].dtype == UMBO_DTYPE_FLOAT32 && values[1].ndim == 2);
    CHECK(values[1].shape[0] == 2 && values[1].shape[1] == WIDTH && values[1].strides[0] == WIDTH);
    for (call = 0; call < 2; call++) {
        for (position = 0; position <= call; position++) {
            ((int64_t *)indices[call].mutable_data)[position] = row;
            ((float *)values[call].mutable_data)[WIDTH * position] = number;
            ((float *)values[call].mutable_data)[WIDTH * position + 1] = -number;
        }
    }
    return UMBO_OK;
}

static umbo_status add_rows(umbo_replica_context *context, const umbo_value *args, void *user_data,
                            umbo_value **result) {
    const row_plan *plan = (const row_plan *)user_data;
    const int32_t id = replica_id(context);
    umbo_view dense, indices, values;
    (void)args;
    (void)result;
    UMBO_TRY(umbo_gradients_view(plan->gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &dense));
    *(float *)dense.mutable_data = 1;
    if (plan->weight[id] == 0) { /* never read, so neither NaN nor a wrong index matters */
        UMBO_TRY(add_twice(context, plan->gradients, ROWS, (float)NAN));
        return umbo_gradients_submit_weighted(plan->gradients, context, 0);
    }
    UMBO_TRY(add_twice(context, plan->gradients, id == 0 ? 3 : 1, 1));
    if (id == 1) {
        UMBO_TRY(umbo_gradients_add_rows(plan->gradients, context, 1, 1, &indices, &values));
        *(int64_t *)indices.mutable_data = plan->wrong;
        ((float *)values.mutable_data)[0] = 8;
        ((float *)values.mutable_data)[1] = 4;
        if (plan->slices != NULL) {
            UMBO_TRY(umbo_gradients_add_indexed_slices(plan->gradients, context, 1, plan->slices));
        }
    }
    /* A vector is a table of numbers. */
    UMBO_TRY(umbo_gradients_add_rows(plan->gradients, context, 2, id, &indices, &values));
    CHECK(values.ndim == 1 && values.shape[0] == id);
    if (id == 1) {
        *(int64_t *)indices.mutable_data = 2;
        *(float *)values.mutable_data = 2;
    }
    UMBO_TRY(umbo_gradients_submit_weighted(plan->gradients, context, plan->weight[id]));
    if (plan->applies == NULL) return UMBO_OK;
    return umbo_optimizer_apply(plan->applies, plan->gradients, NULL, NULL);
}

static umbo_optimizer *make_sgd(umbo_strategy *strategy) {
    umbo_optimizer *optimizer = NULL;
    umbo_sgd_options options = UMBO_SGD_OPTIONS_INIT;
    options.learning_rate = 1;
    CHECK_OK(umbo_optimizer_create_sgd(strategy, &options, &optimizer));
    return optimizer;
}

static void training(umbo_strategy *strategy) {
    static const int32_t row_sparse[3] = {0, 1, 1};
    static const float slice_rows[4] = {1, 1, 1, 1};
    static const int64_t slice_indices[2] = {0, 3};
    /* The sums: 3 times (1, -1) for row 3 from replica 0 and for row 1 from replica 1, (8, 4) for
     * row 0, (1, 1) for rows 0 and 3. */
    static const float after_first[8] = {-4.5f, -2.5f, -1.5f, 1.5f, 0, 0, -2, 1};
    static const float after_second[8] = {-4.5f, -2.5f, -1.5f, 1.5f, 0, 0, -5, 4};
    static const float numbers[4] = {0, 0, -1, 0};
    row_plan plan = {NULL, NULL, 0, {1, 1}, NULL};
    umbo_variable *variables[3];
    umbo_optimizer *sgd = make_sgd(strategy), *lamb = NULL;
    umbo_gradients_options options = UMBO_GRADIENTS_OPTIONS_INIT;
    ZEROED(umbo_apply_report, report);
    int32_t index;
    variables[0] = make_variable(strategy, 0, UMBO_AGGREGATION_NONE);
    variables[1] = make_zeros(strategy, 2, "table");
    variables[2] = make_zeros(strategy, 1, "vector");
    options.loss_reduction = UMBO_LOSS_SUM;
    options.row_sparse = row_sparse;
    CHECK_OK(umbo_gradients_create(strategy, 3, variables, &options,
                                   &plan.gradients));
    plan.slices = make_slices(2, slice_rows, slice_indices, ROWS);

    /* A wrong index: the step fails and names all that is needed. */
    plan.wrong = ROWS;
    CHECK_STATUS(umbo_strategy_run(strategy, add_rows, &plan, NULL, NULL, NULL), UMBO_STATUS_OUT_OF_RANGE);
    CHECK_MESSAGE("4, at position 3");
    CHECK_MESSAGE("replica 1");
    CHECK_MESSAGE("'table'");
    CHECK_MESSAGE("[0, 4)");
    CHECK_STATUS(umbo_optimizer_apply(sgd, plan.gradients, NULL, NULL), UMBO_STATUS_FAILED_PRECONDITION);
    plan.wrong = 0;

    CHECK_OK(umbo_strategy_run(strategy, add_rows, &plan, NULL, NULL, NULL));
    CHECK_OK(umbo_optimizer_create_lamb(strategy, NULL, &lamb));
    CHECK_STATUS(umbo_optimizer_apply(lamb, plan.gradients, NULL, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("lamb");
    CHECK_MESSAGE("'table'");
    CHECK(float_of_variable(variables[0]) == 0);
    CHECK_OK(umbo_optimizer_apply(sgd, plan.gradients, NULL, &report));
    CHECK(report.applied == 1 && report.updated_count == 3 && report.total_weight == 2);
    expect(variables[1], 8, after_first);
    expect(variables[2], 4, numbers);
    CHECK(float_of_variable(variables[0]) == -1);

    /* At the commit point of the step; replica 1 weighs nothing. */
    plan.weight[1] = 0;
    CHECK_OK(umbo_strategy_run(strategy, add_rows, &plan, NULL, NULL, NULL));
    CHECK_OK(umbo_optimizer_apply(sgd, plan.gradients, NULL, &report));
    expect(variables[1], 8, after_second);
    expect(variables[2], 4, numbers);
    plan.weight[1] = 1;
    plan.applies = sgd;
    CHECK_OK(umbo_strategy_run(strategy, add_rows, &plan, NULL, NULL, NULL));
    CHECK(float_of_variable(variables[0]) == -3);

    umbo_value_release((umbo_value *)plan.slices);
    umbo_gradients_release(plan.gradients);
    umbo_optimizer_release(lamb);
    umbo_optimizer_release(sgd);
    for (index = 0; index < 3; index++) umbo_variable_release(variables[index]);
}

static umbo_status add_wrongly(umbo_replica_context *context, const umbo_value *args,
                               void *user_data, umbo_value **result) {
    umbo_gradients *gradients = (umbo_gradients *)user_data;
    const float rows[2] = {1, 1};
    const int64_t indices[1] = {0};
    umbo_value *other = make_slices(1, rows, indices, ROWS + 1), *number = float_value(1);
    umbo_view first, second;
    (void)args;
    (void)result;
    CHECK_STATUS(umbo_gradients_view(gradients, context, 0, UMBO_GRADIENT_ADD, &first),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("'table'");
    CHECK_STATUS(umbo_gradients_add_rows(gradients, context, 1, 1, &first, &second),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("row_sparse");
    CHECK_STATUS(umbo_gradients_add_rows(gradients, context, 2, 1, &first, &second),
                 UMBO_STATUS_OUT_OF_RANGE);
    CHECK_STATUS(umbo_gradients_add_rows(gradients, context, -1, 1, &first, &second),
                 UMBO_STATUS_OUT_OF_RANGE);
    CHECK_STATUS(umbo_gradients_add_rows(gradients, context, 0, -1, &first, &second),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_gradients_add_rows(gradients, context, 0, INT64_MAX, &first, &second),
                 UMBO_STATUS_RESOURCE_EXHAUSTED);
    CHECK_STATUS(umbo_gradients_add_indexed_slices(gradients, context, 0, other),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("[5, 2]");
    CHECK_STATUS(umbo_gradients_add_indexed_slices(gradients, context, 0, number),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("indexed slices");
    umbo_value_release(number);
    umbo_value_release(other);
    return UMBO_OK;
}

static void refused(umbo_strategy *strategy) {
    static const int32_t tables[2] = {1, 0}, scalars[2] = {0, 1}, unclear[2] = {2, 0};
    umbo_variable *variables[2];
    umbo_gradients *gradients = NULL;
    umbo_view first, second;
    umbo_gradients_options options = UMBO_GRADIENTS_OPTIONS_INIT;
    variables[0] = make_zeros(strategy, 2, "table");
    variables[1] = make_variable(strategy, 0, UMBO_AGGREGATION_NONE);
    options.loss_reduction = UMBO_LOSS_SUM;
    options.row_sparse = scalars;
    CHECK_STATUS(umbo_gradients_create(strategy, 2, variables,
                                       &options, &gradients),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("row_sparse[1]");
    options.row_sparse = unclear;
    CHECK_STATUS(umbo_gradients_create(strategy, 2, variables,
                                       &options, &gradients),
                 UMBO_STATUS_INVALID_ARGUMENT);
    options.row_sparse = tables;
    CHECK_OK(umbo_gradients_create(strategy, 2, variables, &options,
                                   &gradients));
    CHECK_OK(umbo_strategy_run(strategy, add_wrongly, gradients, NULL, NULL, NULL));
    CHECK_STATUS(umbo_gradients_add_rows(gradients, NULL, 0, 1, &first, &second),
                 UMBO_STATUS_INVALID_ARGUMENT);
    umbo_gradients_release(gradients);
    umbo_variable_release(variables[1]);
    umbo_variable_release(variables[0]);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    training(strategy);
    refused(strategy);
    umbo_strategy_release(strategy);
    return finish();
}
