/* What takes and gives the caller's memory at once: values from data, variables written from and
 * copied to memory, and the views of all variables and all gradient buffers. */
#include "check.h"

static void values_from_data(void) {
    const int64_t shape[2] = {2, 3};
    const float numbers[6] = {1, 2, 3, 4, 5, 6};
    const double pi = 3.25;
    umbo_value *array = NULL, *number = NULL, *none = NULL;
    umbo_view view;
    CHECK_OK(umbo_value_from_data(UMBO_DTYPE_FLOAT32, 2, shape, numbers, NULL, &array));
    CHECK_OK(umbo_value_view(array, NULL, UMBO_DTYPE_NONE, &view));
    CHECK(view.ndim == 2 && view.shape[0] == 2 && view.shape[1] == 3 && view.data != numbers);
    CHECK(memcmp(view.data, numbers, sizeof(numbers)) == 0);
    CHECK_OK(umbo_value_from_data(UMBO_DTYPE_FLOAT64, 0, NULL, &pi, "CPU:0", &number));
    CHECK_OK(umbo_value_view(number, NULL, UMBO_DTYPE_NONE, &view));
    CHECK(view.ndim == 0 && *(const double *)view.data == pi);
    CHECK_STATUS(umbo_value_from_data(UMBO_DTYPE_NONE, 0, NULL, &pi, NULL, &none),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_value_from_data(UMBO_DTYPE_FLOAT32, 2, shape, NULL, NULL, &none),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("umbo_tensor_from_data: data");
    CHECK(none == NULL);
    umbo_value_release(array);
    umbo_value_release(number);
}

typedef struct {
    umbo_variable *variables[3];
    umbo_gradients *gradients;
    umbo_gradient_mode mode;
} model;

static umbo_status write_own_number(umbo_replica_context *ctx, const umbo_value *args,
                                    void *user_data, umbo_value **result) {
    umbo_variable *variable = ((const model *)user_data)->variables[0];
    float own[2], now[2] = {0, 0};
    (void)args;
    (void)result;
    own[0] = (float)(replica_id(ctx) + 1);
    own[1] = 10 * own[0];
    UMBO_TRY(umbo_variable_upload(variable, own, sizeof(own)));
    own[0] = own[1] = -1; /* was copied */
    UMBO_TRY(umbo_variable_download(variable, now, sizeof(now)));
    CHECK(now[0] == 3 && now[1] == 30); /* what the step has written */
    return UMBO_OK;
}

static umbo_variable *pair(umbo_strategy *strategy, umbo_aggregation aggregation, float first) {
    const int64_t two = 2;
    float numbers[2];
    umbo_variable *variable = NULL;
    umbo_tensor *initial;
    umbo_variable_options options = UMBO_VARIABLE_OPTIONS_INIT;
    numbers[0] = first;
    numbers[1] = first + 1;
    initial = make_tensor(UMBO_DTYPE_FLOAT32, 1, &two, numbers);
    options.aggregation = aggregation;
    CHECK_OK(umbo_variable_create(strategy, "pair", initial, &options, &variable));
    umbo_tensor_release(initial);
    return variable;
}

static void writing_and_copying(umbo_strategy *strategy) {
    const float numbers[2] = {7, 8};
    float now[3] = {0, 0, 99};
    model m;
    memset(&m, 0, sizeof(m));
    m.variables[0] = pair(strategy, UMBO_AGGREGATION_SUM, 1);
    CHECK_OK(umbo_variable_upload(m.variables[0], numbers, sizeof(numbers)));
    CHECK_OK(umbo_variable_download(m.variables[0], now, 2 * sizeof(float)));
    CHECK(now[0] == 7 && now[1] == 8 && now[2] == 99);
    CHECK_STATUS(umbo_variable_upload(m.variables[0], numbers, sizeof(float)),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("umbo_variable_upload: bytes");
    CHECK_STATUS(umbo_variable_download(m.variables[0], now, sizeof(now)),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("umbo_variable_download: bytes");
    CHECK_STATUS(umbo_variable_upload(m.variables[0], NULL, sizeof(numbers)),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(float_of_variable(m.variables[0]) == 7);
    CHECK_OK(umbo_strategy_run(strategy, write_own_number, NULL, &m, NULL, NULL));
    CHECK(float_of_variable(m.variables[0]) == 3);
    umbo_variable_release(m.variables[0]);
}

static umbo_status view_all(umbo_replica_context *ctx, const umbo_value *args, void *user_data,
                            umbo_value **result) {
    const model *m = (const model *)user_data;
    umbo_view weights[3], buffers[4], one;
    int64_t *row;
    int index;
    (void)args;
    (void)result;
    UMBO_TRY(umbo_variable_views(3, m->variables, ctx, weights));
    for (index = 0; index < 3; index++) {
        UMBO_TRY(umbo_variable_view(m->variables[index], ctx, UMBO_DTYPE_NONE, &one));
        CHECK(weights[index].data == one.data && weights[index].mutable_data == NULL);
    }
    CHECK_STATUS(umbo_gradients_views(m->gradients, ctx, m->mode, 2, buffers),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("umbo_gradients_views: count: 2; must be 3");
    CHECK_STATUS(umbo_gradients_views(m->gradients, ctx, m->mode, 4, buffers),
                 UMBO_STATUS_INVALID_ARGUMENT);
    UMBO_TRY(umbo_gradients_views(m->gradients, ctx, m->mode, 3, buffers));
    for (index = 0; index < 2; index++) {
        UMBO_TRY(umbo_gradients_view(m->gradients, ctx, index, m->mode, &one));
        CHECK(buffers[index].mutable_data == one.mutable_data);
        ((float *)buffers[index].mutable_data)[0] = 1;
        ((float *)buffers[index].mutable_data)[1] = 2;
    }
    CHECK(buffers[2].data == NULL && buffers[2].mutable_data == NULL); /* row-sparse */
    UMBO_TRY(umbo_gradients_add_rows(m->gradients, ctx, 2, 1, &buffers[0], &buffers[1]));
    row = (int64_t *)buffers[0].mutable_data;
    *row = 1;
    *(float *)buffers[1].mutable_data = 4;
    return umbo_gradients_submit_weighted(m->gradients, ctx, 1);
}

/* One buffer that cannot be viewed, since the replica has attached its gradient: none is. */
static umbo_status view_all_but_one(umbo_replica_context *ctx, const umbo_value *args, void *user_data,
                                    umbo_value **result) {
    const model *m = (const model *)user_data;
    const int64_t two = 2;
    static float own[2] = {5, 5};
    umbo_view attached = umbo_view_of_memory(UMBO_DTYPE_FLOAT32, 1, &two, own), buffers[3];
    (void)args;
    (void)result;
    memset(buffers, 0, sizeof(buffers));
    UMBO_TRY(umbo_gradients_attach(m->gradients, ctx, 1, &attached, NULL, NULL));
    CHECK_STATUS(umbo_gradients_views(m->gradients, ctx, m->mode, 3, buffers),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK(buffers[0].data == NULL);
    return umbo_gradients_submit_weighted(m->gradients, ctx, 1);
}

static void plural_views(umbo_strategy *strategy) {
    const int32_t row_sparse[3] = {0, 0, 1};
    umbo_view outside[3];
    umbo_gradients_options options = UMBO_GRADIENTS_OPTIONS_INIT;
    umbo_sgd_options sgd = UMBO_SGD_OPTIONS_INIT;
    umbo_apply_report report = UMBO_APPLY_REPORT_INIT;
    umbo_optimizer *optimizer = NULL;
    float now[2] = {0, 0};
    umbo_variable *stale[1];
    model m;
    int index;
    m.mode = UMBO_GRADIENT_OVERWRITE;
    for (index = 0; index < 3; index++) {
        m.variables[index] = pair(strategy, UMBO_AGGREGATION_NONE, 10.0f * (float)index);
    }
    CHECK_OK(umbo_variable_views(3, m.variables, NULL, outside));
    CHECK(((const float *)outside[1].data)[1] == 11);
    CHECK_OK(umbo_variable_views(0, NULL, NULL, NULL));
    options.row_sparse = row_sparse;
    CHECK_OK(umbo_gradients_create(strategy, 3, m.variables, UMBO_LOSS_MEAN, &options, &m.gradients));
    sgd.learning_rate = 1;
    CHECK_OK(umbo_optimizer_create_sgd(strategy, &sgd, &optimizer));
    CHECK_OK(umbo_strategy_run(strategy, view_all, NULL, &m, NULL, NULL));
    CHECK_OK(umbo_optimizer_apply(optimizer, m.gradients, NULL, NULL));
    CHECK_OK(umbo_variable_download(m.variables[1], now, sizeof(now)));
    CHECK(now[0] == 9 && now[1] == 9); /* 10 - 1, 11 - 2 */
    CHECK_OK(umbo_variable_download(m.variables[2], now, sizeof(now)));
    CHECK(now[0] == 20 && now[1] == 17); /* row 1 alone */
    CHECK_OK(umbo_strategy_run(strategy, view_all_but_one, NULL, &m, NULL, NULL));
    CHECK_OK(umbo_optimizer_apply(optimizer, m.gradients, NULL, &report));
    CHECK(report.updated_count == 1);
    CHECK_OK(umbo_variable_download(m.variables[1], now, sizeof(now)));
    CHECK(now[0] == 4 && now[1] == 4);
    umbo_optimizer_release(optimizer);
    umbo_gradients_release(m.gradients);
    stale[0] = m.variables[0];
    for (index = 0; index < 3; index++) umbo_variable_release(m.variables[index]);
    CHECK_STATUS(umbo_variable_views(1, stale, NULL, outside), UMBO_STATUS_INVALID_ARGUMENT);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    values_from_data();
    writing_and_copying(strategy);
    plural_views(strategy);
    umbo_strategy_release(strategy);
    return finish();
}
