//! The transaction of a strategy's open step: its writes, until they are committed or rolled back.

use std::sync::Arc;

use super::commit::{CommitAction, StepParticipant};
use super::metrics::{EpochMetrics, MetricTable};
use super::ranks::steps::ReplicaMetricList;
use crate::tensor::Tensor;
use crate::values::variable::Variable;

/// The writes of one step. A strategy takes its steps one at a time, so it has one of these.
#[derive(Default)]
pub(super) struct Transaction {
    /// The step's number while one is open.
    pub open: Option<u64>,
    pub participants: Vec<Arc<dyn StepParticipant>>,
    pub deferred: Vec<Box<dyn CommitAction>>,
    /// The reason why the step can no longer be committed.
    pub poison: Option<String>,
    /// The epoch that the step is one of.
    pub epoch: Option<Arc<EpochMetrics>>,
    /// The metrics of nested runs.
    pub metrics: MetricTable,
    /// With several ranks, the metrics of each nested run, in order, for each replica of this rank.
    pub of_nested: Vec<Vec<ReplicaMetricList>>,
    /// The savepoints of the updates in progress, the innermost last.
    pub savepoints: Vec<Savepoint>,
}

/// A savepoint: what the step had written when an update inside it began, so that the update's writes can be
/// undone alone.
pub(super) struct Savepoint {
    /// How many participants and deferred changes there were.
    pub participants: usize,
    pub deferred: usize,
    /// Variables that the step first wrote after this point.
    pub fresh: Vec<Variable>,
    /// Variables that it had written before and has written again, with the value at this point.
    pub saved: Vec<(Variable, Tensor)>,
    /// Replicas have run after this point, and their contributions cannot be undone alone.
    pub has_run: bool,
}

impl Savepoint {
    /// Whether the variable's value at this point is known.
    pub fn knows(&self, variable: &Variable) -> bool {
        self.fresh
            .iter()
            .chain(self.saved.iter().map(|(saved, _)| saved))
            .any(|known| known.is_same(variable))
    }
}

impl Transaction {
    /// Whether committing it changes nothing.
    pub fn has_nothing(&self) -> bool {
        self.participants.is_empty()
            && self.deferred.is_empty()
            && self.poison.is_none()
            && self.epoch.is_none()
            && self.metrics.is_empty()
    }

    /// A savepoint of the present state.
    pub fn savepoint(&self) -> Savepoint {
        Savepoint {
            participants: self.participants.len(),
            deferred: self.deferred.len(),
            fresh: Vec::new(),
            saved: Vec::new(),
            has_run: false,
        }
    }

    /// The innermost savepoint is not needed any more; what it knows passes to the one around it.
    pub fn release_savepoint(&mut self) {
        let Some(inner) = self.savepoints.pop() else { return };
        if let Some(outer) = self.savepoints.last_mut() {
            outer.has_run |= inner.has_run;
            for variable in inner.fresh {
                if !outer.knows(&variable) {
                    outer.fresh.push(variable);
                }
            }
            for (variable, value) in inner.saved {
                // Not written between the two points, so that the value is that of both.
                if !outer.knows(&variable) {
                    outer.saved.push((variable, value));
                }
            }
        }
    }
}
