/* Metrics of every kind, and examples for them, for the tests of metrics. */
#ifndef UMBO_TESTS_METRICS_OF_EXAMPLES_H
#define UMBO_TESTS_METRICS_OF_EXAMPLES_H

#include "check.h"

#define CLASSES 3
#define BINS 8
#define EXAMPLES 11

/* What a model might have said of the examples. The numbers add up without rounding. */
static CHECK_MAYBE_UNUSED const int32_t label_of[EXAMPLES] = {0, 1, 2, 1, 0, 2, 2, 1, 0, 0, 1};
static CHECK_MAYBE_UNUSED const int32_t predicted_of[EXAMPLES] = {0, 1, 1, 1, 2, 2, 2, 0, 0, 0, 1};
static CHECK_MAYBE_UNUSED const float score_of[EXAMPLES] = {0.1f, 0.8f, 0.3f, 0.4f, 0.2f, 0.9f,
                                                              0.0f, 1.0f, 0.6f, 0.4f, 0.7f};

static CHECK_MAYBE_UNUSED umbo_view view_of(umbo_dtype dtype, int32_t ndim, int64_t rows, int64_t columns,
                                            const void *data) {
    const int64_t shape[2] = {rows, columns};
    return umbo_view_of_memory(dtype, ndim, shape, data);
}

/* Adds what was predicted for one example. */
static CHECK_MAYBE_UNUSED umbo_status add_one(umbo_metrics *metrics, umbo_replica_context *context, const char *name,
                                              int64_t predicted, int64_t label) {
    const umbo_view said = view_of(UMBO_DTYPE_INT64, 1, 1, 1, &predicted);
    const umbo_view right = view_of(UMBO_DTYPE_INT64, 1, 1, 1, &label);
    return umbo_metrics_add_labels(metrics, context, name, &said, &right, NULL);
}

/* Adds the score of one example. */
static CHECK_MAYBE_UNUSED umbo_status add_score(umbo_metrics *metrics, umbo_replica_context *context, double score,
                                                int64_t label) {
    const umbo_view said = view_of(UMBO_DTYPE_FLOAT64, 1, 1, 1, &score);
    const umbo_view right = view_of(UMBO_DTYPE_INT64, 1, 1, 1, &label);
    return umbo_metrics_add_labels(metrics, context, "auc", &said, &right, NULL);
}

static CHECK_MAYBE_UNUSED umbo_metrics *make_metrics(umbo_strategy *strategy) {
    umbo_metrics *metrics = NULL;
    umbo_metric_options options = UMBO_METRIC_OPTIONS_INIT;
    options.class_count = CLASSES;
    options.bin_count = BINS;
    CHECK_OK(umbo_metrics_create(strategy, &metrics));
    CHECK_OK(umbo_metrics_define(metrics, "loss", UMBO_METRIC_MEAN, NULL));
    CHECK_OK(umbo_metrics_define(metrics, "total", UMBO_METRIC_SUM, NULL));
    CHECK_OK(umbo_metrics_define(metrics, "seen", UMBO_METRIC_COUNT, NULL));
    CHECK_OK(umbo_metrics_define(metrics, "accuracy", UMBO_METRIC_ACCURACY, NULL));
    CHECK_OK(umbo_metrics_define(metrics, "matrix", UMBO_METRIC_CONFUSION, &options));
    CHECK_OK(umbo_metrics_define(metrics, "auc", UMBO_METRIC_AUC, &options));
    CHECK_OK(umbo_metrics_define(metrics, "by rows", UMBO_METRIC_CONFUSION, &options));
    return metrics;
}

/* An iterator over the examples' numbers in batches of 4: the last one has 3. */
static CHECK_MAYBE_UNUSED umbo_iterator *make_batches(umbo_strategy *strategy) {
    const int64_t count = EXAMPLES;
    int32_t numbers[EXAMPLES];
    int32_t index;
    umbo_value *all;
    umbo_dataset *examples = NULL;
    umbo_distributed_dataset *distributed = NULL;
    umbo_iterator *iterator = NULL;
    for (index = 0; index < EXAMPLES; index++) numbers[index] = index;
    all = into_value(make_tensor(UMBO_DTYPE_INT32, 1, &count, numbers));
    CHECK_OK(umbo_dataset_from_tensor_slices(all, &examples));
    CHECK_OK(umbo_dataset_batch(&examples, 4, 0));
    CHECK_OK(umbo_strategy_distribute_dataset(strategy, examples, NULL, &distributed));
    CHECK_OK(umbo_iterator_from_distributed_dataset(distributed, &iterator));
    umbo_distributed_dataset_release(distributed);
    umbo_dataset_release(examples);
    umbo_value_release(all);
    return iterator;
}

#endif
