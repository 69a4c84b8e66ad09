//! Metrics that accumulate over runs.

use super::prelude::*;
use crate::metrics::Metrics;
use crate::metrics::kind::Kind;

/// What a metric accumulates.
pub type umbo_metric_kind = i32;

/// A sum: `sum` of the result. Added to by umbo_metrics_add().
pub const UMBO_METRIC_SUM: umbo_metric_kind = 1;
/// A weighted mean: `mean` of the result. Added to by umbo_metrics_add().
pub const UMBO_METRIC_MEAN: umbo_metric_kind = 2;
/// A sum of whole numbers, without rounding: `sum` of the result. Added to by umbo_metrics_add().
pub const UMBO_METRIC_COUNT: umbo_metric_kind = 3;
/// How many predictions were right, top-1: `mean` of the result is their share, `sum` their number and
/// `weight` that of all. Added to by labels, or by umbo_metrics_add() with both numbers.
pub const UMBO_METRIC_ACCURACY: umbo_metric_kind = 4;
/// A confusion matrix: how often each class was predicted (column) for each (row). The result is the
/// accuracy; umbo_metrics_class_result() has precision, recall and F1. Added to by labels.
pub const UMBO_METRIC_CONFUSION: umbo_metric_kind = 5;
/// The area under the ROC curve of scores of two classes, from a histogram: `mean` of the result. `weight` is the number of
/// pairs of a positive and a negative example, `sum` that of those in which the positive one has the
/// higher score; a pair in one bin counts half. Exact but for pairs in one bin. (Fawcett, "An
/// introduction to ROC analysis", Pattern Recognition Letters 27, 2006; Hanley and McNeil, Radiology
/// 143, 1982.) Added to by scores with labels 0 and 1.
pub const UMBO_METRIC_AUC: umbo_metric_kind = 6;

/// What a metric is more exactly. Start from UMBO_METRIC_OPTIONS_INIT.
#[c_struct(bins = 200, highest_score = 1.0)]
#[repr(C)]
pub struct umbo_metric_options {
    /// sizeof(umbo_metric_options).
    pub struct_size: usize,
    /// How many classes a confusion matrix has, 1 to 32768; it must be given. Its cells take 8 bytes
    /// each. By default 0.
    pub classes: i64,
    /// How many bins an AUC's histogram has, 1 to 16777216. By default 200.
    pub bins: i64,
    /// Where the first bin begins; lower scores count in it. By default 0.
    pub lowest_score: f64,
    /// Where the last bin ends; higher scores count in it. By default 1.
    pub highest_score: f64,
}

/// How a class was predicted. Start from UMBO_CLASS_METRIC_INIT.
#[c_struct]
#[repr(C)]
pub struct umbo_class_metric {
    /// sizeof(umbo_class_metric).
    pub struct_size: usize,
    /// Examples of the class for which it was predicted.
    pub true_positives: i64,
    /// Examples of other classes for which it was predicted.
    pub false_positives: i64,
    /// Examples of the class for which another one was predicted.
    pub false_negatives: i64,
    /// True positives by all predictions of the class; NaN if there were none.
    pub precision: f64,
    /// True positives by all examples of the class; NaN if there were none.
    pub recall: f64,
    /// The harmonic mean of precision and recall; NaN if there were neither predictions nor examples.
    pub f1: f64,
}

/// Makes metrics, none yet, to which the replicas of a strategy add in its runs.
///
/// @param[in] strategy Whose runs add to them.
/// @param[out] metrics A new handle, to be released.
///
/// With several ranks all of them make the same metrics in the same order, define the same and reset them
/// between the same runs. What is accumulated, and read by each, is that of the replicas of all ranks. A
/// run of ranks whose metrics differ is UMBO_STATUS_FAILED_PRECONDITION.
#[c_call(out(metrics), get(strategy))]
pub fn umbo_metrics_create(strategy: *const umbo_strategy, metrics: *mut *mut umbo_metrics) {
    metrics.write(make(Metrics::new(&strategy))?);
}

/// Adds a metric, between runs. The first one has index 0, the next one 1, and so on.
///
/// @param[in] name Its name, which differs from the others; copied.
/// @param[in] kind What it accumulates.
/// @param[in] options What it is more exactly; `options` may be NULL: all defaults.
/// @param[out] index Gets its index; `index` may be NULL.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a name that there is, options out of range.
/// - UMBO_STATUS_FAILED_PRECONDITION: a run is adding to the metrics.
#[c_call(text(name), options(options), optional_out(index))]
pub fn umbo_metrics_define(
    metrics: *mut umbo_metrics,
    name: *const c_char,
    kind: umbo_metric_kind,
    options: *const umbo_metric_options,
    index: *mut i64,
) {
    let kind = one_of!(kind, "kind", {
        UMBO_METRIC_SUM => Kind::Sum,
        UMBO_METRIC_MEAN => Kind::Mean,
        UMBO_METRIC_COUNT => Kind::Count,
        UMBO_METRIC_ACCURACY => Kind::Accuracy,
        UMBO_METRIC_CONFUSION => Kind::confusion(options.classes)?,
        UMBO_METRIC_AUC => Kind::auc(options.bins, options.lowest_score, options.highest_score)?,
    })?;
    index.write(get(metrics, "metrics")?.define(name, kind)? as i64);
}

/// Tells how many metrics were defined.
///
/// @param[out] count Their number.
#[c_call(out(count), borrow(metrics))]
pub fn umbo_metrics_count(metrics: *const umbo_metrics, count: *mut i64) {
    count.write(metrics.count()? as i64);
}

/// Tells the name of a metric.
///
/// @param[in] index Which of them.
/// @param[out] name The name. Lives as long as the metrics.
/// @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such metric.
#[c_call(out(name), index(index), borrow(metrics))]
pub fn umbo_metrics_name(metrics: *const umbo_metrics, index: i64, name: *mut *const c_char) {
    // The metrics keep the characters, and where they lie.
    name.write(metrics.name(index)?.as_c_str().as_ptr());
}

/// Finds the metric with a name, for the functions that take an index.
///
/// @param[out] index Which of them it is.
/// @return UMBO_OK, or UMBO_STATUS_NOT_FOUND: no metric of this name. The message lists the names that there
///   are.
#[c_call(out(index), text(name), borrow(metrics))]
pub fn umbo_metrics_index(metrics: *const umbo_metrics, name: *const c_char, index: *mut i64) {
    index.write(metrics.index(name)? as i64);
}

/// Adds a number and its weight to a sum, mean, count or accuracy, in a replica's callback.
///
/// What replicas add belongs to the step: it counts once the run has succeeded, and not at all if it
/// fails. Replicas add at the same time; nobody waits for another one, and nothing is allocated.
///
/// @param[in] ctx The replica's context.
/// @param[in] index Which of them.
/// @param[in] sum What is added. For a count: a whole number, 0 or more. For an accuracy: how
///   many predictions were right.
/// @param[in] weight What it was taken over, usually a number of examples; 0 or more. For an
///   accuracy: how many predictions there were.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_OUT_OF_RANGE: no such metric.
/// - UMBO_STATUS_INVALID_ARGUMENT: one of another kind, or numbers that it does not take.
/// - UMBO_STATUS_FAILED_PRECONDITION: not in a run of the strategy that the metrics were made
///   for.
/// - UMBO_STATUS_CANCELLED: the run has returned without this replica.
#[c_call(index(index), within(ctx), borrow(metrics))]
pub fn umbo_metrics_add(
    metrics: *mut umbo_metrics,
    ctx: *mut umbo_replica_context,
    index: i64,
    sum: f64,
    weight: f64,
) {
    metrics.add_in(ctx, index, sum, weight)
}

/// Adds the class that was predicted for one example to an accuracy or a confusion matrix.
///
/// @param[in] ctx The replica's context.
/// @param[in] index Which of them.
/// @param[in] predicted The class that was predicted.
/// @param[in] label The class that is right.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_OUT_OF_RANGE: no such metric, or a class that the matrix does not have.
/// - UMBO_STATUS_INVALID_ARGUMENT, UMBO_STATUS_FAILED_PRECONDITION, UMBO_STATUS_CANCELLED: as for
///   umbo_metrics_add().
#[c_call(index(index), within(ctx), borrow(metrics))]
pub fn umbo_metrics_add_label(
    metrics: *mut umbo_metrics,
    ctx: *mut umbo_replica_context,
    index: i64,
    predicted: i64,
    label: i64,
) {
    metrics.add_label_in(ctx, index, predicted, label)
}

/// Adds the score of one example to an AUC.
///
/// @param[in] ctx The replica's context.
/// @param[in] index Which of them.
/// @param[in] score The score, not NaN; higher ones speak for class 1.
/// @param[in] label 0 for a negative example, 1 for a positive one.
/// @return UMBO_OK, or the statuses of umbo_metrics_add_label().
#[c_call(index(index), within(ctx), borrow(metrics))]
pub fn umbo_metrics_add_score(
    metrics: *mut umbo_metrics,
    ctx: *mut umbo_replica_context,
    index: i64,
    score: f64,
    label: i64,
) {
    metrics.add_score_in(ctx, index, score, label)
}

/// Adds what was predicted for many examples to an accuracy, a confusion matrix or an AUC. There may be
/// none. If any of it is wrong, none of it is added. Allocates nothing once a step had as many.
///
/// @param[in] ctx The replica's context.
/// @param[in] index Which of them.
/// @param[in] predicted For an accuracy or a matrix: class numbers, integers of shape [examples],
///   or scores, floating-point numbers of shape [examples, classes], of which the highest counts,
///   the first among equals. For an AUC: scores of shape [examples] or [examples, 1]. No score is
///   NaN.
/// @param[in] labels The right classes: integers or bool of shape [examples] or [examples, 1].
///   For an AUC 0 and 1.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_OUT_OF_RANGE: no such metric, or a class that there is not (the message has its
///   row).
/// - UMBO_STATUS_INVALID_ARGUMENT: other shapes or types.
/// - UMBO_STATUS_FAILED_PRECONDITION, UMBO_STATUS_CANCELLED, UMBO_STATUS_RESOURCE_EXHAUSTED: as for
///   umbo_metrics_add_label().
#[c_call(index(index), view(predicted), view(labels), within(ctx), borrow(metrics))]
pub fn umbo_metrics_add_labels(
    metrics: *mut umbo_metrics,
    ctx: *mut umbo_replica_context,
    index: i64,
    predicted: *const umbo_view,
    labels: *const umbo_view,
) {
    // SAFETY: the caller gives views, whose elements nobody writes during this call.
    let (predicted, labels) =
        unsafe { (view_from(predicted, "predicted")?, view_from(labels, "labels")?) };
    metrics.add_labels_in(ctx, index, &predicted.reading()?, &labels.reading()?)
}

/// Tells what a metric has accumulated over the runs that succeeded since it was defined or reset.
///
/// @param[in] index Which of them.
/// @param[out] metric Its sum, weight and mean; its kind says what they are. Start from UMBO_METRIC_INIT, which
///   sets its size.
/// @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such metric.
///
/// Whole numbers are exact. Other sums are float64, in the order of the runs and in each of them of the
/// replicas: the same bits for the same calls, however threads are scheduled.
#[c_call(result(metric), get(metrics), index(index))]
pub fn umbo_metrics_result(metrics: *const umbo_metrics, index: i64, metric: *mut umbo_metric) {
    metric.write(metric_of(&metrics.result(index)?));
}

/// Tells how a class was predicted, by a confusion matrix.
///
/// @param[in] index Which of them.
/// @param[in] class_index Which class.
/// @param[out] metric The numbers. Start from UMBO_CLASS_METRIC_INIT, which sets its size.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: not a confusion matrix.
/// - UMBO_STATUS_OUT_OF_RANGE: no such metric or class.
#[c_call(result(metric), get(metrics), index(index))]
pub fn umbo_metrics_class_result(
    metrics: *const umbo_metrics,
    index: i64,
    class_index: i64,
    metric: *mut umbo_class_metric,
) {
    let counts = metrics.class(index, class_index)?;
    metric.write(umbo_class_metric {
        struct_size: size_of::<umbo_class_metric>(),
        true_positives: counts.true_positives,
        false_positives: counts.false_positives,
        false_negatives: counts.false_negatives,
        precision: counts.precision(),
        recall: counts.recall(),
        f1: counts.f1(),
    });
}

/// Copies the cells of a confusion matrix or of an AUC's histogram.
///
/// @param[in] index Which of them.
/// @param[in] capacity How many numbers there is room for.
/// @param[out] cells The numbers: those of a matrix row by row, those of a histogram for the bins of the negative
///   examples and then for those of the positive ones. `cells` may be NULL if `capacity` is 0.
/// @param[out] count How many cells there are, also if `capacity` is less.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a metric without cells.
/// - UMBO_STATUS_OUT_OF_RANGE: no such metric, or `capacity` is too small; then `cells` stays as it is.
#[c_call(out(count), natural(capacity), room(cells, capacity), get(metrics), index(index))]
pub fn umbo_metrics_cells(
    metrics: *const umbo_metrics,
    index: i64,
    capacity: i64,
    cells: *mut i64,
    count: *mut i64,
) {
    metrics.with_cells(index, |found| {
        count.write(found.len() as i64);
        if found.len() > capacity {
            let problem = format!("{capacity}; there are {} cells", found.len());
            return Err(Error::out_of_range("capacity", problem));
        }
        // SAFETY: checked, and the caller promises room for `capacity` numbers.
        unsafe { ptr::copy_nonoverlapping(found.as_ptr(), cells, found.len()) };
        Ok(())
    })
}

/// Lets all metrics begin at zero.
///
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: a run is adding to them.
#[c_call(get(metrics))]
pub fn umbo_metrics_reset(metrics: *mut umbo_metrics) {
    metrics.reset()
}
