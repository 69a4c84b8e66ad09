/* Reductions in cross-replica context: over replicas and over axes, of each kind of value, of
 * several dtypes, onto a device and into a tensor; and local results. */
#include "check.h"

/* [0, 1, 2, 3] for replica 0, and the first `second_rows` of [4, 5, 6, 7] for replica 1. */
static umbo_value *two_parts(int64_t second_rows) {
    const float first[4] = {0, 1, 2, 3}, second[4] = {4, 5, 6, 7};
    umbo_value *items[2];
    items[0] = floats_value(4, first);
    items[1] = floats_value(second_rows, second);
    return into_per_replica(2, items);
}

/* Components must have one shape; the message says how to reduce others. */
static void over_replicas(umbo_strategy *strategy) {
    const float sums[4] = {4, 6, 8, 10};
    umbo_value *even = two_parts(4), *uneven = two_parts(2), *result = NULL;
    CHECK_OK(umbo_strategy_reduce(strategy, even, UMBO_REDUCE_SUM, NULL, &result));
    CHECK(has_floats(result, 4, sums));
    umbo_value_release(result);
    CHECK_OK(umbo_strategy_reduce(strategy, even, UMBO_REDUCE_MEAN, NULL, &result));
    CHECK(float_of(result) == 2);
    umbo_value_release(result);
    result = NULL;
    CHECK_STATUS(umbo_strategy_reduce(strategy, uneven, UMBO_REDUCE_SUM, NULL, &result),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("[4]");
    CHECK_MESSAGE("[2]");
    CHECK_MESSAGE("axes = {0}");
    CHECK(result == NULL);
    umbo_value_release(uneven);
    umbo_value_release(even);
}

/* A mean over an axis is weighted by examples: 15 / 6, not a mean of means. */
static void over_an_axis(umbo_strategy *strategy) {
    const int32_t axis[1] = {0}, negative[1] = {-1}, beyond[1] = {1}, twice[2] = {0, 0};
    umbo_value *uneven = two_parts(2), *half_empty = two_parts(0), *even = two_parts(4);
    umbo_value *result = NULL, *again = NULL;
    umbo_reduce_options options = UMBO_REDUCE_OPTIONS_INIT;
    options.axes = axis;
    options.axis_count = 1;
    CHECK_OK(umbo_strategy_reduce(strategy, uneven, UMBO_REDUCE_MEAN, &options, &result));
    CHECK(float_of(result) == 2.5f);
    umbo_value_release(result);
    CHECK_OK(umbo_strategy_reduce(strategy, half_empty, UMBO_REDUCE_MEAN, &options, &result));
    CHECK(float_of(result) == 1.5f);
    umbo_value_release(result);
    options.axes = negative;
    CHECK_OK(umbo_strategy_reduce(strategy, even, UMBO_REDUCE_SUM, &options, &result));
    CHECK(float_of(result) == 28);
    umbo_value_release(result);
    /* A tensor is the same on each replica: 28, counted for both. */
    CHECK_OK(umbo_strategy_reduce(strategy, even, UMBO_REDUCE_SUM, NULL, &result));
    CHECK_OK(umbo_strategy_reduce(strategy, result, UMBO_REDUCE_SUM, &options, &again));
    CHECK(float_of(again) == 56);
    umbo_value_release(again);
    umbo_value_release(result);
    result = NULL;
    options.axes = beyond;
    CHECK_STATUS(umbo_strategy_reduce(strategy, even, UMBO_REDUCE_SUM, &options, &result),
                 UMBO_STATUS_OUT_OF_RANGE);
    CHECK_MESSAGE("axis");
    options.axes = twice;
    options.axis_count = 2;
    CHECK_STATUS(umbo_strategy_reduce(strategy, even, UMBO_REDUCE_SUM, &options, &result),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(result == NULL);
    umbo_value_release(even);
    umbo_value_release(half_empty);
    umbo_value_release(uneven);
}

/* A tensor has a mean, itself, and no sum: nothing says how often it would count. */
static void plain_values(umbo_strategy *strategy) {
    umbo_value *five = float_value(5), *result = NULL;
    CHECK_OK(umbo_strategy_reduce(strategy, five, UMBO_REDUCE_MEAN, NULL, &result));
    CHECK(float_of(result) == 5);
    umbo_value_release(result);
    result = NULL;
    CHECK_STATUS(umbo_strategy_reduce(strategy, five, UMBO_REDUCE_SUM, NULL, &result),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("value");
    CHECK_STATUS(umbo_strategy_reduce(strategy, five, (umbo_reduce_op)0, NULL, &result),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("op");
    CHECK(result == NULL);
    umbo_value_release(five);
}

static umbo_value *two_of(umbo_dtype dtype, const void *first, const void *second) {
    umbo_value *items[2];
    items[0] = into_value(make_tensor(dtype, 0, NULL, first));
    items[1] = into_value(make_tensor(dtype, 0, NULL, second));
    return into_per_replica(2, items);
}

/* Sums of integers wrap; means of integers are floating-point numbers. */
static void dtypes(umbo_strategy *strategy) {
    const uint8_t a8 = 200, b8 = 100, yes = 1;
    const int32_t a32 = 1, b32 = 2;
    umbo_value *bytes = two_of(UMBO_DTYPE_UINT8, &a8, &b8);
    umbo_value *ints = two_of(UMBO_DTYPE_INT32, &a32, &b32);
    umbo_value *bools = two_of(UMBO_DTYPE_BOOL, &yes, &yes), *result = NULL;
    umbo_view view;
    CHECK_OK(umbo_strategy_reduce(strategy, bytes, UMBO_REDUCE_SUM, NULL, &result));
    CHECK_OK(umbo_value_view(result, NULL, UMBO_DTYPE_NONE, &view));
    CHECK(view.dtype == UMBO_DTYPE_UINT8 && *(const uint8_t *)view.data == 200 + 100 - 256);
    umbo_value_release(result);
    CHECK_OK(umbo_strategy_reduce(strategy, bytes, UMBO_REDUCE_MEAN, NULL, &result));
    CHECK(float_of(result) == 150);
    umbo_value_release(result);
    CHECK_OK(umbo_strategy_reduce(strategy, ints, UMBO_REDUCE_MEAN, NULL, &result));
    CHECK_OK(umbo_value_view(result, NULL, UMBO_DTYPE_NONE, &view));
    CHECK(view.dtype == UMBO_DTYPE_FLOAT64 && *(const double *)view.data == 1.5);
    umbo_value_release(result);
    result = NULL;
    CHECK_STATUS(umbo_strategy_reduce(strategy, bools, UMBO_REDUCE_SUM, NULL, &result),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("bool");
    CHECK(result == NULL);
    umbo_value_release(bools);
    umbo_value_release(ints);
    umbo_value_release(bytes);
}

/* The smallest and the largest element have the dtype of the elements, bool too. A component that is
 * empty along an axis is ignored, unless all are. */
static void extremes(umbo_strategy *strategy) {
    const float least[4] = {0, 1, 2, 3}, most[4] = {4, 5, 6, 7};
    const uint8_t yes = 1, no = 0;
    const int32_t axis[1] = {0};
    umbo_value *even = two_parts(4), *half_empty = two_parts(0), *result = NULL, *items[2];
    umbo_value *bools = two_of(UMBO_DTYPE_BOOL, &yes, &no), *empty = NULL;
    umbo_reduce_options options = UMBO_REDUCE_OPTIONS_INIT;
    umbo_view view;
    CHECK_OK(umbo_strategy_reduce(strategy, even, UMBO_REDUCE_MIN, NULL, &result));
    CHECK(has_floats(result, 4, least));
    umbo_value_release(result);
    CHECK_OK(umbo_strategy_reduce(strategy, even, UMBO_REDUCE_MAX, NULL, &result));
    CHECK(has_floats(result, 4, most));
    umbo_value_release(result);
    CHECK_OK(umbo_strategy_reduce(strategy, bools, UMBO_REDUCE_MIN, NULL, &result));
    CHECK_OK(umbo_value_view(result, NULL, UMBO_DTYPE_BOOL, &view));
    CHECK(*(const uint8_t *)view.data == 0);
    umbo_value_release(result);
    CHECK_OK(umbo_strategy_reduce(strategy, bools, UMBO_REDUCE_MAX, NULL, &result));
    CHECK_OK(umbo_value_view(result, NULL, UMBO_DTYPE_BOOL, &view));
    CHECK(*(const uint8_t *)view.data == 1);
    umbo_value_release(result);
    options.axes = axis;
    options.axis_count = 1;
    CHECK_OK(umbo_strategy_reduce(strategy, half_empty, UMBO_REDUCE_MAX, &options, &result));
    CHECK(float_of(result) == 3);
    umbo_value_release(result);
    result = NULL;
    items[0] = floats_value(0, least);
    items[1] = floats_value(0, least);
    empty = into_per_replica(2, items);
    CHECK_STATUS(umbo_strategy_reduce(strategy, empty, UMBO_REDUCE_MAX, &options, &result),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("empty along the reduced axes");
    CHECK(result == NULL);
    umbo_value_release(empty);
    umbo_value_release(bools);
    umbo_value_release(half_empty);
    umbo_value_release(even);
}

/* Structs are reduced leaf by leaf. */
static void structures(umbo_strategy *strategy) {
    const char *const names[2] = {"a", "b"};
    const float tens[2] = {10, 20};
    umbo_value *items[2];
    umbo_value *a = two_parts(4), *b = per_replica_floats(2, tens), *nest = NULL, *result = NULL;
    umbo_view view;
    items[0] = a;
    items[1] = b;
    CHECK_OK(umbo_value_create_struct(2, names, items, &nest));
    CHECK_OK(umbo_strategy_reduce(strategy, nest, UMBO_REDUCE_SUM, NULL, &result));
    CHECK_OK(umbo_value_view(result, "a", UMBO_DTYPE_NONE, &view));
    CHECK(((const float *)view.data)[1] == 6);
    CHECK_OK(umbo_value_view(result, "b", UMBO_DTYPE_NONE, &view));
    CHECK(*(const float *)view.data == 30);
    umbo_value_release(result);
    umbo_value_release(nest);
    umbo_value_release(b);
    umbo_value_release(a);
}

/* A destination is either a device or the device of a variable. */
static void destinations(umbo_strategy *strategy) {
    const float numbers[2] = {1, 2};
    umbo_value *value = per_replica_floats(2, numbers), *result = NULL;
    umbo_variable *variable = make_variable(strategy, 0, UMBO_AGGREGATION_NONE);
    umbo_destination destination = UMBO_DESTINATION_INIT;
    destination.device = "cpu:0";
    CHECK_OK(umbo_strategy_reduce_to(strategy, value, UMBO_REDUCE_SUM, &destination, &result));
    CHECK(kind_of(result) == UMBO_VALUE_TENSOR && float_of(result) == 3);
    umbo_value_release(result);
    result = NULL;
    destination.variable = variable; /* both */
    CHECK_STATUS(umbo_strategy_reduce_to(strategy, value, UMBO_REDUCE_SUM, &destination, &result),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("destination");
    destination.device = NULL;
    CHECK_OK(umbo_strategy_reduce_to(strategy, value, UMBO_REDUCE_MEAN, &destination, &result));
    CHECK(float_of(result) == 1.5f);
    umbo_value_release(result);
    result = NULL;
    destination.variable = NULL; /* neither */
    CHECK_STATUS(umbo_strategy_reduce_to(strategy, value, UMBO_REDUCE_SUM, &destination, &result),
                 UMBO_STATUS_INVALID_ARGUMENT);
    destination.device = "";
    CHECK_STATUS(umbo_strategy_reduce_to(strategy, value, UMBO_REDUCE_SUM, &destination, &result),
                 UMBO_STATUS_INVALID_ARGUMENT);
    umbo_variable_release(variable);
    umbo_value_release(value);
}

/* The result lies in the tensor that `output` names, which must fit. */
static void output_tensor(umbo_strategy *strategy) {
    const float numbers[2] = {1, 2}, zeros[4] = {0}, sums[4] = {4, 6, 8, 10};
    umbo_value *value = per_replica_floats(2, numbers), *even = two_parts(4), *result = NULL;
    umbo_tensor *output = make_floats(4, zeros), *same = NULL;
    umbo_view view, output_view;
    umbo_reduce_options options = UMBO_REDUCE_OPTIONS_INIT;
    options.output = output;
    CHECK_OK(umbo_strategy_reduce(strategy, even, UMBO_REDUCE_SUM, &options, &result));
    CHECK_OK(umbo_value_tensor(result, &same));
    CHECK_OK(umbo_tensor_view(same, &view));
    CHECK_OK(umbo_tensor_view(output, &output_view));
    CHECK(view.data == output_view.data && has_floats(result, 4, sums));
    umbo_tensor_release(same);
    umbo_value_release(result);
    result = NULL;
    CHECK_STATUS(umbo_strategy_reduce(strategy, value, UMBO_REDUCE_SUM, &options, &result),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("output");
    umbo_tensor_release(output);
    umbo_value_release(even);
    umbo_value_release(value);
}

/* Local results are a tuple of this rank's components; of a tensor, there is one. */
static void local_results(umbo_strategy *strategy) {
    const float numbers[2] = {1, 2};
    umbo_value *split = per_replica_floats(2, numbers), *plain = float_value(3), *result = NULL;
    CHECK_OK(umbo_strategy_local_results(strategy, split, &result));
    CHECK(kind_of(result) == UMBO_VALUE_TUPLE && count_of(result) == 2);
    CHECK(float_at(result, 1) == 2);
    umbo_value_release(result);
    CHECK_OK(umbo_strategy_local_results(strategy, plain, &result));
    CHECK(kind_of(result) == UMBO_VALUE_TUPLE && count_of(result) == 1);
    CHECK(float_at(result, 0) == 3);
    umbo_value_release(result);
    umbo_value_release(plain);
    umbo_value_release(split);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    over_replicas(strategy);
    over_an_axis(strategy);
    plain_values(strategy);
    dtypes(strategy);
    extremes(strategy);
    structures(strategy);
    destinations(strategy);
    output_tensor(strategy);
    local_results(strategy);
    umbo_strategy_release(strategy);
    return finish();
}
