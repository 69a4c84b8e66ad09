//! What the open step of a strategy has written so far, until it is committed or rolled back.

use std::sync::Arc;

use super::commit::{CommitAction, StepParticipant};
use super::metrics::{EpochMetrics, MetricTable};
use super::ranks::steps::OfReplica;
use crate::tensor::Tensor;
use crate::values::variable::Variable;

/// The writes of one step. A strategy takes its steps one at a time, so it has one of these.
#[derive(Default)]
pub(super) struct Transaction {
    /// The step's number while one is open.
    pub open: Option<u64>,
    pub participants: Vec<Arc<dyn StepParticipant>>,
    pub deferred: Vec<Box<dyn CommitAction>>,
    /// Why the step can no longer be committed, whatever else happens in it.
    pub poison: Option<String>,
    /// The epoch that the step is one of.
    pub epoch: Option<Arc<EpochMetrics>>,
    /// What nested runs have measured.
    pub metrics: MetricTable,
    /// With several ranks, what each nested run has measured, in turn: each replica of this rank.
    pub of_nested: Vec<Vec<OfReplica>>,
    /// Where the updates that are going on began, the innermost last.
    pub savepoints: Vec<Savepoint>,
}

/// What the step had written when an update inside of it began, so that the update's own writes can
/// be undone alone.
pub(super) struct Savepoint {
    /// How many participants and deferred changes there were.
    pub participants: usize,
    pub deferred: usize,
    /// Variables that the step first wrote after this point.
    pub fresh: Vec<Variable>,
    /// Variables that it had written before and has written again, with the value at this point.
    pub saved: Vec<(Variable, Tensor)>,
    /// Replicas have run after this point; what they contributed again cannot be separated.
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
