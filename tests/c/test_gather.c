/* gather: concatenation over replicas along an axis. */
#include "check.h"

static umbo_value *matrices(int64_t first_rows, int64_t second_rows, int64_t second_columns) {
    float data[12];
    int64_t shape[2];
    umbo_value *items[2];
    int index;
    for (index = 0; index < 12; index++) data[index] = (float)index;
    shape[0] = first_rows;
    shape[1] = 2;
    items[0] = into_value(make_tensor(UMBO_DTYPE_FLOAT32, 2, shape, data));
    shape[0] = second_rows;
    shape[1] = second_columns;
    items[1] = into_value(make_tensor(UMBO_DTYPE_FLOAT32, 2, shape, data));
    return into_per_replica(2, items);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    const float scalars_data[2] = {1, 2};
    umbo_value *rows = matrices(1, 2, 2), *columns = matrices(2, 2, 3), *empty = matrices(1, 0, 2);
    umbo_value *scalars = per_replica_floats(2, scalars_data), *plain = float_value(1);
    umbo_value *result = NULL;
    umbo_view view;
    const float *data;

    CHECK_OK(umbo_strategy_gather(strategy, rows, 0, NULL, &result));
    CHECK_OK(umbo_value_view(result, NULL, UMBO_DTYPE_NONE, &view));
    data = (const float *)view.data;
    CHECK(view.shape[0] == 3 && view.shape[1] == 2 && view.strides[0] == 2);
    CHECK(data[0] == 0 && data[1] == 1 && data[2] == 0 && data[5] == 3);
    umbo_value_release(result);

    CHECK_OK(umbo_strategy_gather(strategy, columns, -1, NULL, &result));
    CHECK_OK(umbo_value_view(result, NULL, UMBO_DTYPE_NONE, &view));
    data = (const float *)view.data;
    CHECK(view.shape[0] == 2 && view.shape[1] == 5);
    CHECK(data[1] == 1 && data[2] == 0 && data[4] == 2 && data[5] == 2 && data[9] == 5);
    umbo_value_release(result);

    CHECK_OK(umbo_strategy_gather(strategy, empty, 0, NULL, &result));
    CHECK_OK(umbo_value_view(result, NULL, UMBO_DTYPE_NONE, &view));
    CHECK(view.shape[0] == 1 && view.shape[1] == 2);
    umbo_value_release(result);

    CHECK_OK(umbo_strategy_gather(strategy, plain, 0, NULL, &result)); /* unchanged, unchecked */
    CHECK(float_of(result) == 1);
    umbo_value_release(result);

    result = NULL;
    CHECK_STATUS(umbo_strategy_gather(strategy, rows, 1, NULL, &result), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("axis 0"); /* the axis that would work */
    CHECK_STATUS(umbo_strategy_gather(strategy, rows, 2, NULL, &result), UMBO_STATUS_OUT_OF_RANGE);
    CHECK_MESSAGE("axis");
    CHECK(umbo_strategy_gather(strategy, scalars, 0, NULL, &result) != UMBO_OK);
    CHECK_MESSAGE("scalar");
    CHECK(result == NULL);

    umbo_value_release(plain);
    umbo_value_release(scalars);
    umbo_value_release(empty);
    umbo_value_release(columns);
    umbo_value_release(rows);
    umbo_strategy_release(strategy);
    return finish();
}
