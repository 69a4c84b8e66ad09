//! Metrics: sums with weights that replicas add to and that merge without loss.

use indexmap::IndexMap;

use parking_lot::Mutex;
use umbo_base::error::Result;

/// A sum and the weight it was taken over; the quotient is the mean. Metrics of several replicas
/// or steps are merged by adding both.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Metric {
    /// The weighted sum.
    pub sum: f64,
    /// The sum of the weights, usually a number of examples.
    pub weight: f64,
}

impl Metric {
    /// The sum over the weight; NaN if the weight is 0, whatever the sum.
    pub fn mean(&self) -> f64 {
        share(self.sum, self.weight)
    }
}

/// A part of a whole; NaN if the whole is 0.
pub fn share(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { f64::NAN } else { part / whole }
}

/// A replica's additions to one metric in a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Added {
    /// The number of the metrics to which it belongs; 0 for a metric of the step itself.
    pub owner: u64,
    /// Its name.
    pub name: String,
    /// The additions.
    pub additions: What,
}

/// An addition to a metric, in the form in which additions are merged.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// An addition to a metric whose mean counts.
    Mean(Metric),
    /// An addition to a metric whose sum counts.
    Sum(f64),
    /// An addition to a metric that counts examples in cells: the cell number of each example.
    Cells {
        /// The numbers, in any order.
        cells: Vec<u32>,
        /// Numbers that differ by so much are of examples that are nearly the same.
        near: u32,
    },
}

/// Metrics that note for a trial what callbacks add to them.
pub trait Additions: Send + Sync {
    /// The number of these metrics, 1 or more.
    fn number(&self) -> u64;

    /// The additions of `replica` to each of them in step `step`; nothing if it has added nothing.
    fn added(&self, step: u64, replica: usize) -> Result<Vec<Added>>;
}

/// Metrics by name, in the order in which they were first added to. A name that was used in one
/// step keeps its place until the end of the next, so that a steady step allocates nothing and
/// names that are not used any more are forgotten.
#[derive(Debug, Default)]
pub(crate) struct MetricTable {
    entries: IndexMap<String, Option<Metric>>,
}

impl MetricTable {
    /// Takes all numbers out, and the names that have none.
    pub fn clear(&mut self) {
        if self.entries.values().any(Option::is_none) {
            self.entries.retain(|_, metric| metric.is_some());
        }
        self.entries.values_mut().for_each(|metric| *metric = None);
    }

    pub fn add(&mut self, name: &str, metric: Metric) {
        let total = match self.entries.get_mut(name) {
            Some(total) => total,
            None => self.entries.entry(name.to_owned()).or_default(),
        };
        let total = total.get_or_insert_default();
        total.sum += metric.sum;
        total.weight += metric.weight;
    }

    pub fn get(&self, name: &str) -> Option<Metric> {
        self.entries.get(name).copied().flatten()
    }

    /// Whether there are names, with or without numbers.
    pub fn has_names(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Whether there are no numbers.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, Metric)> {
        self.entries
            .iter()
            .filter_map(|(name, metric)| Some((name.as_str(), (*metric)?)))
    }
}

/// The metrics of an epoch, over its committed steps.
#[derive(Debug, Default)]
pub struct EpochMetrics(Mutex<MetricTable>);

impl EpochMetrics {
    /// Adds what a step has measured. Allocates nothing for names that it knows.
    pub(crate) fn add(&self, step: &MetricTable) {
        let mut total = self.0.lock();
        step.iter()
            .for_each(|(name, metric)| total.add(name, metric));
    }

    /// Takes all out, and returns the metric of this name. The next steps allocate nothing for
    /// names that it knows.
    pub fn take_metric(&self, name: &str) -> Option<Metric> {
        let mut total = self.0.lock();
        let metric = total.get(name);
        total.clear();
        metric
    }

    pub(crate) fn take(&self) -> MetricTable {
        std::mem::take(&mut self.0.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_weights_add_up_and_clearing_forgets_them() {
        let mut table = MetricTable::default();
        table.add(
            "loss",
            Metric {
                sum: 3.0,
                weight: 2.0,
            },
        );
        table.add(
            "loss",
            Metric {
                sum: 1.0,
                weight: 2.0,
            },
        );
        assert_eq!(table.get("loss").map(|metric| metric.mean()), Some(1.0));
        assert_eq!(table.get("accuracy"), None);
        for sum in [1.0, -1.0, 0.0, f64::INFINITY] {
            assert!(Metric { sum, weight: 0.0 }.mean().is_nan());
        }
        table.clear();
        assert_eq!(table.get("loss"), None);
        assert_eq!(table.iter().count(), 0);
    }
    #[test]
    fn names_that_are_not_used_any_more_are_forgotten() {
        let mut table = MetricTable::default();
        let one = Metric {
            sum: 1.0,
            weight: 1.0,
        };
        for step in 0..200_000 {
            table.clear();
            table.add("loss", one);
            table.add(&format!("step {step}"), one);
            assert!(table.entries.len() <= 3);
        }
        assert!(
            table
                .iter()
                .map(|(name, _)| name)
                .eq(["loss", "step 199999"])
        );
    }
}
