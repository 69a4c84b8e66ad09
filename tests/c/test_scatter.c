/* Scatter updates of a variable's rows, in both contexts. */
#include "check.h"

/* [[10, 20], [30, 40], [50, 60]]. */
static umbo_variable *make_matrix(umbo_strategy *strategy, umbo_aggregation aggregation) {
    const float numbers[6] = {10, 20, 30, 40, 50, 60};
    const int64_t shape[2] = {3, 2};
    umbo_tensor *initial = make_tensor(UMBO_DTYPE_FLOAT32, 2, shape, numbers);
    umbo_variable *variable = NULL;
    umbo_variable_options options = UMBO_VARIABLE_OPTIONS_INIT;
    options.aggregation = aggregation;
    CHECK_OK(umbo_variable_create(strategy, "m", initial, &options, &variable));
    umbo_tensor_release(initial);
    return variable;
}

static int matrix_is(const umbo_variable *variable, const float *expected) {
    umbo_tensor *tensor = NULL;
    umbo_value *value;
    int same;
    CHECK_OK(umbo_variable_read(variable, &tensor));
    value = into_value(tensor);
    same = has_floats(value, 6, expected);
    umbo_value_release(value);
    return same;
}

/* Row 2 by [2, 5], then row 0 by [4, 100], then row 2 again by [10, 2]. */
static void each_operation(umbo_strategy *strategy) {
    static const float rows[6] = {2, 5, 4, 100, 10, 2};
    static const int64_t indices[3] = {2, 0, 2};
    static const struct {
        umbo_scatter_op op;
        float expected[6];
    } cases[] = {
        {UMBO_SCATTER_ADD, {14, 120, 30, 40, 62, 67}},
        {UMBO_SCATTER_SUB, {6, -80, 30, 40, 38, 53}},
        {UMBO_SCATTER_MUL, {40, 2000, 30, 40, 1000, 600}},
        {UMBO_SCATTER_DIV, {2.5f, 0.2f, 30, 40, 2.5f, 6}},
        {UMBO_SCATTER_MIN, {4, 20, 30, 40, 2, 2}},
        {UMBO_SCATTER_MAX, {10, 100, 30, 40, 50, 60}},
        {UMBO_SCATTER_UPDATE, {4, 100, 30, 40, 10, 2}},
    };
    umbo_value *slices = make_slices(3, rows, indices, 3);
    int32_t index;
    for (index = 0; index < COUNT_OF(cases); index++) {
        umbo_variable *variable = make_matrix(strategy, UMBO_AGGREGATION_NONE);
        CHECK_OK(umbo_variable_scatter(variable, cases[index].op, slices));
        CHECK(matrix_is(variable, cases[index].expected));
        umbo_variable_release(variable);
    }
    umbo_value_release(slices);
}

/* Whatever is wrong, nothing is changed: not even the row before the wrong one. */
static void refused(umbo_strategy *strategy) {
    static const float before[6] = {10, 20, 30, 40, 50, 60}, rows[4] = {1, 1, 1, 1};
    static const int64_t beyond[2] = {0, 3}, negative[2] = {0, -1}, fine[2] = {0, 1};
    umbo_variable *variable = make_matrix(strategy, UMBO_AGGREGATION_NONE);
    umbo_value *slices = make_slices(2, rows, beyond, 3), *plain = float_value(1);
    CHECK_STATUS(umbo_variable_scatter(variable, UMBO_SCATTER_ADD, slices), UMBO_STATUS_OUT_OF_RANGE);
    CHECK_MESSAGE("3 at position 1");
    umbo_value_release(slices);
    slices = make_slices(2, rows, negative, 3);
    CHECK_STATUS(umbo_variable_scatter(variable, UMBO_SCATTER_UPDATE, slices), UMBO_STATUS_OUT_OF_RANGE);
    umbo_value_release(slices);
    slices = make_slices(2, rows, fine, 4); /* slices of another shape */
    CHECK_STATUS(umbo_variable_scatter(variable, UMBO_SCATTER_ADD, slices), UMBO_STATUS_INVALID_ARGUMENT);
    umbo_value_release(slices);
    CHECK_STATUS(umbo_variable_scatter(variable, UMBO_SCATTER_ADD, plain), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("slices");
    CHECK_STATUS(umbo_variable_scatter(variable, (umbo_scatter_op)8, plain),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("UMBO_SCATTER_ADD (1) to UMBO_SCATTER_UPDATE (7)");
    CHECK(matrix_is(variable, before));
    umbo_value_release(plain);
    umbo_variable_release(variable);
}

static void integers(umbo_strategy *strategy) {
    const int32_t numbers[2] = {-7, 7};
    const int64_t shape[2] = {2, 1}, one[2] = {1, 1};
    const int32_t two[1] = {2}, zero[1] = {0};
    const int64_t first[1] = {0};
    umbo_tensor *initial = make_tensor(UMBO_DTYPE_INT32, 2, shape, numbers), *now = NULL;
    umbo_tensor *index = make_tensor(UMBO_DTYPE_INT64, 1, one, first);
    umbo_tensor *divisors[2];
    umbo_variable *variable = NULL;
    umbo_value *slices = NULL;
    umbo_view view;
    CHECK_OK(umbo_variable_create(strategy, "i", initial, NULL, &variable));
    divisors[0] = make_tensor(UMBO_DTYPE_INT32, 2, one, zero);
    divisors[1] = make_tensor(UMBO_DTYPE_INT32, 2, one, two);
    CHECK_OK(umbo_value_create_indexed_slices(divisors[0], index, 2, shape, &slices));
    CHECK_STATUS(umbo_variable_scatter(variable, UMBO_SCATTER_DIV, slices), UMBO_STATUS_INVALID_ARGUMENT);
    umbo_value_release(slices);
    CHECK_OK(umbo_value_create_indexed_slices(divisors[1], index, 2, shape, &slices));
    CHECK_OK(umbo_variable_scatter(variable, UMBO_SCATTER_DIV, slices));
    umbo_value_release(slices);
    CHECK_OK(umbo_variable_read(variable, &now));
    CHECK_OK(umbo_tensor_view(now, &view));
    CHECK(((const int32_t *)view.data)[0] == -3); /* towards zero */
    CHECK(((const int32_t *)view.data)[1] == 7);
    umbo_tensor_release(now);
    umbo_variable_release(variable);
    umbo_tensor_release(divisors[1]);
    umbo_tensor_release(divisors[0]);
    umbo_tensor_release(index);
    umbo_tensor_release(initial);
}

/* In cross-replica context a per-replica value does not say how to combine its components. */
static void components(umbo_strategy *strategy) {
    static const float rows[2] = {1, 2}, other[2] = {100, 100}, after[6] = {10, 20, 30, 40, 50, 60};
    const int64_t row = 1;
    umbo_variable *variable = make_matrix(strategy, UMBO_AGGREGATION_SUM);
    umbo_value *items[2], *slices;
    items[0] = make_slices(1, rows, &row, 3);
    items[1] = make_slices(1, other, &row, 3);
    slices = into_per_replica(2, items);
    CHECK_STATUS(umbo_variable_scatter(variable, UMBO_SCATTER_ADD, slices), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("inside of a run");
    CHECK(matrix_is(variable, after));
    umbo_value_release(slices);
    umbo_variable_release(variable);
}

typedef struct {
    umbo_variable *variable;
    umbo_status expected;
} replica_case;

/* Replica k adds [k + 1, k + 1] to row 0. */
static umbo_status add_own(umbo_replica_context *context, const umbo_value *args, void *user_data,
                           umbo_value **result) {
    const replica_case *this_case = (const replica_case *)user_data;
    const float number = (float)replica_id(context) + 1;
    const float rows[2] = {number, number};
    const int64_t row = 0;
    umbo_value *slices = make_slices(1, rows, &row, 3);
    umbo_status status = umbo_variable_scatter(this_case->variable, UMBO_SCATTER_ADD, slices);
    (void)args;
    (void)result;
    umbo_value_release(slices);
    CHECK_STATUS(status, this_case->expected);
    return status;
}

static void by_aggregation(umbo_strategy *strategy) {
    static const struct {
        umbo_aggregation aggregation;
        umbo_status status;
        float expected[6];
    } cases[] = {
        {UMBO_AGGREGATION_SUM, UMBO_OK, {13, 23, 30, 40, 50, 60}},
        {UMBO_AGGREGATION_MEAN, UMBO_OK, {11.5f, 21.5f, 30, 40, 50, 60}},
        {UMBO_AGGREGATION_ONLY_FIRST_REPLICA, UMBO_OK, {11, 21, 30, 40, 50, 60}},
        {UMBO_AGGREGATION_NONE, UMBO_STATUS_INVALID_ARGUMENT, {10, 20, 30, 40, 50, 60}},
    };
    int32_t index;
    for (index = 0; index < COUNT_OF(cases); index++) {
        replica_case this_case;
        this_case.variable = make_matrix(strategy, cases[index].aggregation);
        this_case.expected = cases[index].status;
        CHECK_STATUS(umbo_strategy_run(strategy, add_own, &this_case, NULL, NULL, NULL),
                     cases[index].status);
        CHECK(matrix_is(this_case.variable, cases[index].expected));
        umbo_variable_release(this_case.variable);
    }
}

/* The update is dropped when the run fails later. */
static umbo_status add_and_fail(umbo_replica_context *context, const umbo_value *args,
                                void *user_data, umbo_value **result) {
    UMBO_TRY(add_own(context, args, user_data, result));
    return umbo_set_last_error(UMBO_STATUS_ABORTED, "after the update", NULL, NULL);
}

static void dropped(umbo_strategy *strategy) {
    static const float before[6] = {10, 20, 30, 40, 50, 60};
    replica_case this_case;
    this_case.variable = make_matrix(strategy, UMBO_AGGREGATION_SUM);
    this_case.expected = UMBO_OK;
    CHECK_STATUS(umbo_strategy_run(strategy, add_and_fail, &this_case, NULL, NULL, NULL),
                 UMBO_STATUS_ABORTED);
    CHECK(matrix_is(this_case.variable, before));
    umbo_variable_release(this_case.variable);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    each_operation(strategy);
    refused(strategy);
    integers(strategy);
    components(strategy);
    by_aggregation(strategy);
    dropped(strategy);
    umbo_strategy_release(strategy);
    return finish();
}
