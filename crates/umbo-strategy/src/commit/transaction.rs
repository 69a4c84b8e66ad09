//! The transaction of a strategy's open step: its writes, until they are committed or rolled back.

use std::sync::Arc;

use crate::commit::{CommitAction, StepParticipant};
use crate::context::metrics::EpochMetrics;
use crate::ranks::steps::ReplicaMetricList;

/// The writes of one step. A strategy takes its steps one at a time, so it has one of these.
#[derive(Default)]
pub(crate) struct Transaction {
    /// The step's number while one is open.
    pub open: Option<u64>,
    pub participants: Vec<Arc<dyn StepParticipant>>,
    pub deferred: Vec<Box<dyn CommitAction>>,
    /// The reason why the step can no longer be committed.
    pub poison: Option<String>,
    /// The epochs that the step is one of.
    pub epochs: Vec<Arc<EpochMetrics>>,
    /// The metrics of each nested run, in order, for each replica of this rank.
    pub of_nested: Vec<Vec<ReplicaMetricList>>,
}

impl Transaction {
    /// Whether committing it changes nothing.
    pub fn has_nothing(&self) -> bool {
        self.participants.is_empty()
            && self.deferred.is_empty()
            && self.poison.is_none()
            && self.epochs.is_empty()
            && self.of_nested.is_empty()
    }
}
