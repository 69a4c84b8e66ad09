/* Metrics: every kind, the same for any number of replicas, and nothing of runs that fail. */
#include <math.h>

#include "check.h"

#define CLASSES 3
#define BINS 8
#define EXAMPLES 11

enum { LOSS, TOTAL, SEEN, ACCURACY, MATRIX, AUC, BY_ROWS, KINDS };
static const char *const name_of[KINDS] = {"loss", "total", "seen", "accuracy", "matrix", "auc", "by rows"};
static const umbo_metric_kind metric_kind_of[KINDS] = {
    UMBO_METRIC_MEAN,     UMBO_METRIC_SUM,       UMBO_METRIC_COUNT, UMBO_METRIC_ACCURACY,
    UMBO_METRIC_CONFUSION, UMBO_METRIC_AUC, UMBO_METRIC_CONFUSION};

/* What a model might have said of the examples. The numbers add up without rounding. */
static const int32_t label_of[EXAMPLES] = {0, 1, 2, 1, 0, 2, 2, 1, 0, 0, 1};
static const int32_t predicted_of[EXAMPLES] = {0, 1, 1, 1, 2, 2, 2, 0, 0, 0, 1};
static const float score_of[EXAMPLES] = {0.1f, 0.8f, 0.3f, 0.4f, 0.2f, 0.9f,
                                         0.0f, 1.0f, 0.6f, 0.4f, 0.7f};

typedef struct {
    umbo_metrics *metrics;
    int fails;     /* the replica that fails after adding, or -1 */
    int by_number; /* adds example by example */
} plan;

static umbo_view view_of(umbo_dtype dtype, int32_t rank, int64_t rows, int64_t columns,
                         const void *data) {
    umbo_view view;
    memset(&view, 0, sizeof(view));
    view.data = data;
    view.dtype = dtype;
    view.ndim = rank;
    view.device.type = UMBO_DEVICE_CPU;
    view.shape[0] = rows;
    view.shape[1] = columns;
    view.strides[0] = columns;
    view.strides[1] = rank > 1 ? 1 : 0;
    return view;
}

/* Adds what was predicted for one example. */
static umbo_status add_one(umbo_metrics *metrics, umbo_replica_context *context, const char *name,
                           int64_t predicted, int64_t label) {
    const umbo_view said = view_of(UMBO_DTYPE_INT64, 1, 1, 1, &predicted);
    const umbo_view right = view_of(UMBO_DTYPE_INT64, 1, 1, 1, &label);
    return umbo_metrics_add_labels(metrics, context, name, &said, &right, NULL);
}

/* Adds the score of one example. */
static umbo_status add_score(umbo_metrics *metrics, umbo_replica_context *context, double score,
                             int64_t label) {
    const umbo_view said = view_of(UMBO_DTYPE_FLOAT64, 1, 1, 1, &score);
    const umbo_view right = view_of(UMBO_DTYPE_INT64, 1, 1, 1, &label);
    return umbo_metrics_add_labels(metrics, context, "auc", &said, &right, NULL);
}

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

static umbo_metrics *make_metrics(umbo_strategy *strategy) {
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
static umbo_iterator *make_batches(umbo_strategy *strategy) {
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

/* ---- what is refused */

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
/* The second row is wrong: the first is not added either, and the run may go on. */
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
    {
        const results none = results_of(self.metrics);
        CHECK(none.of[LOSS].weight == 0 && none.of[MATRIX].weight == 0);
        CHECK(none.of[ACCURACY].weight == 0);
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
    mistakes();
    known_classes();
    scores_outside_of_the_range();
    means_of_nothing();
    metrics_of_the_last_run();
    return finish();
}
