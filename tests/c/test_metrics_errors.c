/* What metrics refuse and warn of: names, numbers, weights, labels and scores. */
#include <math.h>

#include "metrics_of_examples.h"

/* ---- one mistake after the other */

typedef struct {
    umbo_metrics *metrics;
    umbo_status (*call)(umbo_metrics *metrics, umbo_replica_context *context);
} attempt;

static umbo_status try_it(umbo_replica_context *context, const umbo_value *args, void *user_data,
                          umbo_value **result) {
    const attempt *self = (const attempt *)user_data;
    (void)args;
    (void)result;
    return self->call(self->metrics, context);
}

static umbo_status no_such_entry(umbo_metrics *metrics, umbo_replica_context *context) {
    return umbo_metrics_add(metrics, context, "no such", 1, 1);
}
static umbo_status a_negative_weight(umbo_metrics *metrics, umbo_replica_context *context) {
    return umbo_metrics_add(metrics, context, "loss", 1, -1);
}
static umbo_status an_infinite_weight(umbo_metrics *metrics, umbo_replica_context *context) {
    return umbo_metrics_add(metrics, context, "loss", 1, INFINITY);
}
static umbo_status an_infinite_weight_of_a_run(umbo_metrics *metrics, umbo_replica_context *context) {
    (void)metrics;
    return umbo_replica_context_add_metric(context, "loss", 1, INFINITY);
}
static umbo_status half_a_thing(umbo_metrics *metrics, umbo_replica_context *context) {
    return umbo_metrics_add(metrics, context, "seen", 0.5, 1);
}
static umbo_status more_than_all(umbo_metrics *metrics, umbo_replica_context *context) {
    return umbo_metrics_add(metrics, context, "accuracy", 3, 2);
}
static umbo_status a_number_for_a_matrix(umbo_metrics *metrics, umbo_replica_context *context) {
    return umbo_metrics_add(metrics, context, "matrix", 1, 1);
}
static umbo_status no_such_class(umbo_metrics *metrics, umbo_replica_context *context) {
    return add_one(metrics, context, "matrix", CLASSES, 0);
}
static umbo_status a_label_for_a_mean(umbo_metrics *metrics, umbo_replica_context *context) {
    return add_one(metrics, context, "loss", 0, 0);
}
static umbo_status a_score_that_is_none(umbo_metrics *metrics, umbo_replica_context *context) {
    return add_score(metrics, context, NAN, 0);
}
static umbo_status a_third_class(umbo_metrics *metrics, umbo_replica_context *context) {
    return add_score(metrics, context, 0.5, 2);
}
/* The second row is wrong: the first is not added either, and the run may continue. */
static umbo_status a_wrong_row(umbo_metrics *metrics, umbo_replica_context *context) {
    static const int64_t bad[2] = {1, -1};
    const umbo_view labels = view_of(UMBO_DTYPE_INT64, 1, 2, 1, bad);
    CHECK_STATUS(umbo_metrics_add_labels(metrics, context, "matrix", &labels, &labels, NULL),
                 UMBO_STATUS_OUT_OF_RANGE);
    CHECK_MESSAGE("row 1: class -1");
    return UMBO_OK;
}
/* Class numbers of an accuracy of unknown classes: -100, and what -1 is in unsigned types, are no classes. */
static umbo_status labels_without_a_class(umbo_metrics *metrics, umbo_replica_context *context) {
    static const int64_t wide[2] = {1, -100};
    static const uint8_t narrow[2] = {1, 255};
    static const uint16_t middle[2] = {1, 65535};
    static const uint64_t widest[2] = {1, UINT64_MAX};
    const umbo_view good = view_of(UMBO_DTYPE_INT32, 1, 2, 1, label_of);
    const umbo_view all[4] = {
        view_of(UMBO_DTYPE_INT64, 1, 2, 1, wide), view_of(UMBO_DTYPE_UINT8, 1, 2, 1, narrow),
        view_of(UMBO_DTYPE_UINT16, 1, 2, 1, middle), view_of(UMBO_DTYPE_UINT64, 1, 2, 1, widest)};
    int32_t index;
    for (index = 0; index < COUNT_OF(all); index++) {
        CHECK_STATUS(umbo_metrics_add_labels(metrics, context, "accuracy", &good, &all[index], NULL),
                     UMBO_STATUS_OUT_OF_RANGE);
        CHECK_MESSAGE("labels: row 1: class ");
        if (index > 0) CHECK_MESSAGE("which often stands for no class");
    }
    /* As a prediction too, -100 is no class, and 255 may be one. */
    CHECK_STATUS(umbo_metrics_add_labels(metrics, context, "accuracy", &all[0], &good, NULL),
                 UMBO_STATUS_OUT_OF_RANGE);
    CHECK_MESSAGE("predicted: row 1: class -100 is not 0 or more");
    return UMBO_OK;
}
static umbo_status rows_that_do_not_fit(umbo_metrics *metrics, umbo_replica_context *context) {
    const umbo_view labels = view_of(UMBO_DTYPE_INT32, 1, 2, 1, label_of);
    const umbo_view predicted = view_of(UMBO_DTYPE_FLOAT32, 2, 2, 2, score_of);
    return umbo_metrics_add_labels(metrics, context, "matrix", &predicted, &labels, NULL);
}
static umbo_status too_few_rows(umbo_metrics *metrics, umbo_replica_context *context) {
    const umbo_view labels = view_of(UMBO_DTYPE_INT32, 1, 2, 1, label_of);
    const umbo_view predicted = view_of(UMBO_DTYPE_INT32, 1, 1, 1, label_of);
    return umbo_metrics_add_labels(metrics, context, "accuracy", &predicted, &labels, NULL);
}
static umbo_status classes_that_are_floats(umbo_metrics *metrics, umbo_replica_context *context) {
    const umbo_view labels = view_of(UMBO_DTYPE_INT32, 1, 2, 1, label_of);
    const umbo_view predicted = view_of(UMBO_DTYPE_FLOAT32, 1, 2, 1, score_of);
    return umbo_metrics_add_labels(metrics, context, "accuracy", &predicted, &labels, NULL);
}
static umbo_status nine_dimensions(umbo_metrics *metrics, umbo_replica_context *context) {
    const umbo_view labels = view_of(UMBO_DTYPE_INT32, 1, 2, 1, label_of);
    umbo_view predicted = labels;
    predicted.ndim = 9;
    return umbo_metrics_add_labels(metrics, context, "accuracy", &predicted, &labels, NULL);
}
static umbo_status a_negative_size(umbo_metrics *metrics, umbo_replica_context *context) {
    const umbo_view predicted = view_of(UMBO_DTYPE_INT32, 1, 2, 1, label_of);
    umbo_view labels = predicted;
    labels.shape[0] = -2;
    return umbo_metrics_add_labels(metrics, context, "accuracy", &predicted, &labels, NULL);
}
static umbo_status strides_without_end(umbo_metrics *metrics, umbo_replica_context *context) {
    const umbo_view predicted = view_of(UMBO_DTYPE_INT32, 1, 2, 1, label_of);
    umbo_view labels = predicted;
    labels.strides[0] = INT64_MAX;
    labels.shape[0] = 3;
    return umbo_metrics_add_labels(metrics, context, "accuracy", &predicted, &labels, NULL);
}
static umbo_status a_reset_in_a_run(umbo_metrics *metrics, umbo_replica_context *context) {
    UMBO_TRY(umbo_metrics_add(metrics, context, "loss", 1, 1));
    return umbo_metrics_reset(metrics);
}

static void mistakes(void) {
    static const struct {
        umbo_status (*call)(umbo_metrics *metrics, umbo_replica_context *context);
        umbo_status status;
        const char *words;
    } all[] = {
        {no_such_entry, UMBO_STATUS_NOT_FOUND, "name: no metric 'no such' was defined"},
        {a_negative_weight, UMBO_STATUS_INVALID_ARGUMENT, "weight: -1; weights are finite"},
        {an_infinite_weight, UMBO_STATUS_INVALID_ARGUMENT, "weight: inf; weights are finite and 0 or more"},
        {an_infinite_weight_of_a_run, UMBO_STATUS_INVALID_ARGUMENT, "weight: inf; weights are finite"},
        {half_a_thing, UMBO_STATUS_INVALID_ARGUMENT, "sum: 0.5"},
        {more_than_all, UMBO_STATUS_INVALID_ARGUMENT, "3 right predictions of 2"},
        {a_number_for_a_matrix, UMBO_STATUS_INVALID_ARGUMENT, "a confusion matrix"},
        {no_such_class, UMBO_STATUS_OUT_OF_RANGE, "predicted: row 0: class 3"},
        {a_label_for_a_mean, UMBO_STATUS_INVALID_ARGUMENT, "a mean"},
        {a_score_that_is_none, UMBO_STATUS_INVALID_ARGUMENT, "NaN"},
        {a_third_class, UMBO_STATUS_OUT_OF_RANGE, "labels: row 0: class 2"},
        {a_wrong_row, UMBO_OK, NULL},
        {labels_without_a_class, UMBO_OK, NULL},
        {rows_that_do_not_fit, UMBO_STATUS_INVALID_ARGUMENT, "3 are expected"},
        {too_few_rows, UMBO_STATUS_INVALID_ARGUMENT, "2 labels"},
        {classes_that_are_floats, UMBO_STATUS_INVALID_ARGUMENT, "predicted: float32"},
        {nine_dimensions, UMBO_STATUS_INVALID_ARGUMENT, "predicted: ndim: 9; valid are 0 to 8"},
        {a_negative_size, UMBO_STATUS_INVALID_ARGUMENT, "labels: shape: dimension 0 is -2"},
        {strides_without_end, UMBO_STATUS_INVALID_ARGUMENT, "labels: strides: "},
        {a_reset_in_a_run, UMBO_STATUS_FAILED_PRECONDITION, "a run is adding"},
    };
    static const struct {
        double lowest, highest;
        const char *words;
    } scores[] = {
        {2, 1, "options.lowest_score: 2.0; must be less than highest_score, 1.0"},
        {NAN, 1, "options.lowest_score: NaN; must be finite"},
        {0, INFINITY, "options.highest_score: inf; must be finite"},
        {-1.7e308, 1.7e308, "options.highest_score: 1.7e308; must be so near to lowest_score, -1.7e308"},
    };
    static const char *const unchanged[] = {"loss", "matrix", "accuracy"};
    umbo_strategy *strategy = make_strategy(1), *other = make_strategy(1);
    umbo_metric_options options = UMBO_METRIC_OPTIONS_INIT;
    attempt self = {NULL, NULL};
    int32_t index;
    self.metrics = make_metrics(strategy);
    for (index = 0; index < COUNT_OF(all); index++) {
        self.call = all[index].call;
        CHECK_STATUS(umbo_strategy_run(strategy, try_it, NULL, &self, NULL, NULL),
                     all[index].status);
        if (all[index].words != NULL &&
            strstr(umbo_last_error_message(), all[index].words) == NULL)
            check_failed(__FILE__, __LINE__, all[index].words);
    }
    for (index = 0; index < COUNT_OF(unchanged); index++) {
        umbo_metric_result result = UMBO_METRIC_RESULT_INIT;
        CHECK_OK(umbo_metrics_result(self.metrics, unchanged[index], &result));
        CHECK(result.weight == 0);
    }
    self.call = a_negative_weight;
    CHECK_STATUS(umbo_strategy_run(other, try_it, NULL, &self, NULL, NULL),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("mixing different strategies");
    CHECK_STATUS(umbo_metrics_define(self.metrics, "loss", UMBO_METRIC_SUM, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_metrics_define(self.metrics, "new", UMBO_METRIC_CONFUSION, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("options.class_count: 0");
    for (index = 0; index < COUNT_OF(scores); index++) {
        options.lowest_score = scores[index].lowest;
        options.highest_score = scores[index].highest;
        CHECK_STATUS(umbo_metrics_define(self.metrics, "new", UMBO_METRIC_AUC, &options),
                     UMBO_STATUS_INVALID_ARGUMENT);
        if (strstr(umbo_last_error_message(), scores[index].words) == NULL)
            check_failed(__FILE__, __LINE__, scores[index].words);
    }
    CHECK_STATUS(umbo_metrics_define(self.metrics, "new", UMBO_ENUM_VALUE(umbo_metric_kind, 999), NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    umbo_metrics_release(self.metrics);
    umbo_strategy_release(other);
    umbo_strategy_release(strategy);
}

/* ---- accuracies that know their classes, and scores outside of an AUC's range */

typedef struct {
    umbo_metrics *metrics;
    int64_t predicted[2];
    uint8_t labels[2];
} bytes_of_text;

static umbo_status add_bytes(umbo_replica_context *context, const umbo_value *args, void *user_data,
                             umbo_value **result) {
    const bytes_of_text *self = (const bytes_of_text *)user_data;
    const umbo_view predicted = view_of(UMBO_DTYPE_INT64, 1, 2, 1, self->predicted);
    const umbo_view labels = view_of(UMBO_DTYPE_UINT8, 1, 2, 1, self->labels);
    (void)args;
    (void)result;
    return umbo_metrics_add_labels(self->metrics, context, "bytes", &predicted, &labels, NULL);
}

static void known_classes(void) {
    umbo_strategy *strategy = make_strategy(1);
    bytes_of_text self = {NULL, {255, 7}, {255, 8}};
    umbo_metric_options options = UMBO_METRIC_OPTIONS_INIT;
    umbo_metric_result metric = UMBO_METRIC_RESULT_INIT;
    options.class_count = 256;
    CHECK_OK(umbo_metrics_create(strategy, &self.metrics));
    CHECK_OK(umbo_metrics_define(self.metrics, "bytes", UMBO_METRIC_ACCURACY, &options));
    CHECK_OK(umbo_strategy_run(strategy, add_bytes, NULL, &self, NULL, NULL));
    CHECK_OK(umbo_metrics_result(self.metrics, "bytes", &metric));
    CHECK(metric.sum == 1 && metric.weight == 2);
    self.predicted[1] = 256;
    CHECK_STATUS(umbo_strategy_run(strategy, add_bytes, NULL, &self, NULL, NULL),
                 UMBO_STATUS_OUT_OF_RANGE);
    CHECK_MESSAGE("predicted: row 1: class 256 is not in [0, 256)");
    options.class_count = -1;
    CHECK_STATUS(umbo_metrics_define(self.metrics, "none", UMBO_METRIC_ACCURACY, &options),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("options.class_count: -1; an accuracy has 1 to");
    umbo_metrics_release(self.metrics);
    umbo_strategy_release(strategy);
}

static umbo_status add_logits(umbo_replica_context *context, const umbo_value *args, void *user_data,
                              umbo_value **result) {
    umbo_metrics *metrics = (umbo_metrics *)user_data;
    (void)args;
    (void)result;
    UMBO_TRY(add_score(metrics, context, 0, 0));
    UMBO_TRY(add_score(metrics, context, 1, 1));
    UMBO_TRY(add_score(metrics, context, 3.5, 1));
    return add_score(metrics, context, -2, 0);
}

/* Counted at the end that is next to them, with one warning; to a strict strategy an error. */
static void scores_outside_of_the_range(void) {
    int strict;
    for (strict = 0; strict < 2; strict++) {
        umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
        umbo_strategy *strategy = NULL;
        umbo_metrics *metrics;
        umbo_metric_result metric = UMBO_METRIC_RESULT_INIT;
        int64_t warnings = 0;
        options.cpu_replicas = 2;
        options.strict = strict;
        CHECK_OK(umbo_strategy_create(&options, &strategy));
        metrics = make_metrics(strategy);
        expect_messages(&warnings);
        if (strict) {
            CHECK_STATUS(umbo_strategy_run(strategy, add_logits, NULL, metrics, NULL, NULL),
                         UMBO_STATUS_INVALID_ARGUMENT);
            CHECK_MESSAGE("predicted: strict mode: row 0: score 3.5 of 'auc' is not in [0, 1]");
        } else {
            CHECK_OK(umbo_strategy_run(strategy, add_logits, NULL, metrics, NULL, NULL));
            CHECK_OK(umbo_strategy_run(strategy, add_logits, NULL, metrics, NULL, NULL));
        }
        expect_no_messages();
        CHECK(warnings == !strict);
        CHECK_OK(umbo_metrics_result(metrics, "auc", &metric));
        CHECK(metric.weight == (strict ? 0 : 64));
        umbo_metrics_release(metrics);
        umbo_strategy_release(strategy);
    }
}

/* ---- sums and weights that are swapped */

typedef struct {
    umbo_metrics *metrics;
    const char *name;
} swap;

/* Adds the number of its examples as the sum. */
static umbo_status add_swapped(umbo_replica_context *context, const umbo_value *args, void *user_data,
                               umbo_value **result) {
    const swap *self = (const swap *)user_data;
    umbo_view part;
    (void)result;
    UMBO_TRY(umbo_value_view(args, NULL, UMBO_DTYPE_NONE, &part));
    return umbo_metrics_add(self->metrics, context, self->name, (double)part.shape[0], 0.3);
}

/* A mean warns once; a sum does not divide by its weight, and does not warn. */
static void sums_in_the_place_of_weights(void) {
    static const struct {
        const char *name;
        int64_t warnings;
    } all[] = {{"loss", 1}, {"total", 0}};
    int32_t index;
    for (index = 0; index < COUNT_OF(all); index++) {
        umbo_strategy *strategy = make_strategy(2);
        umbo_iterator *batches = make_batches(strategy);
        swap self = {make_metrics(strategy), NULL};
        umbo_value *batch = NULL;
        int64_t warnings = 0;
        self.name = all[index].name;
        expect_messages(&warnings);
        while (umbo_iterator_next(batches, &batch) == UMBO_OK && batch != NULL) {
            CHECK_OK(umbo_strategy_run(strategy, add_swapped, batch, &self, NULL, NULL));
            umbo_value_release(batch);
        }
        expect_no_messages();
        CHECK(warnings == all[index].warnings);
        umbo_metrics_release(self.metrics);
        umbo_iterator_release(batches);
        umbo_strategy_release(strategy);
    }
}

int main(void) {
    mistakes();
    known_classes();
    scores_outside_of_the_range();
    sums_in_the_place_of_weights();
    return finish();
}
