/* Generated from src/ffi; do not edit. */
#ifndef UMBO_METRICS_H
#define UMBO_METRICS_H

/**
 * @file metrics.h
 * @brief Metrics: named numbers that replicas add to and that accumulate over runs.
 *
 * What a replica adds belongs to the step: it counts when the run has succeeded, and a run that
 * fails leaves nothing. Totals are those of all examples, however many replicas there are, and
 * parts of a batch may be empty. The caller releases metrics. What
 * umbo_replica_context_add_metric() measures is of one run and needs none of this.
 *
 * Threads: functions with a context are *concurrent*, and replicas do not wait for each other; so
 * are those that read. umbo_metrics_define() and umbo_metrics_reset() are refused while a run is
 * adding.
 *
 * Example:
 * ```c
 * // In a replica's callback: a loss, and a confusion matrix from rows of scores.
 * static umbo_status measure(umbo_metrics *metrics, umbo_replica_context *ctx, double loss,
 *                            const umbo_view *scores, const umbo_view *labels) {
 *   UMBO_TRY(umbo_metrics_add(metrics, ctx, 0, loss, (double)labels->shape[0]));
 *   return umbo_metrics_add_labels(metrics, ctx, 1, scores, labels);
 * }
 * ```
 */

#include <umbo/strategy.h>
#include <umbo/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif


/** What a metric accumulates. */
UMBO_ENUM(umbo_metric_kind) {
  /** A sum: `sum` of the result. Added to by umbo_metrics_add(). */
  UMBO_METRIC_SUM = 1,
  /** A weighted mean: `mean` of the result. Added to by umbo_metrics_add(). */
  UMBO_METRIC_MEAN = 2,
  /**
   * A sum of whole numbers, without rounding: `sum` of the result. Added to by umbo_metrics_add().
   */
  UMBO_METRIC_COUNT = 3,
  /**
   * How many predictions were right, top-1: `mean` of the result is their share, `sum` their number
   * and `weight` that of all. Added to by labels, or by umbo_metrics_add() with both numbers.
   */
  UMBO_METRIC_ACCURACY = 4,
  /**
   * A confusion matrix: how often each class was predicted (column) for each (row). The result is
   * the accuracy; umbo_metrics_class_result() has precision, recall and F1. Added to by labels.
   */
  UMBO_METRIC_CONFUSION = 5,
  /**
   * The area under the ROC curve of scores of two classes, from a histogram: `mean` of the result.
   * `weight` is the number of pairs of a positive and a negative example, `sum` that of those in
   * which the positive one has the higher score; a pair in one bin counts half. Exact but for pairs
   * in one bin. (Fawcett, "An introduction to ROC analysis", Pattern Recognition Letters 27, 2006;
   * Hanley and McNeil, Radiology 143, 1982.) Added to by scores with labels 0 and 1.
   */
  UMBO_METRIC_AUC = 6
};

/** What a metric is more exactly. Start from UMBO_METRIC_OPTIONS_INIT. */
typedef struct umbo_metric_options {
  size_t struct_size;
  /**
   * How many classes a confusion matrix has, 1 to 32768; it must be given. Its cells take 8 bytes
   * each. By default 0.
   */
  int64_t classes;
  /** How many bins an AUC's histogram has, 1 to 16777216. By default 200. */
  int64_t bins;
  /** Where the first bin begins; lower scores count in it. By default 0. */
  double lowest_score;
  /** Where the last bin ends; higher scores count in it. By default 1. */
  double highest_score;
} umbo_metric_options;

#define UMBO_METRIC_OPTIONS_INIT { sizeof(umbo_metric_options), 0, 200, 0.0, 1.0 }
UMBO_DEFAULT(umbo_metric_options, UMBO_METRIC_OPTIONS_INIT)

/** How a class was predicted. Start from UMBO_CLASS_METRIC_INIT. */
typedef struct umbo_class_metric {
  size_t struct_size;
  /** Examples of the class for which it was predicted. */
  int64_t true_positives;
  /** Examples of other classes for which it was predicted. */
  int64_t false_positives;
  /** Examples of the class for which another one was predicted. */
  int64_t false_negatives;
  /** True positives by all predictions of the class; NaN if there were none. */
  double precision;
  /** True positives by all examples of the class; NaN if there were none. */
  double recall;
  /**
   * The harmonic mean of precision and recall; NaN if there were neither predictions nor examples.
   */
  double f1;
} umbo_class_metric;

#define UMBO_CLASS_METRIC_INIT { sizeof(umbo_class_metric), 0, 0, 0, 0.0, 0.0, 0.0 }
UMBO_DEFAULT(umbo_class_metric, UMBO_CLASS_METRIC_INIT)

/**
 * Makes metrics, none yet, to which the replicas of a strategy add in its runs.
 *
 * @param[in] strategy Whose runs add to them.
 * @param[out] metrics A new handle, to be released.
 *
 * With several ranks all of them make the same metrics in the same order, define the same and reset
 * them between the same runs. What is accumulated, and read by each, is that of the replicas of all
 * ranks. A run of ranks whose metrics differ is UMBO_STATUS_FAILED_PRECONDITION.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_metrics_create(
    const umbo_strategy *strategy, umbo_metrics **metrics);

/**
 * Adds a metric, between runs. The first one has index 0, the next one 1, and so on.
 *
 * @param[in] name Its name, which differs from the others; copied.
 * @param[in] kind What it accumulates.
 * @param[in] options What it is more exactly; `options` may be NULL: all defaults.
 * @param[out] index Gets its index; `index` may be NULL.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a name that there is, options out of range.
 * - UMBO_STATUS_FAILED_PRECONDITION: a run is adding to the metrics.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_metrics_define(
    umbo_metrics *metrics, const char *name, umbo_metric_kind kind,
    const umbo_metric_options *options, int64_t *index);

/**
 * Tells how many metrics were defined.
 *
 * @param[out] count Their number.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_metrics_count(const umbo_metrics *metrics, int64_t *count);

/**
 * Tells the name of a metric.
 *
 * @param[in] index Which of them.
 * @param[out] name The name. Lives as long as the metrics.
 * @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such metric.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_metrics_name(
    const umbo_metrics *metrics, int64_t index, const char **name);

/**
 * Finds the metric with a name, for the functions that take an index.
 *
 * @param[out] index Which of them it is.
 * @return UMBO_OK, or UMBO_STATUS_NOT_FOUND: no metric of this name. The message lists the names
 *   that there are.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_metrics_index(
    const umbo_metrics *metrics, const char *name, int64_t *index);

/**
 * Adds a number and its weight to a sum, mean, count or accuracy, in a replica's callback.
 *
 * What replicas add belongs to the step: it counts once the run has succeeded, and not at all if it
 * fails. Replicas add at the same time; nobody waits for another one, and nothing is allocated.
 *
 * @param[in] ctx The replica's context.
 * @param[in] index Which of them.
 * @param[in] sum What is added. For a count: a whole number, 0 or more. For an accuracy: how
 *   many predictions were right.
 * @param[in] weight What it was taken over, usually a number of examples; 0 or more. For an
 *   accuracy: how many predictions there were.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_OUT_OF_RANGE: no such metric.
 * - UMBO_STATUS_INVALID_ARGUMENT: one of another kind, or numbers that it does not take.
 * - UMBO_STATUS_FAILED_PRECONDITION: not in a run of the strategy that the metrics were made
 *   for.
 * - UMBO_STATUS_CANCELLED: the run has returned without this replica.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_metrics_add(
    umbo_metrics *metrics, umbo_replica_context *ctx, int64_t index, double sum, double weight);

/**
 * Adds the class that was predicted for one example to an accuracy or a confusion matrix.
 *
 * @param[in] ctx The replica's context.
 * @param[in] index Which of them.
 * @param[in] predicted The class that was predicted.
 * @param[in] label The class that is right.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_OUT_OF_RANGE: no such metric, or a class that the matrix does not have.
 * - UMBO_STATUS_INVALID_ARGUMENT, UMBO_STATUS_FAILED_PRECONDITION, UMBO_STATUS_CANCELLED: as for
 *   umbo_metrics_add().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_metrics_add_label(
    umbo_metrics *metrics, umbo_replica_context *ctx, int64_t index, int64_t predicted,
    int64_t label);

/**
 * Adds the score of one example to an AUC.
 *
 * @param[in] ctx The replica's context.
 * @param[in] index Which of them.
 * @param[in] score The score, not NaN; higher ones speak for class 1.
 * @param[in] label 0 for a negative example, 1 for a positive one.
 * @return UMBO_OK, or the statuses of umbo_metrics_add_label().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_metrics_add_score(
    umbo_metrics *metrics, umbo_replica_context *ctx, int64_t index, double score, int64_t label);

/**
 * Adds what was predicted for many examples to an accuracy, a confusion matrix or an AUC. There may
 * be none. If any of it is wrong, none of it is added. Allocates nothing once a step had as many.
 *
 * @param[in] ctx The replica's context.
 * @param[in] index Which of them.
 * @param[in] predicted For an accuracy or a matrix: class numbers, integers of shape [examples],
 *   or scores, floating-point numbers of shape [examples, classes], of which the highest counts,
 *   the first among equals. For an AUC: scores of shape [examples] or [examples, 1]. No score is
 *   NaN.
 * @param[in] labels The right classes: integers or bool of shape [examples] or [examples, 1].
 *   For an AUC 0 and 1.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_OUT_OF_RANGE: no such metric, or a class that there is not (the message has its
 *   row).
 * - UMBO_STATUS_INVALID_ARGUMENT: other shapes or types.
 * - UMBO_STATUS_FAILED_PRECONDITION, UMBO_STATUS_CANCELLED, UMBO_STATUS_RESOURCE_EXHAUSTED: as for
 *   umbo_metrics_add_label().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_metrics_add_labels(
    umbo_metrics *metrics, umbo_replica_context *ctx, int64_t index, const umbo_view *predicted,
    const umbo_view *labels);

/**
 * Tells what a metric has accumulated over the runs that succeeded since it was defined or reset.
 *
 * @param[in] index Which of them.
 * @param[out] metric Its sum, weight and mean; its kind says what they are. Start from
 *   UMBO_METRIC_INIT, which sets its size.
 * @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such metric.
 *
 * Whole numbers are exact. Other sums are float64, in the order of the runs and in each of them of
 * the replicas: the same bits for the same calls, however threads are scheduled.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_metrics_result(
    const umbo_metrics *metrics, int64_t index, umbo_metric *metric);

/**
 * Tells how a class was predicted, by a confusion matrix.
 *
 * @param[in] index Which of them.
 * @param[in] class_index Which class.
 * @param[out] metric The numbers. Start from UMBO_CLASS_METRIC_INIT, which sets its size.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: not a confusion matrix.
 * - UMBO_STATUS_OUT_OF_RANGE: no such metric or class.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_metrics_class_result(
    const umbo_metrics *metrics, int64_t index, int64_t class_index, umbo_class_metric *metric);

/**
 * Copies the cells of a confusion matrix or of an AUC's histogram.
 *
 * @param[in] index Which of them.
 * @param[in] capacity How many numbers there is room for.
 * @param[out] cells The numbers: those of a matrix row by row, those of a histogram for the bins of
 *   the negative examples and then for those of the positive ones. `cells` may be NULL if
 *   `capacity` is 0.
 * @param[out] count How many cells there are, also if `capacity` is less.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a metric without cells.
 * - UMBO_STATUS_OUT_OF_RANGE: no such metric, or `capacity` is too small; then `cells` stays as it
 *   is.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_metrics_cells(
    const umbo_metrics *metrics, int64_t index, int64_t capacity, int64_t *cells, int64_t *count);

/**
 * Lets all metrics begin at zero.
 *
 * @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: a run is adding to them.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_metrics_reset(umbo_metrics *metrics);

/** Makes another handle to the same metrics: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_metrics_retain(
    const umbo_metrics *metrics, umbo_metrics **retained) {
  return umbo_retain(metrics, UMBO_HANDLE_METRICS, retained);
}

/** Releases a handle: umbo_release(). */
static inline void umbo_metrics_release(const umbo_metrics *metrics) {
  umbo_release(metrics, UMBO_HANDLE_METRICS);
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
