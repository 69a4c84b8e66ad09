/* Labels of metrics: those that do not count, weights of examples, the highest scores, errors. */
#include <math.h>

#include "check.h"

#define EXAMPLES 4
#define CLASSES 3

static umbo_view view_of(umbo_dtype dtype, int32_t rank, int64_t columns, const void *data) {
    const int64_t shape[2] = {EXAMPLES, columns};
    return umbo_view_of_memory(dtype, rank, shape, data);
}

/* Scores of which the last row's are ignored, labels, scores of a class, targets. */
static const float rows[EXAMPLES][CLASSES] = {
    {0.5f, 0.5f, 0.1f}, {0.2f, 0.2f, 0.3f}, {0.9f, 0.8f, 0.8f}, {0.1f, 0.2f, 0.3f}};
static const int32_t labels[EXAMPLES] = {0, 1, 1, -100};
static const uint8_t sides[EXAMPLES] = {0, 1, 1, 255};
static const float scores[EXAMPLES] = {0.1f, 0.9f, 0.4f, 7.0f};
static const double predicted[EXAMPLES] = {1, 2, 3, 4};
static const double targets[EXAMPLES] = {1, 4, 2, 4};
static const float weights[EXAMPLES] = {0.5f, 1, 2, 0.25f};
static const uint8_t mask[EXAMPLES] = {1, 0, 1, 1};

typedef struct {
    umbo_metrics *metrics;
    const umbo_view *weights;
} plan;

static umbo_status measure(umbo_replica_context *context, const umbo_value *args, void *user_data,
                           umbo_value **result) {
    const plan *const self = (const plan *)user_data;
    const umbo_view of_rows = view_of(UMBO_DTYPE_FLOAT32, 2, CLASSES, rows);
    const umbo_view of_labels = view_of(UMBO_DTYPE_INT32, 1, 1, labels);
    const umbo_view of_scores = view_of(UMBO_DTYPE_FLOAT32, 1, 1, scores);
    const umbo_view of_sides = view_of(UMBO_DTYPE_UINT8, 1, 1, sides);
    const umbo_view of_predicted = view_of(UMBO_DTYPE_FLOAT64, 1, 1, predicted);
    const umbo_view of_targets = view_of(UMBO_DTYPE_FLOAT64, 1, 1, targets);
    umbo_metrics *const metrics = self->metrics;
    (void)args;
    (void)result;
    if (replica_id(context) != 0) return UMBO_OK;
    UMBO_TRY(umbo_metrics_add_labels(metrics, context, "accuracy", &of_rows, &of_labels, self->weights));
    UMBO_TRY(umbo_metrics_add_labels(metrics, context, "matrix", &of_rows, &of_labels, self->weights));
    UMBO_TRY(umbo_metrics_add_labels(metrics, context, "auc", &of_scores, &of_sides, self->weights));
    UMBO_TRY(umbo_metrics_add_labels(metrics, context, "top", &of_rows, &of_labels, self->weights));
    return umbo_metrics_add_labels(metrics, context, "error", &of_predicted, &of_targets, self->weights);
}

static umbo_metrics *make_metrics(umbo_strategy *strategy) {
    umbo_metric_options options = UMBO_METRIC_OPTIONS_INIT;
    umbo_metrics *metrics = NULL;
    options.class_count = CLASSES;
    options.top_k = 2;
    options.ignore_index = -100;
    CHECK_OK(umbo_metrics_create(strategy, &metrics));
    CHECK_STATUS(umbo_metrics_define(metrics, "accuracy", UMBO_METRIC_ACCURACY, &options),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("options.ignore_index: -100; set has_ignore_index to 1, too");
    options.has_ignore_index = 1;
    CHECK_OK(umbo_metrics_define(metrics, "accuracy", UMBO_METRIC_ACCURACY, &options));
    CHECK_OK(umbo_metrics_define(metrics, "matrix", UMBO_METRIC_CONFUSION, &options));
    options.ignore_index = 255;
    CHECK_OK(umbo_metrics_define(metrics, "auc", UMBO_METRIC_AUC, &options));
    options.ignore_index = -100;
    CHECK_OK(umbo_metrics_define(metrics, "top", UMBO_METRIC_TOP_K, &options));
    CHECK_STATUS(umbo_metrics_define(metrics, "error", UMBO_METRIC_SQUARED_ERROR, &options),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("options.ignore_index: -100; a mean squared error takes no labels");
    CHECK_OK(umbo_metrics_define(metrics, "error", UMBO_METRIC_SQUARED_ERROR, NULL));
    options.top_k = 0;
    CHECK_STATUS(umbo_metrics_define(metrics, "none", UMBO_METRIC_TOP_K, &options),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("options.top_k: 0");
    return metrics;
}

static umbo_metric_result result_of(const umbo_metrics *metrics, const char *name) {
    umbo_metric_result metric = UMBO_METRIC_RESULT_INIT;
    CHECK_OK(umbo_metrics_result(metrics, name, &metric));
    return metric;
}

/* The last example does not count, whatever its scores are. */
static void ignored_labels(umbo_strategy *strategy, plan *self) {
    umbo_metric_result metric;
    CHECK_OK(umbo_strategy_run(strategy, measure, NULL, self, NULL, NULL));
    metric = result_of(self->metrics, "accuracy");
    CHECK(metric.sum == 1 && metric.weight == 3);
    metric = result_of(self->metrics, "matrix");
    CHECK(metric.sum == 1 && metric.weight == 3);
    metric = result_of(self->metrics, "auc");
    CHECK(metric.sum == 2 && metric.weight == 2);
    /* Of equal scores the first is the higher one: that of row 1 is the third, of row 2 the second. */
    metric = result_of(self->metrics, "top");
    CHECK(metric.sum == 2 && metric.weight == 3);
    metric = result_of(self->metrics, "error");
    CHECK(metric.sum == 5 && metric.weight == 4 && metric.mean == 1.25);
    CHECK_OK(umbo_metrics_reset(self->metrics));
}

static void weighted_examples(umbo_strategy *strategy, plan *self) {
    const umbo_view view = view_of(UMBO_DTYPE_FLOAT32, 1, 1, weights);
    umbo_metric_class_result of_class = UMBO_METRIC_CLASS_RESULT_INIT;
    double cells[CLASSES * CLASSES];
    umbo_metric_result metric;
    int64_t count = 0;
    self->weights = &view;
    CHECK_OK(umbo_strategy_run(strategy, measure, NULL, self, NULL, NULL));
    metric = result_of(self->metrics, "accuracy");
    CHECK(metric.sum == 0.5 && metric.weight == 3.5);
    metric = result_of(self->metrics, "top");
    CHECK(metric.sum == 2.5 && metric.weight == 3.5);
    CHECK_OK(umbo_metrics_cells(self->metrics, "matrix", cells, CLASSES * CLASSES, &count));
    CHECK(cells[0] == 0.5 && cells[3] == 2 && cells[5] == 1 && cells[4] == 0);
    CHECK_OK(umbo_metrics_class_result(self->metrics, "matrix", 0, &of_class));
    CHECK(of_class.true_positives == 0.5 && of_class.false_positives == 2 && of_class.precision == 0.2);
    metric = result_of(self->metrics, "auc");
    CHECK(metric.sum == 1.5 && metric.weight == 1.5);
    metric = result_of(self->metrics, "error");
    CHECK(metric.sum == 4 + 2 && metric.weight == 3.75);
    CHECK_OK(umbo_metrics_reset(self->metrics));
}

/* A mask is weights, too, and a run that has none may follow one that has. */
static void masked_examples(umbo_strategy *strategy, plan *self) {
    const umbo_view view = view_of(UMBO_DTYPE_BOOL, 1, 1, mask);
    self->weights = &view;
    CHECK_OK(umbo_strategy_run(strategy, measure, NULL, self, NULL, NULL));
    self->weights = NULL;
    CHECK_OK(umbo_strategy_run(strategy, measure, NULL, self, NULL, NULL));
    CHECK(result_of(self->metrics, "matrix").weight == 5);
    CHECK(result_of(self->metrics, "error").sum == 1 + 5);
    CHECK_OK(umbo_metrics_reset(self->metrics));
}

static umbo_status refused(umbo_replica_context *context, const umbo_value *args, void *user_data,
                           umbo_value **result) {
    static const float wrong[EXAMPLES] = {1, -1, 1, 1};
    static const int32_t classes[EXAMPLES] = {0, 1, 1, 2};
    const plan *const self = (const plan *)user_data;
    const umbo_view of_rows = view_of(UMBO_DTYPE_FLOAT32, 2, CLASSES, rows);
    const umbo_view of_labels = view_of(UMBO_DTYPE_INT32, 1, 1, labels);
    const umbo_view of_classes = view_of(UMBO_DTYPE_INT32, 1, 1, classes);
    const umbo_view of_wrong = view_of(UMBO_DTYPE_FLOAT32, 1, 1, wrong);
    const umbo_view of_targets = view_of(UMBO_DTYPE_FLOAT64, 1, 1, targets);
    umbo_view few = of_wrong;
    (void)args;
    (void)result;
    few.shape[0] = 2;
    CHECK_STATUS(umbo_metrics_add_labels(self->metrics, context, "matrix", &of_rows, &of_labels, &of_wrong),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("weights: row 1: -1; weights are finite and 0 or more");
    CHECK_STATUS(umbo_metrics_add_labels(self->metrics, context, "matrix", &of_rows, &of_labels, &few),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("weights: shape [2] for 4 labels");
    CHECK_STATUS(umbo_metrics_add_labels(self->metrics, context, "top", &of_classes, &of_labels, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("predicted: class numbers for a top-2 accuracy");
    CHECK_STATUS(umbo_metrics_add_labels(self->metrics, context, "error", &of_rows, &of_targets, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("predicted: shape [4, 3] for targets of shape [4]");
    return UMBO_OK;
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    plan self = {NULL, NULL};
    self.metrics = make_metrics(strategy);
    ignored_labels(strategy, &self);
    weighted_examples(strategy, &self);
    masked_examples(strategy, &self);
    CHECK_OK(umbo_strategy_run(strategy, refused, NULL, &self, NULL, NULL));
    CHECK(result_of(self.metrics, "matrix").weight == 0);
    umbo_metrics_release(self.metrics);
    umbo_strategy_release(strategy);
    return finish();
}
