/* Functions that stand for several calls of others: a training that is set up by them. */
#include "check.h"

static umbo_status count_rows(umbo_replica_context *ctx, const umbo_value *batch, void *user_data,
                              umbo_value **result) {
    umbo_view rows;
    (void)user_data;
    (void)result;
    UMBO_TRY(umbo_value_view(batch, NULL, UMBO_DTYPE_FLOAT32, &rows));
    return umbo_replica_context_add_metric(ctx, "rows", (double)rows.shape[0], 1);
}

static void variables(umbo_strategy *strategy) {
    const int64_t shape[2] = {3, 2};
    float zeros[6], drawn[6], again[6];
    umbo_variable *made = NULL;
    umbo_strategy *other = NULL;
    CHECK_OK(umbo_variable_create_drawn(strategy, "w", UMBO_DTYPE_FLOAT32, 2, shape,
                                        UMBO_INITIAL_GLOROT_UNIFORM, 7, &made));
    CHECK(strcmp(facts_of(made).name, "w") == 0 && facts_of(made).ndim == 2);
    CHECK_OK(umbo_variable_download(made, drawn, sizeof(drawn)));
    umbo_variable_release(made);
    CHECK_OK(umbo_variable_create_drawn(strategy, "zeros", UMBO_DTYPE_FLOAT32, 2, shape,
                                        UMBO_INITIAL_ZEROS, 0, &made));
    CHECK_OK(umbo_variable_download(made, zeros, sizeof(zeros)));
    umbo_variable_release(made);
    CHECK(zeros[0] == 0 && zeros[5] == 0 && drawn[0] != 0 && drawn[5] != 0);
    /* The seed, and nothing of the machine, says which. */
    CHECK_OK(umbo_strategy_create_cpu(1, &other));
    CHECK_OK(umbo_variable_create_drawn(other, "w", UMBO_DTYPE_FLOAT32, 2, shape,
                                        UMBO_INITIAL_GLOROT_UNIFORM, 7, &made));
    CHECK_OK(umbo_variable_download(made, again, sizeof(again)));
    CHECK(memcmp(drawn, again, sizeof(drawn)) == 0);
    umbo_variable_release(made);
    umbo_strategy_release(other);
    made = NULL;
    CHECK_STATUS(umbo_variable_create_drawn(strategy, "w", UMBO_DTYPE_FLOAT32, 2, shape,
                                            UMBO_INITIAL_NONE, 0, &made),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(made == NULL);
}

static void passes(umbo_strategy *strategy) {
    const float numbers[5] = {1, 2, 3, 4, 5};
    const int64_t shape[1] = {5};
    const umbo_view view = umbo_view_of_memory(UMBO_DTYPE_FLOAT32, 1, shape, numbers);
    umbo_train_epoch_report report = UMBO_TRAIN_EPOCH_REPORT_INIT;
    umbo_distribute_options wrong = UMBO_DISTRIBUTE_OPTIONS_INIT;
    umbo_metric_result rows = UMBO_METRIC_RESULT_INIT;
    umbo_dataset *dataset = NULL;
    umbo_iterator *iterator = NULL;
    int epoch;
    CHECK_OK(umbo_dataset_from_arrays(1, NULL, &view, &dataset));
    CHECK_OK(umbo_dataset_batch(&dataset, 2, 0));
    wrong.prefetch_count = -5;
    CHECK_STATUS(umbo_strategy_iterate(strategy, dataset, &wrong, &iterator),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_strategy_iterate(strategy, dataset, NULL, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(iterator == NULL);
    CHECK_OK(umbo_strategy_iterate(strategy, dataset, NULL, &iterator));
    umbo_dataset_release(dataset);
    for (epoch = 0; epoch < 2; epoch++) {
        CHECK_OK(umbo_evaluate(strategy, iterator, count_rows, NULL, NULL, &report));
        CHECK(report.step_count == 3 && report.update_count == 0 && report.pass_ended);
        CHECK_OK(umbo_strategy_metric_result(strategy, "rows", &rows));
        CHECK(rows.sum == 5);
    }
    umbo_iterator_release(iterator);
}

int main(void) {
    umbo_strategy_info info = UMBO_STRATEGY_INFO_INIT;
    umbo_strategy *strategy = NULL;
    CHECK_STATUS(umbo_strategy_create_cpu(-2, &strategy), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_OK(umbo_strategy_create_cpu(2, &strategy));
    CHECK_OK(umbo_strategy_get_info(strategy, &info));
    CHECK(info.local_replica_count == 2);
    variables(strategy);
    passes(strategy);
    umbo_strategy_release(strategy);
    return finish();
}
