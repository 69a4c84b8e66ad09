//! The transaction of a strategy's open step: its writes, until they are committed or rolled back.

use std::sync::Arc;

use crate::commit::{CommitAction, StepParticipant};
use crate::context::metrics::EpochMetrics;
use crate::ranks::steps::ReplicaMetricList;

/// The open step of a strategy, which takes its steps one at a time, and so has one of these.
#[derive(Default)]
pub(crate) struct Transaction {
    /// The step's number while one is open.
    pub open: Option<u64>,
    /// The reason why the step can no longer be committed.
    pub poison: Option<String>,
    pub writes: Writes,
}

/// The writes of one step.
#[derive(Default)]
pub(crate) struct Writes {
    pub participants: Vec<Arc<dyn StepParticipant>>,
    pub deferred: Vec<Box<dyn CommitAction>>,
    /// The epochs that the step is one of.
    pub epochs: Vec<Arc<EpochMetrics>>,
    /// The metrics of each nested run, in order, for each replica of this rank.
    pub of_nested: Vec<Vec<ReplicaMetricList>>,
}

impl Transaction {
    /// Whether committing it changes nothing.
    pub fn has_nothing(&self) -> bool {
        self.poison.is_none() && self.writes.are_none()
    }
}

impl Writes {
    /// Whether there are none.
    pub fn are_none(&self) -> bool {
        self.participants.is_empty()
            && self.deferred.is_empty()
            && self.epochs.is_empty()
            && self.of_nested.is_empty()
    }

    /// Drops all, and keeps the memory of the lists.
    pub fn clear(&mut self) {
        self.participants.clear();
        self.deferred.clear();
        self.epochs.clear();
        self.of_nested.clear();
    }
}
