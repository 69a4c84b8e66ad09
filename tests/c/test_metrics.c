/* Metrics: every kind, the same for any number of replicas, and nothing of runs that fail. */
#include <math.h>

#include "metrics_of_examples.h"

enum { LOSS, TOTAL, SEEN, ACCURACY, MATRIX, AUC, BY_ROWS, KINDS };
static const char *const name_of[KINDS] = {"loss", "total", "seen", "accuracy", "matrix", "auc", "by rows"};
static const umbo_metric_kind metric_kind_of[KINDS] = {
    UMBO_METRIC_MEAN,     UMBO_METRIC_SUM,       UMBO_METRIC_COUNT, UMBO_METRIC_ACCURACY,
    UMBO_METRIC_CONFUSION, UMBO_METRIC_AUC, UMBO_METRIC_CONFUSION};

typedef struct {
    umbo_metrics *metrics;
    int fails;     /* the replica that fails after adding, or -1 */
    int by_number; /* adds example by example */
} plan;

static umbo_status measure(umbo_replica_context *context, const umbo_value *args, void *user_data,
                           umbo_value **result) {
    const plan *self = (const plan *)user_data;
    umbo_view part, labels, predicted, scores, rows, binary;
    float all_scores[EXAMPLES][CLASSES];
    uint8_t is_one[EXAMPLES];
    const int32_t *number;
    int64_t count, index;
    int64_t first;
    (void)result;
    UMBO_TRY(umbo_value_view(args, NULL, UMBO_DTYPE_NONE, &part));
    number = (const int32_t *)part.data;
    count = part.shape[0];
    first = count > 0 ? number[0] : 0;
    for (index = 0; index < count; index++) {
        int32_t class_number;
        for (class_number = 0; class_number < CLASSES; class_number++)
            all_scores[index][class_number] =
                class_number == predicted_of[first + index] ? 2.0f : -1.0f;
        is_one[index] = label_of[first + index] == 1;
        UMBO_TRY(umbo_metrics_add(self->metrics, context, "loss", 0.25 * (double)number[index], 0.5));
        UMBO_TRY(umbo_metrics_add(self->metrics, context, "total", 0.5, 1));
        if (self->by_number) {
            const int32_t label = label_of[first + index], said = predicted_of[first + index];
            UMBO_TRY(umbo_metrics_add(self->metrics, context, "accuracy", said == label, 1));
            UMBO_TRY(add_one(self->metrics, context, "matrix", said, label));
            UMBO_TRY(add_one(self->metrics, context, "by rows", said, label));
            UMBO_TRY(add_score(self->metrics, context, (double)score_of[first + index], label == 1));
        }
    }
    UMBO_TRY(umbo_metrics_add(self->metrics, context, "seen", (double)count, (double)count));
    if (!self->by_number) {
        labels = view_of(UMBO_DTYPE_INT32, 1, count, 1, label_of + first);
        predicted = view_of(UMBO_DTYPE_INT32, 1, count, 1, predicted_of + first);
        scores = view_of(UMBO_DTYPE_FLOAT32, 1, count, 1, score_of + first);
        rows = view_of(UMBO_DTYPE_FLOAT32, 2, count, CLASSES, all_scores);
        binary = view_of(UMBO_DTYPE_BOOL, 1, count, 1, is_one);
        UMBO_TRY(umbo_metrics_add_labels(self->metrics, context, "accuracy", &predicted, &labels, NULL));
        UMBO_TRY(umbo_metrics_add_labels(self->metrics, context, "matrix", &predicted, &labels, NULL));
        UMBO_TRY(umbo_metrics_add_labels(self->metrics, context, "auc", &scores, &binary, NULL));
        UMBO_TRY(umbo_metrics_add_labels(self->metrics, context, "by rows", &rows, &labels, NULL));
    }
    if (self->fails == replica_id(context))
        return umbo_set_last_error(UMBO_STATUS_DATA_LOSS, "as planned", NULL, NULL);
    return UMBO_OK;
}

typedef struct {
    umbo_metric_result of[KINDS];
    double matrix[CLASSES * CLASSES], by_rows[CLASSES * CLASSES], histogram[2 * BINS];
} results;

static results results_of(const umbo_metrics *metrics) {
    results all;
    int64_t index, count = 0;
    memset(&all, 0, sizeof(all));
    for (index = 0; index < KINDS; index++) {
        all.of[index].struct_size = UMBO_STRUCT_SIZE(umbo_metric_result);
        CHECK_OK(umbo_metrics_result(metrics, name_of[index], &all.of[index]));
    }
    CHECK_OK(umbo_metrics_cells(metrics, "matrix", all.matrix, CLASSES * CLASSES, &count));
    CHECK(count == CLASSES * CLASSES);
    CHECK_OK(umbo_metrics_cells(metrics, "by rows", all.by_rows, CLASSES * CLASSES, &count));
    CHECK_OK(umbo_metrics_cells(metrics, "auc", all.histogram, 2 * BINS, &count));
    CHECK(count == 2 * BINS);
    return all;
}

/* One pass; with `failing`, each batch is tried before by a run that fails on a replica. */
static results a_pass(int32_t replicas, int by_number, int failing) {
    umbo_strategy *strategy = make_strategy(replicas);
    plan self = {NULL, -1, 0};
    umbo_iterator *iterator = make_batches(strategy);
    umbo_value *batch = NULL;
    results all;
    self.metrics = make_metrics(strategy);
    self.by_number = by_number;
    for (;;) {
        CHECK_OK(umbo_iterator_next(iterator, &batch));
        if (batch == NULL) break;
        if (failing) {
            const results before = results_of(self.metrics);
            results after;
            self.fails = replicas - 1;
            CHECK_STATUS(umbo_strategy_run(strategy, measure, batch, &self, NULL, NULL),
                         UMBO_STATUS_DATA_LOSS);
            self.fails = -1;
            after = results_of(self.metrics);
            CHECK(memcmp(before.matrix, after.matrix, sizeof(before.matrix)) == 0);
            CHECK(before.of[LOSS].weight == after.of[LOSS].weight);
        }
        CHECK_OK(umbo_strategy_run(strategy, measure, batch, &self, NULL, NULL));
        umbo_value_release(batch);
    }
    all = results_of(self.metrics);
    umbo_iterator_release(iterator);
    umbo_metrics_release(self.metrics);
    umbo_strategy_release(strategy);
    return all;
}

static int are_equal(const results *left, const results *right) {
    int index;
    for (index = 0; index < KINDS; index++) {
        const umbo_metric_result *const a = &left->of[index], *const b = &right->of[index];
        if (a->sum != b->sum || a->weight != b->weight || a->mean != b->mean || a->kind != b->kind) return 0;
    }
    return memcmp(left->matrix, right->matrix, sizeof(left->matrix)) == 0 &&
           memcmp(left->by_rows, right->by_rows, sizeof(left->by_rows)) == 0 &&
           memcmp(left->histogram, right->histogram, sizeof(left->histogram)) == 0;
}

/* One replica equals several, with empty parts, example by example, and beside runs that fail. */
static void any_number_of_replicas(void) {
    static const double expected[CLASSES * CLASSES] = {3, 0, 1, 1, 3, 0, 0, 1, 2};
    const results one = a_pass(1, 0, 0);
    int32_t replicas;
    CHECK(one.of[LOSS].sum == 0.25 * 55 && one.of[LOSS].weight == 5.5);
    CHECK(one.of[LOSS].mean == 2.5);
    CHECK(one.of[TOTAL].sum == 5.5 && one.of[SEEN].sum == EXAMPLES);
    CHECK(one.of[ACCURACY].sum == 8 && one.of[ACCURACY].weight == EXAMPLES);
    CHECK(memcmp(one.matrix, expected, sizeof(expected)) == 0);
    CHECK(one.of[MATRIX].mean == 8.0 / 11.0);
    /* 4 positive examples, 7 negative ones; bins of an eighth. */
    CHECK(one.of[AUC].weight == 28 && one.of[AUC].sum == 2 * 6 + 6.5 + 4.5);
    for (replicas = 1; replicas <= 6; replicas++) {
        int way;
        for (way = 0; way < 4; way++) {
            const results many = a_pass(replicas, way & 1, way & 2);
            CHECK(are_equal(&many, &one));
        }
    }
}

static void classes(void) {
    umbo_strategy *strategy = make_strategy(2);
    plan self = {NULL, -1, 0};
    umbo_iterator *iterator = make_batches(strategy);
    umbo_metric_class_result metric = UMBO_METRIC_CLASS_RESULT_INIT;
    umbo_value *batch = NULL;
    int64_t count = 0;
    umbo_metric_result result = UMBO_METRIC_RESULT_INIT;
    const char *names[KINDS] = {NULL};
    int64_t index;
    self.metrics = make_metrics(strategy);
    CHECK_OK(umbo_metrics_class_result(self.metrics, "matrix", 0, &metric));
    CHECK(isnan(metric.precision) && isnan(metric.recall) && isnan(metric.f1));
    while (umbo_iterator_next(iterator, &batch) == UMBO_OK && batch != NULL) {
        CHECK_OK(umbo_strategy_run(strategy, measure, batch, &self, NULL, NULL));
        umbo_value_release(batch);
    }
    CHECK_OK(umbo_metrics_class_result(self.metrics, "matrix", 2, &metric));
    CHECK(metric.true_positives == 2 && metric.false_positives == 1 && metric.false_negatives == 1);
    CHECK(is_close(metric.precision, 2.0 / 3) && is_close(metric.recall, 2.0 / 3));
    CHECK(is_close(metric.f1, 2.0 / 3));
    CHECK_STATUS(umbo_metrics_class_result(self.metrics, "matrix", 3, &metric),
                 UMBO_STATUS_OUT_OF_RANGE);
    CHECK_STATUS(umbo_metrics_class_result(self.metrics, "loss", 0, &metric),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_metrics_cells(self.metrics, "matrix", NULL, 0, &count),
                 UMBO_STATUS_OUT_OF_RANGE);
    CHECK(count == CLASSES * CLASSES);
    CHECK_STATUS(umbo_metrics_cells(self.metrics, "loss", NULL, 0, &count),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_metrics_result(self.metrics, "no such", &result), UMBO_STATUS_NOT_FOUND);
    CHECK_MESSAGE("name: no metric 'no such' was defined; the metrics are 'loss', 'total'");
    CHECK_STATUS(umbo_metrics_names(self.metrics, names, KINDS - 1, &count), UMBO_STATUS_OUT_OF_RANGE);
    CHECK(count == KINDS && names[0] == NULL);
    CHECK_OK(umbo_metrics_names(self.metrics, names, KINDS, &count));
    CHECK(count == KINDS);
    for (index = 0; index < KINDS; index++) {
        CHECK(strcmp(names[index], name_of[index]) == 0);
        CHECK_OK(umbo_metrics_result(self.metrics, names[index], &result));
        CHECK(result.kind == metric_kind_of[index]);
    }

    CHECK_OK(umbo_metrics_reset(self.metrics));
    {
        const results none = results_of(self.metrics);
        CHECK(none.of[LOSS].weight == 0 && none.of[SEEN].sum == 0 && none.matrix[0] == 0);
        CHECK(isnan(none.of[AUC].mean));
    }
    umbo_iterator_release(iterator);
    umbo_metrics_release(self.metrics);
    umbo_strategy_release(strategy);
}

/* ---- the metrics of one run */

static umbo_status without_weight(umbo_replica_context *context, const umbo_value *args,
                                  void *user_data, umbo_value **result) {
    (void)args;
    (void)result;
    UMBO_TRY(umbo_metrics_add((umbo_metrics *)user_data, context, "loss", 1, 0));
    return umbo_replica_context_add_metric(context, "loss", -1, 0);
}

/* A sum without a weight has no mean. */
static void means_of_nothing(void) {
    umbo_strategy *strategy = make_strategy(1);
    umbo_metrics *metrics = make_metrics(strategy);
    umbo_metric_result metric = UMBO_METRIC_RESULT_INIT;
    CHECK_OK(umbo_strategy_run(strategy, without_weight, NULL, metrics, NULL, NULL));
    CHECK_OK(umbo_strategy_metric_result(strategy, "loss", &metric));
    CHECK(metric.sum == -1 && metric.weight == 0 && isnan(metric.mean) && metric.kind == UMBO_METRIC_MEAN);
    CHECK_OK(umbo_metrics_result(metrics, "loss", &metric));
    CHECK(metric.sum == 1 && metric.weight == 0 && isnan(metric.mean));
    umbo_metrics_release(metrics);
    umbo_strategy_release(strategy);
}

static umbo_status with_a_metric(umbo_replica_context *context, const umbo_value *args,
                                 void *user_data, umbo_value **result) {
    const char *const name = (const char *)user_data;
    (void)args;
    (void)result;
    return name == NULL ? UMBO_OK : umbo_replica_context_add_metric(context, name, 3, 2);
}

/* A run without metrics leaves those of the run before; one with metrics replaces all of them. */
static void metrics_of_the_last_run(void) {
    static char loss[] = "loss", other[] = "other";
    umbo_strategy *strategy = make_strategy(2);
    umbo_metric_result metric = UMBO_METRIC_RESULT_INIT;
    CHECK_OK(umbo_strategy_run(strategy, with_a_metric, NULL, loss, NULL, NULL));
    CHECK_OK(umbo_strategy_run(strategy, with_a_metric, NULL, NULL, NULL, NULL));
    CHECK_OK(umbo_strategy_metric_result(strategy, "loss", &metric));
    CHECK(metric.sum == 6 && metric.weight == 4);
    CHECK_OK(umbo_strategy_run(strategy, with_a_metric, NULL, other, NULL, NULL));
    CHECK_STATUS(umbo_strategy_metric_result(strategy, "loss", &metric), UMBO_STATUS_NOT_FOUND);
    CHECK_OK(umbo_strategy_metric_result(strategy, "other", &metric));
    umbo_strategy_release(strategy);
}

int main(void) {
    any_number_of_replicas();
    classes();
    means_of_nothing();
    metrics_of_the_last_run();
    return finish();
}
