/* Generated from src; do not edit. */
#ifndef UMBO_METRICS_H
#define UMBO_METRICS_H

/**
 * @file metrics.h
 * @brief Metrics: accuracies, confusion matrices, AUCs, sums and means that accumulate over runs.
 *
 * A metric has a name. The mean of a loss needs only umbo_replica_context_add_metric() in the
 * callback, and umbo_strategy_metric_result() after the run or the epoch. Other kinds, and totals
 * over several epochs, are defined in a umbo_metrics, which accumulates until it is reset.
 *
 * What a replica adds takes effect when the run has succeeded. Parts of a batch may be empty.
 *
 * Threads: all functions are *concurrent*, and replicas do not wait for each other. An unknown
 * `name` is UMBO_STATUS_NOT_FOUND. A function with a context can also return
 * UMBO_STATUS_INVALID_ARGUMENT: a metric of another kind, or numbers that it does not take,
 * UMBO_STATUS_FAILED_PRECONDITION: not in a run of the strategy that the metrics were made for, and
 * UMBO_STATUS_CANCELLED: the run has returned without this replica.
 *
 * Example:
 * ```c
 * // In a callback: a loss, and a confusion matrix from rows of scores.
 * static umbo_status measure(umbo_metrics *metrics, umbo_replica_context *ctx, double loss,
 *                            const umbo_view *scores, const umbo_view *labels) {
 *   UMBO_TRY(umbo_metrics_add(metrics, ctx, "loss", loss, (double)labels->shape[0]));
 *   return umbo_metrics_add_labels(metrics, ctx, "confusion", scores, labels, NULL);
 * }
 * ```
 */

#include <umbo/strategy.h>
#include <umbo/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The kinds of metrics. */
typedef enum umbo_metric_kind UMBO_INT32 {
  /** A sum: `sum` of the result. umbo_metrics_add() adds to it. */
  UMBO_METRIC_SUM = 1601,
  /** A weighted mean: `mean` of the result. umbo_metrics_add() adds to it. */
  UMBO_METRIC_MEAN = 1602,
  /**
   * An exact sum of whole numbers, each 0 or more: `sum` of the result. umbo_metrics_add() adds to
   * it.
   */
  UMBO_METRIC_COUNT = 1603,
  /**
   * The share of right predictions, top-1: `mean` of the result; `sum` is how many were right, and
   * `weight` how many there were, both by the weights of the examples. Labels are added, or both
   * numbers by umbo_metrics_add().
   */
  UMBO_METRIC_ACCURACY = 1604,
  /**
   * A confusion matrix: how often each class (row) was predicted as each class (column), by
   * weights. The result is the accuracy; umbo_metrics_class_result() has precision, recall and F1.
   * Labels are added.
   */
  UMBO_METRIC_CONFUSION = 1605,
  /**
   * The area under the ROC curve of two classes, from a histogram of scores: `mean` of the result.
   * `weight` is the number of pairs of a positive and a negative example, `sum` of those in which
   * the positive one has the higher score; a pair in one bin counts half. Scores with labels 0 and
   * 1 are added. Sources: Fawcett, 2006; Hanley and McNeil, 1982.
   */
  UMBO_METRIC_AUC = 1606,
  /**
   * The share of examples whose class is among the `top_k` that have the highest scores: `mean` of
   * the result. Labels are added, with scores; among equal scores the first are the higher ones.
   */
  UMBO_METRIC_TOP_K = 1607,
  /**
   * The mean squared error: `mean` of the result, whose root is the root mean squared error.
   * Targets are added in place of labels.
   */
  UMBO_METRIC_SQUARED_ERROR = 1608
} umbo_metric_kind;

/** Options of a metric. */
typedef struct umbo_metric_options {
  size_t struct_size;
  /**
   * The classes of a confusion matrix, 1 to 32768; must be given. A cell takes 8 bytes. Of an
   * accuracy it may be given: class numbers from it on are then refused. 0: it is not known.
   */
  int64_t class_count;
  /** The bins of an AUC's histogram, 1 to 16777216. */
  int64_t bin_count;
  /** The beginning of the first bin. A lower score is put into it, with a warning, once. */
  double lowest_score;
  /** The end of the last bin. A higher score is put into it, with a warning, once. */
  double highest_score;
  /** How many of the highest scores count for UMBO_METRIC_TOP_K, 1 or more. */
  int64_t top_k;
  /**
   * With `has_ignore_index`: examples with this label do not count, whatever is predicted for
   * them. It may be any number, such as -100 or 255.
   */
  int64_t ignore_index;
  /**
   * 1: there is an `ignore_index`, which sums, means, counts and errors refuse. 0: all labels
   * count.
   */
  int32_t has_ignore_index;
} umbo_metric_options;

#define umbo_metric_options_defaults \
  UMBO_STRUCT_SIZE(umbo_metric_options), 0, 200, 0.0, 1.0, 5, 0, 0
#define UMBO_METRIC_OPTIONS_INIT { umbo_metric_options_defaults }

/** The result of a metric over all replicas. */
typedef struct umbo_metric_result {
  size_t struct_size;
  /** The sum of what the replicas added, in the order of the steps and then of the replicas. */
  double sum;
  /** The sum of the weights. */
  double weight;
  /** sum / weight; NaN if the weight is 0. */
  double mean;
  /** The kind of the metric, which says whether `sum` or `mean` is the number to look at. */
  umbo_metric_kind kind;
} umbo_metric_result;

#define UMBO_METRIC_RESULT_INIT \
  { UMBO_STRUCT_SIZE(umbo_metric_result), 0.0, 0.0, 0.0, UMBO_ENUM_VALUE(umbo_metric_kind, 0) }

/** How a class was predicted. */
typedef struct umbo_metric_class_result {
  size_t struct_size;
  /** Examples of the class for which it was predicted, by weights: their number without any. */
  double true_positives;
  /** Examples of other classes for which it was predicted. */
  double false_positives;
  /** Examples of the class for which another one was predicted. */
  double false_negatives;
  /** True positives by all predictions of the class; NaN if there were none. */
  double precision;
  /** True positives by all examples of the class; NaN if there were none. */
  double recall;
  /** The harmonic mean of both; NaN if there were neither predictions nor examples. */
  double f1;
} umbo_metric_class_result;

#define UMBO_METRIC_CLASS_RESULT_INIT \
  { UMBO_STRUCT_SIZE(umbo_metric_class_result), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0 }

/**
 * Gets the total of a metric, over all replicas of all ranks: of the last run, or of the last
 * umbo_train_epoch() over all steps that took effect, if that has returned since.
 *
 * @return UMBO_OK, or UMBO_STATUS_NOT_FOUND: no replica added a metric of this name there. The
 *   message lists the names that there are.
 *
 * Replicas add to it with umbo_replica_context_add_metric(). Runs in which no replica adds any
 * metric, and runs that fail, leave those of before. An epoch leaves nothing of before: after one
 * without steps, as over an empty dataset, there are no metrics.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_metric_result(
    const umbo_strategy *strategy, const char *name, umbo_metric_result *result);

/**
 * Makes metrics, none yet, to which the replicas of a strategy add in its runs.
 *
 * With several ranks all of them make, define, reset and release the same metrics between the same
 * runs; totals are those of all ranks. A run of ranks whose metrics differ is
 * UMBO_STATUS_FAILED_PRECONDITION.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_metrics_create(
    const umbo_strategy *strategy, umbo_metrics **metrics);

/**
 * Defines a metric, by whose name replicas then add to it.
 *
 * @param[in] name Copied; it differs from the names of the others.
 * @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: a run is adding to the metrics.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_metrics_define(
    umbo_metrics *metrics, const char *name, umbo_metric_kind kind,
    const umbo_metric_options *options);

/**
 * Adds a number and its weight to a sum, mean, count, accuracy or error.
 *
 * @param[in] sum What is added; of a count a whole number, 0 or more, of an accuracy the right
 *   predictions, of an error the sum of the squares.
 * @param[in] weight Usually the number of examples, 0 or more; of an accuracy all predictions.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_metrics_add(
    umbo_metrics *metrics, umbo_replica_context *ctx, const char *name, double sum, double weight);

/**
 * Adds what was predicted for examples to an accuracy, a confusion matrix, an AUC or an error.
 * There may be none. If any of it is wrong, none of it is added.
 *
 * @param[in] predicted For an accuracy or a matrix: class numbers, integers of shape [examples],
 *   or scores, floats of shape [examples, classes], of which the first highest is used. For top-k:
 *   scores of `top_k` classes or more. For an AUC: scores of shape [examples] or [examples, 1]. No
 *   score is NaN. For an error: floats of shape [examples] or [examples, columns].
 * @param[in] labels The right classes: integers or bool of shape [examples] or [examples, 1]. For
 *   an error: the targets, floats of the shape of `predicted`.
 * @param[in] weights The weight of each example, finite and 0 or more: floats, integers or bool of
 *   shape [examples] or [examples, 1]. `weights` may be NULL: each counts once.
 * @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: also a class that does not exist; the message has
 *   its row. UMBO_STATUS_INVALID_ARGUMENT: also, in strict mode, a score outside of an AUC's
 *   range.
 *
 * Class numbers are 0 or more. Without `class_count`, an accuracy also refuses the label that -1
 * becomes in an unsigned type, such as 255 in uint8. Examples without a class have the label
 * `ignore_index`, or the weight 0 and any class.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_metrics_add_labels(
    umbo_metrics *metrics, umbo_replica_context *ctx, const char *name, const umbo_view *predicted,
    const umbo_view *labels, const umbo_view *weights);

/**
 * Gets what a metric has accumulated in the runs that succeeded since it was defined or reset.
 *
 * Sums of whole numbers are exact, up to 2^53. Other sums are float64, in the order of the runs
 * and then of the replicas: bit-identical for the same calls.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_metrics_result(
    const umbo_metrics *metrics, const char *name, umbo_metric_result *result);

/**
 * Gets how a class was predicted, from a confusion matrix.
 *
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: not a confusion matrix.
 *   UMBO_STATUS_OUT_OF_RANGE: no such class.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_metrics_class_result(
    const umbo_metrics *metrics, const char *name, int64_t class_index,
    umbo_metric_class_result *result);

/**
 * Resets all metrics to zero.
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
