/* A global batch of the program's own, split over the replicas. */
#include "check.h"

static umbo_value *iota(int64_t rows, int64_t columns) {
    float numbers[64];
    int64_t shape[2];
    int index;
    umbo_value *value = NULL;
    shape[0] = rows;
    shape[1] = columns;
    for (index = 0; index < 64; index++) numbers[index] = (float)index;
    CHECK_OK(umbo_value_from_data(UMBO_DTYPE_FLOAT32, columns == 0 ? 1 : 2, shape, numbers, NULL,
                                  &value));
    return value;
}

static umbo_value *both(umbo_value *x, umbo_value *y) {
    const char *const names[2] = {"x", "y"};
    umbo_value *items[2];
    umbo_value *value = NULL;
    items[0] = x;
    items[1] = y;
    CHECK_OK(umbo_value_create_struct(2, names, items, &value));
    umbo_value_release(x);
    umbo_value_release(y);
    return value;
}

/* What an element of a distributed dataset of this one batch would be. */
static umbo_value *distributed(umbo_strategy *strategy, const umbo_value *batch) {
    umbo_dataset *dataset = NULL;
    umbo_distributed_dataset *over = NULL;
    umbo_iterator *iterator = NULL;
    umbo_value *element = NULL;
    CHECK_OK(umbo_dataset_from_tensors(batch, &dataset));
    CHECK_OK(umbo_strategy_distribute_dataset(strategy, dataset, NULL, &over));
    CHECK_OK(umbo_iterator_from_distributed_dataset(over, &iterator));
    CHECK_OK(umbo_iterator_next(iterator, &element));
    umbo_iterator_release(iterator);
    umbo_distributed_dataset_release(over);
    umbo_dataset_release(dataset);
    return element;
}

static void same_part(const umbo_value *own, const umbo_value *expected, const char *name,
                      int32_t replica) {
    umbo_value *field = NULL, *part = NULL;
    umbo_view views[2];
    int64_t examples[2] = {-1, -1};
    const umbo_value *values[2];
    int which;
    values[0] = own;
    values[1] = expected;
    for (which = 0; which < 2; which++) {
        CHECK_OK(umbo_value_field(values[which], name, &field));
        CHECK(kind_of(field) == UMBO_VALUE_PER_REPLICA);
        CHECK_OK(umbo_value_item(field, replica, &part));
        CHECK_OK(umbo_value_view(part, NULL, UMBO_DTYPE_NONE, &views[which]));
        CHECK_OK(umbo_value_example_count(values[which], replica, &examples[which]));
        umbo_value_release(part);
        umbo_value_release(field);
    }
    CHECK(examples[0] == examples[1]);
    CHECK(views[0].data == views[1].data && views[0].ndim == views[1].ndim);
    CHECK(views[0].shape[0] == views[1].shape[0] && views[0].shape[1] == views[1].shape[1]);
}

/* Writes an element of its part, which is for reading. */
static umbo_status write_part(umbo_replica_context *ctx, const umbo_value *args, void *user_data, umbo_value **result) {
    umbo_view part;
    (void)result;
    UMBO_TRY(umbo_value_view(args, NULL, UMBO_DTYPE_FLOAT32, &part));
    if (replica_id(ctx) == *(const int32_t *)user_data) ((float *)(uintptr_t)part.data)[0] += 1;
    return UMBO_OK;
}

/* Strict mode finds writes to a batch: contiguous, with room between rows, and of one replica. */
static void writes_to_a_batch(void) {
    for (int32_t replicas = 1; replicas <= 3; replicas += 2)
        for (int64_t room = 0; room < 2; ++room)
            for (int32_t writes = -1; writes < replicas; ++writes) {
                const int64_t shape[2] = {6, 2};
                float x[18] = {0};
                umbo_view view = umbo_view_of_memory(UMBO_DTYPE_FLOAT32, 2, shape, x);
                umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
                umbo_strategy *strategy = NULL;
                umbo_value *batch = NULL;
                view.strides[0] += room;
                options.cpu_replicas = replicas;
                options.strict = 1;
                CHECK_OK(umbo_strategy_create(&options, &strategy));
                CHECK_OK(umbo_strategy_split_arrays(strategy, 1, NULL, &view, &batch));
                if (writes == -1) {
                    CHECK_OK(umbo_strategy_run(strategy, write_part, batch, &writes, NULL, NULL));
                } else {
                    CHECK_STATUS(umbo_strategy_run(strategy, write_part, batch, &writes, NULL, NULL),
                                 UMBO_STATUS_FAILED_PRECONDITION);
                    CHECK_MESSAGE("the replica's part of the batch (float32 of shape");
                }
                umbo_value_release(batch);
                umbo_strategy_release(strategy);
            }
}

static umbo_status look_at_position(umbo_replica_context *ctx, const umbo_value *args,
                                    void *user_data, umbo_value **result) {
    static const int64_t first[4] = {0, 3, 6, 9}, local[4] = {3, 3, 3, 0};
    umbo_replica_context_info position = UMBO_REPLICA_CONTEXT_INFO_INIT;
    umbo_view x;
    const int32_t replica = replica_id(ctx);
    (void)user_data;
    (void)result;
    UMBO_TRY(umbo_replica_context_get_info(ctx, &position));
    if (steps_are_checked()) return UMBO_OK; /* also on other splits */
    CHECK(position.first_example == first[replica] && position.local_example_count == local[replica]);
    CHECK(position.global_example_count == 9);
    UMBO_TRY(umbo_value_view(args, "x", UMBO_DTYPE_NONE, &x));
    CHECK(x.shape[0] == local[replica] && x.mutable_data == NULL);
    if (replica < 3) CHECK(*(const float *)x.data == 6.0f * (float)replica);
    return UMBO_OK;
}

static void as_a_distributed_element(umbo_strategy *strategy) {
    umbo_value *batch = both(iota(9, 2), iota(9, 0)), *own = NULL, *expected;
    int64_t examples = -1;
    int32_t replica;
    CHECK_OK(umbo_strategy_split(strategy, batch, &own));
    expected = distributed(strategy, batch);
    for (replica = 0; replica < 4; replica++) {
        same_part(own, expected, "x", replica);
        same_part(own, expected, "y", replica);
    }
    CHECK_OK(umbo_value_example_count(own, UMBO_ALL, &examples));
    CHECK(examples == 9);
    umbo_value_release(expected);
    umbo_value_release(batch); /* the parts keep it */
    CHECK_OK(umbo_strategy_run(strategy, look_at_position, own, NULL, NULL, NULL));
    umbo_value_release(own);
}

static void one_replica(void) {
    umbo_strategy *strategy = make_strategy(1);
    umbo_value *batch = iota(5, 0), *own = NULL, *number = float_value(3);
    int64_t examples = -1;
    CHECK_OK(umbo_strategy_split(strategy, batch, &own));
    CHECK(kind_of(own) == UMBO_VALUE_TENSOR);
    CHECK_OK(umbo_value_example_count(own, 0, &examples));
    CHECK(examples == 5);
    umbo_value_release(own);
    CHECK_OK(umbo_strategy_split(strategy, number, &own));
    CHECK(float_of(own) == 3);
    umbo_value_release(own);
    umbo_value_release(number);
    umbo_value_release(batch);
    umbo_strategy_release(strategy);
}

/* Adds up the first column of a replica's rows, in the metric "sum". */
static umbo_status add_up(umbo_replica_context *ctx, const umbo_value *args, void *user_data, umbo_value **result) {
    umbo_view x, y;
    int64_t row;
    double sum = 0;
    (void)user_data;
    (void)result;
    UMBO_TRY(umbo_value_view(args, "x", UMBO_DTYPE_FLOAT32, &x));
    UMBO_TRY(umbo_value_view(args, "y", UMBO_DTYPE_INT32, &y));
    CHECK(x.shape[0] == y.shape[0] && x.mutable_data == NULL);
    for (row = 0; row < x.shape[0]; row++) {
        sum += (double)((const float *)x.data)[row * x.strides[0]] * ((const int32_t *)y.data)[row * y.strides[0]];
    }
    return umbo_replica_context_add_metric(ctx, "sum", sum, 1);
}

static void arrays_of_the_program(umbo_strategy *strategy) {
    const char *const names[2] = {"x", "y"}, *const same[2] = {"x", "x"};
    const int64_t x_shape[2] = {9, 2}, y_shape[1] = {9}, short_shape[1] = {8};
    float x[18] = {0};
    int32_t y[9] = {0};
    umbo_view views[2], first;
    umbo_value *batch = NULL, *none = NULL, *part = NULL;
    umbo_metric_result sum = UMBO_METRIC_RESULT_INIT;
    int index, run;
    views[0] = umbo_view_of_memory(UMBO_DTYPE_FLOAT32, 2, x_shape, x);
    views[1] = umbo_view_of_memory(UMBO_DTYPE_INT32, 1, y_shape, y);
    CHECK_OK(umbo_strategy_split_arrays(strategy, 2, names, views, &batch));
    for (run = 1; run < 4; run++) { /* one split for all that the arrays will have */
        double expected = 0;
        for (index = 0; index < 9; index++) {
            x[2 * index] = (float)(index * run);
            y[index] = index - run;
            expected += (double)x[2 * index] * y[index];
        }
        CHECK_OK(umbo_strategy_run(strategy, add_up, batch, NULL, NULL, NULL));
        CHECK_OK(umbo_strategy_metric_result(strategy, "sum", &sum));
        CHECK(sum.sum == expected);
    }
    umbo_value_release(batch);

    CHECK_OK(umbo_strategy_split_arrays(strategy, 1, NULL, views, &batch));
    CHECK_OK(umbo_value_item(batch, 0, &part));
    CHECK_OK(umbo_value_view(part, NULL, UMBO_DTYPE_FLOAT32, &first));
    CHECK(first.data == x && first.shape[0] == 3);
    umbo_value_release(part);
    umbo_value_release(batch);

    CHECK_STATUS(umbo_strategy_split_arrays(strategy, 2, same, views, &none), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_strategy_split_arrays(strategy, 0, NULL, views, &none), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_strategy_split_arrays(strategy, 2, names, NULL, &none), UMBO_STATUS_INVALID_ARGUMENT);
    views[1] = umbo_view_of_memory(UMBO_DTYPE_INT32, 1, short_shape, y);
    CHECK_STATUS(umbo_strategy_split_arrays(strategy, 2, names, views, &none), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("array 1 has 8 rows");
    views[1] = umbo_view_of_memory(UMBO_DTYPE_INT32, 0, NULL, y);
    CHECK_STATUS(umbo_strategy_split_arrays(strategy, 2, names, views, &none), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("array 1 is a scalar");
    CHECK(none == NULL);
}

static umbo_value *pair(umbo_value *first, umbo_value *second) {
    umbo_value *items[2], *value = NULL;
    items[0] = first;
    items[1] = second;
    CHECK_OK(umbo_value_create_tuple(2, items, &value));
    umbo_value_release(first);
    umbo_value_release(second);
    return value;
}

/* Tensors with different numbers of rows: labelled examples, and more of them without labels. */
static void rows_of_its_own(umbo_strategy *strategy) {
    static const int64_t labelled[4] = {2, 2, 2, 1}, others[4] = {1, 1, 1, 0};
    umbo_value *batch = both(iota(7, 2), pair(iota(7, 0), iota(3, 0))), *own = NULL, *expected;
    umbo_value *field = NULL, *item = NULL, *part = NULL;
    int64_t examples = -1;
    int32_t replica;
    umbo_view view;
    CHECK_OK(umbo_strategy_split(strategy, batch, &own));
    expected = distributed(strategy, batch);
    CHECK_OK(umbo_value_field(own, "y", &field));
    CHECK_OK(umbo_value_item(field, 1, &item));
    for (replica = 0; replica < 4; replica++) {
        same_part(own, expected, "x", replica);
        CHECK_OK(umbo_value_example_count(own, replica, &examples));
        CHECK(examples == labelled[replica]);
        CHECK_OK(umbo_value_item(item, replica, &part));
        CHECK_OK(umbo_value_view(part, NULL, UMBO_DTYPE_NONE, &view));
        CHECK(view.shape[0] == others[replica]);
        umbo_value_release(part);
    }
    umbo_value_release(item);
    umbo_value_release(field);
    umbo_value_release(expected);
    umbo_value_release(own);
    umbo_value_release(batch);
}

static void refused(umbo_strategy *strategy) {
    umbo_value *number = float_value(1), *batch = iota(4, 0), *own = NULL, *twice = NULL;
    CHECK_STATUS(umbo_strategy_split(strategy, number, &own), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("scalar");
    CHECK_OK(umbo_strategy_split(strategy, batch, &own));
    CHECK_STATUS(umbo_strategy_split(strategy, own, &twice), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("per-replica");
    CHECK(twice == NULL);
    rows_of_its_own(strategy);
    umbo_value_release(own);
    umbo_value_release(batch);
    umbo_value_release(number);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(4);
    as_a_distributed_element(strategy);
    one_replica();
    writes_to_a_batch();
    arrays_of_the_program(strategy);
    refused(strategy);
    umbo_strategy_release(strategy);
    return finish();
}
