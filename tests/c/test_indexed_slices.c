/* Indexed slices: making them, looking at them, reducing and gathering them. */
#include "check.h"

static const float rows[6] = {1, 2, 3, 4, 5, 6};
static const int64_t indices[3] = {2, 0, 2};

static int has_row_numbers(const umbo_value *slices, int64_t count, const int64_t *expected) {
    umbo_tensor *values = NULL, *tensor = NULL;
    umbo_view view;
    int same;
    CHECK_OK(umbo_value_indexed_slices(slices, &values, &tensor));
    CHECK_OK(umbo_tensor_view(tensor, &view));
    CHECK(view.dtype == UMBO_DTYPE_INT64 && view.ndim == 1);
    same = view.shape[0] == count &&
           memcmp(view.data, expected, (size_t)count * sizeof(int64_t)) == 0;
    umbo_tensor_release(values);
    umbo_tensor_release(tensor);
    return same;
}

static int has_rows(const umbo_value *slices, int64_t count, const float *expected) {
    umbo_tensor *tensor = NULL, *numbers = NULL;
    umbo_value *value;
    int same;
    CHECK_OK(umbo_value_indexed_slices(slices, &tensor, &numbers));
    umbo_tensor_release(numbers);
    value = into_value(tensor);
    same = has_floats(value, count * 2, expected);
    umbo_value_release(value);
    return same;
}

static void parts(void) {
    const int64_t rows_shape[2] = {3, 2}, dense_shape[2] = {4, 2}, three = 3;
    umbo_tensor *values = make_tensor(UMBO_DTYPE_FLOAT32, 2, rows_shape, rows), *kept = NULL;
    umbo_tensor *numbers = make_tensor(UMBO_DTYPE_INT64, 1, &three, indices), *kept_numbers = NULL;
    umbo_value *slices = NULL, *plain = float_value(1);
    umbo_view given, found;
    umbo_value_info info;
    CHECK_OK(umbo_value_create_indexed_slices(values, numbers, 2, dense_shape, &slices));
    CHECK(kind_of(slices) == UMBO_VALUE_INDEXED_SLICES && count_of(slices) == 1);
    CHECK(has_rows(slices, 3, rows) && has_row_numbers(slices, 3, indices));
    CHECK_OK(umbo_value_indexed_slices(slices, &kept, &kept_numbers)); /* the same tensors, no copies */
    CHECK_OK(umbo_tensor_view(values, &given));
    CHECK_OK(umbo_tensor_view(kept, &found));
    CHECK(given.data == found.data);
    CHECK_OK(umbo_tensor_view(numbers, &given));
    CHECK_OK(umbo_tensor_view(kept_numbers, &found));
    CHECK(given.data == found.data);
    umbo_tensor_release(kept_numbers);
    umbo_tensor_release(kept);
    info = value_info_of(slices);
    CHECK(info.dtype == UMBO_DTYPE_FLOAT32 && info.ndim == 2);
    CHECK(info.shape[0] == 4 && info.shape[1] == 2 && info.shape[2] == 0 && info.shape[7] == 0);
    umbo_tensor_release(numbers); /* the value keeps what it is made of */
    umbo_tensor_release(values);
    CHECK(has_rows(slices, 3, rows) && has_row_numbers(slices, 3, indices));

    kept = kept_numbers = NULL;
    CHECK_STATUS(umbo_value_indexed_slices(plain, &kept, &kept_numbers), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("value: is a tensor, not indexed slices");
    CHECK_STATUS(umbo_value_tensor(slices, &kept), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("indexed slices");
    CHECK(kept == NULL && kept_numbers == NULL);
    umbo_value_release(plain);
    umbo_value_release(slices);
}

static void refused(void) {
    const int64_t rows_shape[2] = {3, 2}, dense_shape[2] = {4, 2}, other_shape[2] = {4, 3};
    const int64_t three = 3, two = 2;
    const int32_t narrow[3] = {0, 1, 2};
    umbo_tensor *values = make_tensor(UMBO_DTYPE_FLOAT32, 2, rows_shape, rows);
    umbo_tensor *numbers = make_tensor(UMBO_DTYPE_INT64, 1, &three, indices);
    umbo_tensor *too_few = make_tensor(UMBO_DTYPE_INT64, 1, &two, indices);
    umbo_tensor *too_narrow = make_tensor(UMBO_DTYPE_INT32, 1, &three, narrow);
    umbo_value *slices = NULL;
    CHECK_STATUS(umbo_value_create_indexed_slices(values, too_few, 2, dense_shape, &slices),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_value_create_indexed_slices(values, too_narrow, 2, dense_shape, &slices),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("indices");
    CHECK_STATUS(umbo_value_create_indexed_slices(values, numbers, 2, other_shape, &slices),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_value_create_indexed_slices(values, numbers, 1, dense_shape, &slices),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_value_create_indexed_slices(values, numbers, -1, dense_shape, &slices),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("ndim");
    CHECK(slices == NULL);
    umbo_tensor_release(too_narrow);
    umbo_tensor_release(too_few);
    umbo_tensor_release(numbers);
    umbo_tensor_release(values);
}

/* Rows 2, 0, 2 on the first replica and 3 on the second. */
static umbo_value *on_two_replicas(void) {
    const float more[2] = {10, 20};
    const int64_t row = 3;
    umbo_value *items[2];
    items[0] = make_slices(3, rows, indices, 4);
    items[1] = make_slices(1, more, &row, 4);
    return into_per_replica(2, items);
}

static void reduced(umbo_strategy *strategy) {
    static const float all[8] = {1, 2, 3, 4, 5, 6, 10, 20};
    static const float halves[8] = {0.5f, 1, 1.5f, 2, 2.5f, 3, 5, 10};
    static const int64_t numbers[4] = {2, 0, 2, 3};
    static const float over_rows[2] = {19, 32};
    const int32_t axis = 0;
    umbo_value *value = on_two_replicas(), *result = NULL;
    umbo_reduce_options options = UMBO_REDUCE_OPTIONS_INIT;
    CHECK_OK(umbo_strategy_reduce(strategy, UMBO_REDUCE_SUM, value, NULL, &result));
    CHECK(kind_of(result) == UMBO_VALUE_INDEXED_SLICES); /* duplicates are kept */
    CHECK(has_rows(result, 4, all) && has_row_numbers(result, 4, numbers));
    umbo_value_release(result);
    CHECK_OK(umbo_strategy_reduce(strategy, UMBO_REDUCE_MEAN, value, NULL, &result));
    CHECK(has_rows(result, 4, halves) && has_row_numbers(result, 4, numbers));
    umbo_value_release(result);
    options.axes = &axis; /* along an axis they count as the dense tensors */
    options.axis_count = 1;
    CHECK_OK(umbo_strategy_reduce(strategy, UMBO_REDUCE_SUM, value, &options, &result));
    CHECK(kind_of(result) == UMBO_VALUE_TENSOR && has_floats(result, 2, over_rows));
    umbo_value_release(result);
    umbo_value_release(value);
}

/* A tensor on one replica, slices on the other: the sum is a tensor. */
static void mixed(umbo_strategy *strategy) {
    static const float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1}, sum[8] = {4, 5, 1, 1, 7, 9, 1, 1};
    const int64_t shape[2] = {4, 2}, beyond = 4;
    umbo_value *items[2], *value, *result = NULL;
    items[0] = into_value(make_tensor(UMBO_DTYPE_FLOAT32, 2, shape, ones));
    items[1] = make_slices(3, rows, indices, 4);
    value = into_per_replica(2, items);
    CHECK_OK(umbo_strategy_reduce(strategy, UMBO_REDUCE_SUM, value, NULL, &result));
    CHECK(kind_of(result) == UMBO_VALUE_TENSOR && has_floats(result, 8, sum));
    umbo_value_release(result);
    umbo_value_release(value);

    result = NULL; /* rows are counted where they matter */
    items[0] = into_value(make_tensor(UMBO_DTYPE_FLOAT32, 2, shape, ones));
    items[1] = make_slices(1, rows, &beyond, 4);
    value = into_per_replica(2, items);
    CHECK_STATUS(umbo_strategy_reduce(strategy, UMBO_REDUCE_SUM, value, NULL, &result),
                 UMBO_STATUS_OUT_OF_RANGE);
    umbo_value_release(value);
    items[0] = make_slices(1, rows, indices, 4);
    items[1] = make_slices(1, rows, indices, 5);
    value = into_per_replica(2, items);
    CHECK_STATUS(umbo_strategy_reduce(strategy, UMBO_REDUCE_SUM, value, NULL, &result),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(result == NULL);
    umbo_value_release(value);
}

static void gathered(umbo_strategy *strategy) {
    static const float dense[16] = {3, 4, 0, 0, 6, 8, 0, 0, 0, 0, 0, 0, 0, 0, 10, 20};
    umbo_value *value = on_two_replicas(), *plain = make_slices(3, rows, indices, 4);
    umbo_value *result = NULL;
    CHECK_OK(umbo_strategy_gather(strategy, value, 0, NULL, &result));
    CHECK(kind_of(result) == UMBO_VALUE_TENSOR && has_floats(result, 16, dense));
    umbo_value_release(result);
    result = NULL;
    CHECK_STATUS(umbo_strategy_gather(strategy, plain, 0, NULL, &result), UMBO_STATUS_UNIMPLEMENTED);
    CHECK_MESSAGE("indexed slices");
    CHECK(result == NULL);
    umbo_value_release(plain);
    umbo_value_release(value);
}

/* All-reduce in replica context: each replica brings one row, its own. */
static umbo_status all_reduce(umbo_replica_context *context, const umbo_value *args,
                              void *user_data, umbo_value **result) {
    static const int64_t numbers[2] = {0, 1};
    static const float sum[4] = {0, 0, 1, 1}, mean[4] = {0, 0, 0.5f, 0.5f};
    const int64_t row = replica_id(context);
    const float own[2] = {(float)row, (float)row};
    umbo_value *slices = make_slices(1, own, &row, 4), *reduced_value = NULL;
    (void)args;
    (void)user_data;
    (void)result;
    CHECK_OK(umbo_replica_context_all_reduce(context, UMBO_REDUCE_SUM, slices, &reduced_value));
    CHECK(has_rows(reduced_value, 2, sum) && has_row_numbers(reduced_value, 2, numbers));
    umbo_value_release(reduced_value);
    CHECK_OK(umbo_replica_context_all_reduce(context, UMBO_REDUCE_MEAN, slices, &reduced_value));
    CHECK(has_rows(reduced_value, 2, mean) && has_row_numbers(reduced_value, 2, numbers));
    umbo_value_release(reduced_value);
    reduced_value = NULL;
    CHECK_STATUS(umbo_replica_context_all_gather(context, slices, 0, &reduced_value),
                 UMBO_STATUS_UNIMPLEMENTED);
    CHECK(reduced_value == NULL);
    umbo_value_release(slices);
    return UMBO_OK;
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    parts();
    refused();
    reduced(strategy);
    mixed(strategy);
    gathered(strategy);
    CHECK_OK(umbo_strategy_run(strategy, all_reduce, NULL, NULL, NULL, NULL));
    umbo_strategy_release(strategy);
    return finish();
}
