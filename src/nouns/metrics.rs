//! Metrics that accumulate over runs.

use crate::machinery::prelude::*;
use umbo_core::metrics::kind::{MetricDefinition, MetricKind};
use umbo_core::metrics::{Metrics, Predictions};
use umbo_core::strategy::context::metrics::Metric;

/// The kinds of metrics.
pub type umbo_metric_kind = i32;

/// A sum: `sum` of the result. umbo_metrics_add() adds to it.
pub const UMBO_METRIC_SUM: umbo_metric_kind = 1601;
/// A weighted mean: `mean` of the result. umbo_metrics_add() adds to it.
pub const UMBO_METRIC_MEAN: umbo_metric_kind = 1602;
/// An exact sum of whole numbers, each 0 or more: `sum` of the result. umbo_metrics_add() adds to
/// it.
pub const UMBO_METRIC_COUNT: umbo_metric_kind = 1603;
/// The share of right predictions, top-1: `mean` of the result; `sum` is how many were right, and
/// `weight` how many there were, both by the weights of the examples. Labels are added, or both
/// numbers by umbo_metrics_add().
pub const UMBO_METRIC_ACCURACY: umbo_metric_kind = 1604;
/// A confusion matrix: how often each class (row) was predicted as each class (column), by weights.
/// The result is the accuracy; umbo_metrics_class_result() has precision, recall and F1. Labels are
/// added.
pub const UMBO_METRIC_CONFUSION: umbo_metric_kind = 1605;
/// The area under the ROC curve of two classes, from a histogram of scores: `mean` of the result.
/// `weight` is the number of pairs of a positive and a negative example, `sum` of those in which
/// the positive one has the higher score; a pair in one bin counts half. Scores with labels 0 and 1
/// are added. Sources: Fawcett, 2006; Hanley and McNeil, 1982.
pub const UMBO_METRIC_AUC: umbo_metric_kind = 1606;

/// The share of examples whose class is among the `top_k` that have the highest scores: `mean` of
/// the result. Labels are added, with scores; among equal scores the first are the higher ones.
pub const UMBO_METRIC_TOP_K: umbo_metric_kind = 1607;
/// The mean squared error: `mean` of the result, whose root is the root mean squared error. Targets
/// are added in place of labels.
pub const UMBO_METRIC_SQUARED_ERROR: umbo_metric_kind = 1608;

/// Options of a metric.
#[c_struct(bin_count = 200, highest_score = 1.0, top_k = 5)]
pub struct umbo_metric_options {
    /// The classes of a confusion matrix, 1 to 32768; must be given. A cell takes 8 bytes. Of an
    /// accuracy it may be given: class numbers from it on are then refused. 0: it is not known.
    pub class_count: i64,
    /// The bins of an AUC's histogram, 1 to 16777216.
    pub bin_count: i64,
    /// The beginning of the first bin. A lower score is put into it, with a warning, once.
    pub lowest_score: f64,
    /// The end of the last bin. A higher score is put into it, with a warning, once.
    pub highest_score: f64,
    /// How many of the highest scores count for UMBO_METRIC_TOP_K, 1 or more.
    pub top_k: i64,
    /// With `has_ignore_index`: examples with this label do not count, whatever is predicted for
    /// them. It may be any number, such as -100 or 255.
    pub ignore_index: i64,
    /// 1: there is an `ignore_index`, which sums, means, counts and errors refuse. 0: all labels
    /// count.
    pub has_ignore_index: i32,
}

/// The result of a metric over all replicas.
#[c_struct]
pub struct umbo_metric_result {
    /// The sum of what the replicas added, in the order of the steps and then of the replicas.
    pub sum: f64,
    /// The sum of the weights.
    pub weight: f64,
    /// sum / weight; NaN if the weight is 0.
    pub mean: f64,
    /// The kind of the metric, which says whether `sum` or `mean` is the number to look at.
    pub kind: umbo_metric_kind,
}

fn result_for_c(found: &Metric, kind: umbo_metric_kind) -> umbo_metric_result {
    let sum = found.sum;
    let weight = found.weight;
    let mean = found.mean();
    umbo_metric_result {
        struct_size: struct_size::<umbo_metric_result>(),
        sum,
        weight,
        mean,
        kind,
    }
}

/// How a class was predicted.
#[c_struct]
pub struct umbo_metric_class_result {
    /// Examples of the class for which it was predicted, by weights: their number without any.
    pub true_positives: f64,
    /// Examples of other classes for which it was predicted.
    pub false_positives: f64,
    /// Examples of the class for which another one was predicted.
    pub false_negatives: f64,
    /// True positives by all predictions of the class; NaN if there were none.
    pub precision: f64,
    /// True positives by all examples of the class; NaN if there were none.
    pub recall: f64,
    /// The harmonic mean of both; NaN if there were neither predictions nor examples.
    pub f1: f64,
}

fn unknown_metric(name: &str, known: &[String]) -> Error {
    let known: Vec<_> = known.iter().map(|name| format!("'{name}'")).collect();
    let added = match known.as_slice() {
        [] => "none was added".to_owned(),
        names => format!("the metrics are {}", names.join(", ")),
    };
    Error::NotFound(format!(
        "name: no replica added a metric '{name}' in the last epoch, or in a run since; {added}"
    ))
}

/// Gets the total of a metric, over all replicas of all ranks: of the last run, or of the last
/// umbo_train_epoch() over all steps that took effect, if that has returned since.
///
/// @return UMBO_OK, or UMBO_STATUS_NOT_FOUND: no replica added a metric of this name there. The
///   message lists the names that there are.
///
/// Replicas add to it with umbo_replica_context_add_metric(). Runs in which no replica adds any
/// metric, and runs that fail, leave those of before. An epoch leaves nothing of before: after one
/// without steps, as over an empty dataset, there are no metrics.
#[c_call(result(result), text(name), borrow(strategy))]
pub fn umbo_strategy_metric_result(
    strategy: *const umbo_strategy,
    name: *const c_char,
    result: *mut umbo_metric_result,
) {
    let found = strategy.metric(name);
    let found = found.ok_or_else(|| unknown_metric(name, &strategy.metric_names()))?;
    result.write(result_for_c(&found, UMBO_METRIC_MEAN));
}

/// Makes metrics, none yet, to which the replicas of a strategy add in its runs.
///
/// With several ranks all of them make, define, reset and release the same metrics between the same
/// runs; totals are those of all ranks. A run of ranks whose metrics differ is
/// UMBO_STATUS_FAILED_PRECONDITION.
#[c_call(out(metrics), get(strategy))]
pub fn umbo_metrics_create(strategy: *const umbo_strategy, metrics: *mut *mut umbo_metrics) {
    metrics.write(make(Metrics::new(&strategy))?);
}

/// Defines a metric, by whose name replicas then add to it.
///
/// @param[in] name Copied; it differs from the names of the others.
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: a run is adding to the metrics.
#[c_call(text(name), options(options))]
pub fn umbo_metrics_define(
    metrics: *mut umbo_metrics,
    name: *const c_char,
    kind: umbo_metric_kind,
    options: *const umbo_metric_options,
) {
    let chosen = one_of!(kind, "kind", {
        UMBO_METRIC_SUM => MetricKind::Sum,
        UMBO_METRIC_MEAN => MetricKind::Mean,
        UMBO_METRIC_COUNT => MetricKind::Count,
        UMBO_METRIC_ACCURACY => MetricKind::accuracy(options.class_count)?,
        UMBO_METRIC_CONFUSION => MetricKind::confusion(options.class_count)?,
        UMBO_METRIC_AUC => MetricKind::auc(
            options.bin_count,
            options.lowest_score,
            options.highest_score,
        )?,
        UMBO_METRIC_TOP_K => MetricKind::top_k(options.top_k)?,
        UMBO_METRIC_SQUARED_ERROR => MetricKind::SquaredError,
    })?;
    let label = options.ignore_index;
    let definition = match flag(options.has_ignore_index, "options.has_ignore_index")? {
        true => MetricDefinition::ignoring(chosen, label)?,
        false if label == 0 => chosen.into(),
        false => {
            return Err(invalid!(
                "options.ignore_index",
                "{label}; set has_ignore_index to 1, too"
            ));
        }
    };
    get(metrics, "metrics")?.define(name, definition)
}

/// Gets the names of all metrics, in the order of their definitions.
///
/// @param[in] capacity The length of `names`.
/// @param[out] names Live as long as the metrics. NULL if `capacity` is 0.
/// @param[out] length How many there are, even if there are more than `capacity`.
/// @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: there are more than `capacity`, and `names` is
///   unchanged.
#[c_call(
    out(length),
    natural(capacity),
    array_out(names, capacity),
    get(metrics)
)]
pub fn umbo_metrics_names(
    metrics: *const umbo_metrics,
    names: *mut *const c_char,
    capacity: i64,
    length: *mut i64,
) {
    let found = metrics.names();
    length.write(found.len() as i64);
    if found.len() > capacity {
        return Err(out_of_range!(
            "capacity",
            "{capacity}; there are {} metrics",
            found.len()
        ));
    }
    for (at, name) in found.iter().enumerate() {
        // The metrics keep the characters, and where they lie.
        let characters = name.as_c_str().as_ptr();
        // SAFETY: checked, and the caller promises room for `capacity` names.
        unsafe { names.add(at).write(characters) };
    }
    Ok(())
}

fn kind_for_c(kind: MetricKind) -> umbo_metric_kind {
    match kind {
        MetricKind::Sum => UMBO_METRIC_SUM,
        MetricKind::Mean => UMBO_METRIC_MEAN,
        MetricKind::Count => UMBO_METRIC_COUNT,
        MetricKind::Accuracy { .. } => UMBO_METRIC_ACCURACY,
        MetricKind::Confusion { .. } => UMBO_METRIC_CONFUSION,
        MetricKind::Auc { .. } => UMBO_METRIC_AUC,
        MetricKind::TopK { .. } => UMBO_METRIC_TOP_K,
        MetricKind::SquaredError => UMBO_METRIC_SQUARED_ERROR,
    }
}

/// Adds a number and its weight to a sum, mean, count, accuracy or error.
///
/// @param[in] sum What is added; of a count a whole number, 0 or more, of an accuracy the right
///   predictions, of an error the sum of the squares.
/// @param[in] weight Usually the number of examples, 0 or more; of an accuracy all predictions.
#[c_call(text(name), within(ctx), borrow(metrics))]
pub fn umbo_metrics_add(
    metrics: *mut umbo_metrics,
    ctx: *mut umbo_replica_context,
    name: *const c_char,
    sum: f64,
    weight: f64,
) {
    metrics.add_in(ctx, name, sum, weight)
}

/// Adds what was predicted for examples to an accuracy, a confusion matrix, an AUC or an error.
/// There may be none. If any of it is wrong, none of it is added.
///
/// @param[in] predicted For an accuracy or a matrix: class numbers, integers of shape [examples],
///   or scores, floats of shape [examples, classes], of which the first highest is used. For top-k:
///   scores of `top_k` classes or more. For an AUC: scores of shape [examples] or [examples, 1]. No
///   score is NaN. For an error: floats of shape [examples] or [examples, columns].
/// @param[in] labels The right classes: integers or bool of shape [examples] or [examples, 1]. For
///   an error: the targets, floats of the shape of `predicted`.
/// @param[in] weights The weight of each example, finite and 0 or more: floats, integers or bool of
///   shape [examples] or [examples, 1]. `weights` may be NULL: each counts once.
/// @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: also a class that does not exist; the message has
///   its row. UMBO_STATUS_INVALID_ARGUMENT: also, in strict mode, a score outside of an AUC's
///   range.
///
/// Class numbers are 0 or more. Without `class_count`, an accuracy also refuses the label that -1
/// becomes in an unsigned type, such as 255 in uint8. Examples without a class have the label
/// `ignore_index`, or the weight 0 and any class.
#[c_call(
    text(name),
    view(predicted),
    view(labels),
    within(ctx),
    borrow(metrics)
)]
pub fn umbo_metrics_add_labels(
    metrics: *mut umbo_metrics,
    ctx: *mut umbo_replica_context,
    name: *const c_char,
    predicted: *const umbo_view,
    labels: *const umbo_view,
    weights: *const umbo_view,
) {
    // SAFETY: the caller gives views, whose elements nobody writes during this call.
    let predicted = unsafe { view_from(predicted, "predicted")? };
    // SAFETY: as above.
    let labels = unsafe { view_from(labels, "labels")? };
    let weights = match weights.is_null() {
        true => None,
        // SAFETY: as above.
        false => Some(unsafe { view_from(weights, "weights")? }),
    };
    let weights = weights.as_ref().map(|weights| weights.reading());
    let weights = weights.transpose()?;
    let added = Predictions {
        predicted: &predicted.reading()?,
        labels: &labels.reading()?,
        weights: weights.as_ref(),
    };
    metrics.add_predictions_in(ctx, name, added)
}

/// Gets what a metric has accumulated in the runs that succeeded since it was defined or reset.
///
/// Sums of whole numbers are exact, up to 2^53. Other sums are float64, in the order of the runs
/// and then of the replicas: bit-identical for the same calls.
#[c_call(result(result), text(name), get(metrics))]
pub fn umbo_metrics_result(
    metrics: *const umbo_metrics,
    name: *const c_char,
    result: *mut umbo_metric_result,
) {
    let kind = kind_for_c(metrics.kind(name)?);
    result.write(result_for_c(&metrics.result(name)?, kind));
}

/// Gets how a class was predicted, from a confusion matrix.
///
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: not a confusion matrix.
///   UMBO_STATUS_OUT_OF_RANGE: no such class.
#[c_call(result(result), text(name), get(metrics))]
pub fn umbo_metrics_class_result(
    metrics: *const umbo_metrics,
    name: *const c_char,
    class_index: i64,
    result: *mut umbo_metric_class_result,
) {
    let counts = metrics.class(name, class_index)?;
    result.write(umbo_metric_class_result {
        struct_size: struct_size::<umbo_metric_class_result>(),
        true_positives: counts.true_positives,
        false_positives: counts.false_positives,
        false_negatives: counts.false_negatives,
        precision: counts.precision(),
        recall: counts.recall(),
        f1: counts.f1(),
    });
}

/// Copies the cells of a confusion matrix, row by row, or of an AUC's histogram: the bins of the
/// negative examples, then those of the positive ones. Each is the weight of the examples in it:
/// their number without weights.
///
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: a metric without cells.
#[c_call(
    out(length),
    natural(capacity),
    array_out(cells, capacity),
    text(name),
    get(metrics)
)]
pub fn umbo_metrics_cells(
    metrics: *const umbo_metrics,
    name: *const c_char,
    cells: *mut f64,
    capacity: i64,
    length: *mut i64,
) {
    metrics.with_cells(name, |found| {
        length.write(found.len() as i64);
        if found.len() > capacity {
            return Err(out_of_range!(
                "capacity",
                "{capacity}; there are {} cells",
                found.len()
            ));
        }
        // SAFETY: checked, and the caller promises room for `capacity` numbers.
        unsafe { ptr::copy_nonoverlapping(found.as_ptr(), cells, found.len()) };
        Ok(())
    })
}

/// Resets all metrics to zero.
///
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: a run is adding to them.
#[c_call(get(metrics))]
pub fn umbo_metrics_reset(metrics: *mut umbo_metrics) {
    metrics.reset()
}
