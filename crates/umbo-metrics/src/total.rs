//! The totals of committed steps, and the results that are computed from them.

use crate::kind::MetricKind;
use crate::part::{AddedToEntry, MOST_WHOLE};
use std::iter;

use umbo_base::error::{Result, memory};
use umbo_strategy::context::metrics::{Metric, share};

/// The total of one entry.
#[derive(Debug, PartialEq)]
pub enum Total {
    /// The total of a sum, a mean, an accuracy or an error.
    Numbers {
        /// The sum, or the weight of the predictions that were right.
        sum: f64,
        /// The sum of the weights.
        weight: f64,
    },
    /// The total of a count.
    Counts {
        /// The count.
        hits: i64,
        /// How many examples there were.
        predictions: i64,
    },
    /// The cells of a matrix or histogram, row by row: the weights of the examples in each.
    Cells(Vec<f64>),
}

/// How well a class was predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassCounts {
    /// How many examples of the class were predicted as the class, by their weights.
    pub true_positives: f64,
    /// How many examples of other classes were predicted as the class.
    pub false_positives: f64,
    /// How many examples of the class were predicted as another class.
    pub false_negatives: f64,
}

impl ClassCounts {
    /// The share of the predictions of this class that were right; NaN if there was none.
    pub fn precision(&self) -> f64 {
        share(
            self.true_positives,
            self.true_positives + self.false_positives,
        )
    }

    /// The share of the class's examples that were predicted as the class; NaN if there was none.
    pub fn recall(&self) -> f64 {
        share(
            self.true_positives,
            self.true_positives + self.false_negatives,
        )
    }

    /// The harmonic mean of precision and recall, 2 TP / (2 TP + FP + FN); NaN if there was neither
    /// prediction nor example.
    pub fn f1(&self) -> f64 {
        let twice = 2.0 * self.true_positives;
        share(twice, twice + self.false_positives + self.false_negatives)
    }
}

impl Total {
    /// An empty total. Fails with RESOURCE_EXHAUSTED if there is no memory for the cells.
    pub(super) fn new(kind: MetricKind) -> Result<Total> {
        Ok(match kind {
            MetricKind::Sum
            | MetricKind::Mean
            | MetricKind::Accuracy { .. }
            | MetricKind::TopK { .. }
            | MetricKind::SquaredError => Total::Numbers {
                sum: 0.0,
                weight: 0.0,
            },
            MetricKind::Count => Total::Counts {
                hits: 0,
                predictions: 0,
            },
            MetricKind::Confusion { .. } | MetricKind::Auc { .. } => {
                let cells = kind.cells().map_or(0, |[rows, columns]| rows * columns);
                Total::Cells(memory::filled(cells, 0.0, "cells of a metric")?)
            }
        })
    }

    /// A copy. Fails with RESOURCE_EXHAUSTED if there is no memory for the cells.
    pub(super) fn copy(&self) -> Result<Total> {
        Ok(match self {
            &Total::Numbers { sum, weight } => Total::Numbers { sum, weight },
            &Total::Counts { hits, predictions } => Total::Counts { hits, predictions },
            Total::Cells(cells) => {
                let mut copy = memory::list(cells.len(), "cells of a metric")?;
                copy.extend_from_slice(cells);
                Total::Cells(copy)
            }
        })
    }

    pub(super) fn clear(&mut self) {
        match self {
            Total::Numbers { sum, weight } => (*sum, *weight) = (0.0, 0.0),
            Total::Counts { hits, predictions } => (*hits, *predictions) = (0, 0),
            Total::Cells(cells) => cells.fill(0.0),
        }
    }

    /// Adds the contribution of one replica in a step.
    pub(super) fn fold(&mut self, slot: &AddedToEntry) {
        match self {
            Total::Numbers { sum, weight } => {
                *sum += slot.sum;
                *weight += slot.weight;
            }
            Total::Counts { hits, predictions } => {
                *hits = hits.saturating_add(slot.hits);
                *predictions = predictions.saturating_add(slot.predictions);
            }
            Total::Cells(cells) => {
                // Without weights, each example counts once.
                let weights = slot.weights.iter().copied().chain(iter::repeat(1.0));
                slot.cells
                    .iter()
                    .zip(weights)
                    .for_each(|(&cell, weight)| cells[cell as usize] += weight);
            }
        }
    }

    /// The total as a sum and a weight, whose quotient is the mean, the accuracy or the AUC.
    pub(super) fn metric(&self, kind: MetricKind) -> Metric {
        match self {
            Total::Numbers { sum, weight } => Metric {
                sum: *sum,
                weight: *weight,
            },
            Total::Counts { hits, predictions } => Metric {
                sum: *hits as f64,
                weight: *predictions as f64,
            },
            Total::Cells(cells) => match kind {
                MetricKind::Confusion { classes } => Metric {
                    sum: cells.iter().step_by(classes as usize + 1).sum(),
                    weight: cells.iter().sum(),
                },
                MetricKind::Auc { .. } => pairs_in_order(cells),
                MetricKind::Sum
                | MetricKind::Mean
                | MetricKind::Count
                | MetricKind::Accuracy { .. }
                | MetricKind::TopK { .. }
                | MetricKind::SquaredError => unreachable!("{} has no cells", kind.name()),
            },
        }
    }

    /// The cells, row by row.
    pub(super) fn cells(&self) -> Option<&[f64]> {
        match self {
            Total::Cells(cells) => Some(cells),
            Total::Numbers { .. } | Total::Counts { .. } => None,
        }
    }

    /// How class `class` was predicted, if this is a confusion matrix of `classes` classes and has
    /// this class.
    pub(super) fn class(&self, classes: usize, class: usize) -> Option<ClassCounts> {
        let cells = self.cells().filter(|_| class < classes)?;
        let row = &cells[class * classes..][..classes];
        let right = row[class];
        Some(ClassCounts {
            true_positives: right,
            false_positives: without(cells[class..].iter().step_by(classes), class),
            false_negatives: without(row.iter(), class),
        })
    }
}

/// The sum of the cells without the one at `left_out`, which is not subtracted, so that weights of
/// other magnitudes are not rounded away.
fn without<'a>(cells: impl Iterator<Item = &'a f64>, left_out: usize) -> f64 {
    let others = cells.enumerate().filter(|(place, _)| *place != left_out);
    others.map(|(_, weight)| weight).sum()
}

/// Counts the pairs of a positive and a negative example in which the positive one is in the higher
/// bin. A pair in one bin counts half. The quotient of this count and the number of all pairs is
/// the area under the ROC curve that joins the bins' borders by straight lines (T. Fawcett, "An
/// introduction to ROC analysis", Pattern Recognition Letters 27, 2006, algorithm 3). It is the
/// Mann-Whitney statistic of the binned scores (J. A. Hanley and B. J. McNeil, Radiology 143,
/// 1982). Without weights the counts are whole numbers, so there is only one rounding. A pair of
/// weighted examples counts the product of their weights.
fn pairs_in_order(cells: &[f64]) -> Metric {
    let (negatives, positives) = cells.split_at(cells.len() / 2);
    let is_whole = |cell: &f64| cell.fract() == 0.0 && *cell < MOST_WHOLE;
    match cells.iter().all(is_whole) {
        true => whole_pairs(negatives, positives),
        false => weighted_pairs(negatives, positives),
    }
}

fn weighted_pairs(negatives: &[f64], positives: &[f64]) -> Metric {
    let mut below = 0.0;
    let mut sum = 0.0;
    for (&negative, &positive) in negatives.iter().zip(positives) {
        sum += positive * (below + negative / 2.0);
        below += negative;
    }
    Metric {
        sum,
        weight: below * positives.iter().sum::<f64>(),
    }
}

fn whole_pairs(negatives: &[f64], positives: &[f64]) -> Metric {
    let mut below = 0u128;
    let mut halves = 0u128;
    for (&negative, &positive) in negatives.iter().zip(positives) {
        let negative = negative as u128;
        let positive = positive as u128;
        halves += positive * (2 * below + negative);
        below += negative;
    }
    let all = below * positives.iter().map(|&count| count as u128).sum::<u128>();
    Metric {
        sum: halves as f64 / 2.0,
        weight: all as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auc(scores: &[(f64, i64)]) -> f64 {
        let kind = MetricKind::auc(4, 0.0, 1.0).unwrap();
        let mut slot = AddedToEntry::new(kind.into());
        let mut total = Total::new(kind).unwrap();
        scores.iter().for_each(|&(score, label)| {
            slot.one_score(score, label, 0, 1.0).unwrap();
        });
        total.fold(&slot);
        total.metric(kind).mean()
    }

    #[test]
    fn an_auc_is_the_share_of_pairs_in_order() {
        assert_eq!(auc(&[(0.1, 0), (0.3, 0), (0.6, 1), (0.9, 1)]), 1.0);
        assert_eq!(auc(&[(0.9, 0), (0.1, 1)]), 0.0);
        // 0.6 and 0.7 are in one bin: of four pairs, one is wrong and one is a tie.
        assert_eq!(auc(&[(0.1, 0), (0.7, 0), (0.6, 1), (0.9, 1)]), 3.5 / 4.0);
        // Scores outside of the range, scores at its ends, and no example of one kind.
        assert_eq!(
            auc(&[
                (-5.0, 0),
                (1.0, 1),
                (f64::INFINITY, 1),
                (f64::NEG_INFINITY, 0)
            ]),
            1.0
        );
        assert!(auc(&[(0.5, 1)]).is_nan());
    }

    #[test]
    fn classes_have_precision_and_recall() {
        let kind = MetricKind::confusion(3).unwrap();
        let mut slot = AddedToEntry::new(kind.into());
        let mut total = Total::new(kind).unwrap();
        for (predicted, label) in [(0, 0), (0, 0), (0, 1), (1, 1), (1, 0)] {
            slot.one_label(predicted, label, 0, 1.0).unwrap();
        }
        total.fold(&slot);
        let first = total.class(3, 0).unwrap();
        assert_eq!(
            (first.precision(), first.recall(), first.f1()),
            (2.0 / 3.0, 2.0 / 3.0, 2.0 / 3.0)
        );
        let last = total.class(3, 2).unwrap();
        assert!(last.precision().is_nan() && last.recall().is_nan() && last.f1().is_nan());
        assert_eq!(total.class(3, 3), None);
        assert_eq!(
            total.cells().unwrap(),
            [2.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
        );
        assert_eq!(
            total.metric(kind),
            Metric {
                sum: 3.0,
                weight: 5.0
            }
        );
    }
}
