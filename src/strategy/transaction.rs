//! What the open step of a strategy has written so far, until it is committed or rolled back.

use std::mem;
use std::sync::Arc;

use super::central_storage::Strategy;
use super::commit::{CommitAction, StepParticipant};
use super::context::{require_cross_replica, step_frame};
use super::metrics::MetricTable;
use super::run::Limits;
use super::step::StepRecord;
use crate::error::{Error, Result};

/// The writes of one step. A strategy takes its steps one at a time, so it has one of these.
#[derive(Default)]
pub(super) struct Transaction {
    /// The step's number while one is open.
    open: Option<u64>,
    participants: Vec<Arc<dyn StepParticipant>>,
    deferred: Vec<Box<dyn CommitAction>>,
    /// Why the step can no longer be committed, whatever else happens in it.
    doom: Option<String>,
    /// What nested runs have measured.
    metrics: MetricTable,
}

impl Strategy {
    pub(super) fn open_transaction(&self, number: u64) {
        let mut transaction = self.inner().transaction.lock();
        transaction.open = Some(number);
        transaction.doom = None;
        transaction.metrics.clear();
    }

    /// Lets `participant` take part in the outcome of the open step. It joins once a step, before
    /// its first write.
    pub fn join_step(&self, participant: Arc<dyn StepParticipant>) -> Result<()> {
        let mut transaction = self.inner().transaction.lock();
        if transaction.open.is_none() {
            return Err(Error::Cancelled("the step has ended without this replica".into()));
        }
        transaction.participants.push(participant);
        Ok(())
    }

    /// Has `action` carried out at the commit point of the open step.
    pub fn defer(&self, action: Box<dyn CommitAction>) -> Result<()> {
        let mut transaction = self.inner().transaction.lock();
        if transaction.open.is_none() {
            return Err(Error::precondition("no step is open that the change could wait for"));
        }
        transaction.deferred.push(action);
        Ok(())
    }

    /// Whether this thread is inside of an open step of this strategy, in cross-replica context.
    pub fn is_in_step(&self) -> bool {
        step_frame(self).is_some()
    }

    /// The number of the open step of this strategy that this thread is inside of, in
    /// cross-replica context.
    pub fn open_step(&self) -> Option<u64> {
        step_frame(self).map(|step| step.number)
    }

    /// Carries out `action` at once, outside of any step: waits for its turn, prepares it, and
    /// changes central state if that succeeded.
    pub fn change(&self, what: &str, action: &mut dyn CommitAction) -> Result<()> {
        require_cross_replica(self, what)?;
        let _turn = self.take_turn(&Limits::default())?;
        action.prepare()?;
        let _changing = self.inner().central.write();
        action.commit();
        Ok(())
    }

    /// Notes that a nested run failed: if it or anything before it in the step wrote central
    /// state, the writes can no longer be told apart and the step must not be committed.
    pub(super) fn doom_after(&self, error: &Error) {
        let mut transaction = self.inner().transaction.lock();
        if !transaction.participants.is_empty() || !transaction.deferred.is_empty() {
            transaction.doom.get_or_insert_with(|| error.to_string());
        }
    }

    pub(super) fn add_nested_metrics(&self, record: &StepRecord) {
        let mut transaction = self.inner().transaction.lock();
        for desk in &record.desks {
            for (name, metric) in desk.lock().metrics.iter() {
                transaction.metrics.add(name, metric);
            }
        }
    }

    /// The commit point: carries out what the step wrote, or fails and rolls it back. `record` is
    /// the step whose metrics count, if it was a run.
    pub(super) fn commit(&self, number: u64, record: Option<&StepRecord>) -> Result<()> {
        let inner = self.inner();
        let mut deferred = mem::take(&mut inner.transaction.lock().deferred);
        let doom = inner.transaction.lock().doom.take();
        let prepared = match doom {
            Some(reason) => Err(Error::precondition(format!(
                "a run inside of a merge call failed after the step had written central state, so \
                 nothing of the step was kept; that run's error: {reason}"
            ))),
            None => deferred.iter_mut().try_for_each(|action| action.prepare()),
        };
        if let Err(error) = prepared {
            drop(deferred);
            self.roll_back(number);
            return Err(error);
        }
        let mut transaction = inner.transaction.lock();
        transaction.open = None;
        let central = inner.central.write();
        for participant in &transaction.participants {
            participant.commit(number);
        }
        for action in &mut deferred {
            action.commit();
        }
        drop(central);
        // The vectors go back with their capacity: a steady step allocates nothing.
        let mut participants = mem::take(&mut transaction.participants);
        if let Some(record) = record {
            let mut metrics = inner.metrics.lock();
            metrics.clear();
            for (name, metric) in transaction.metrics.iter() {
                metrics.add(name, metric);
            }
            for desk in &record.desks {
                for (name, metric) in desk.lock().metrics.iter() {
                    metrics.add(name, metric);
                }
            }
        }
        drop(transaction);
        // Dropping a participant may release the last reference to a variable, whose memory comes
        // back to this strategy: not under the lock.
        participants.clear();
        deferred.clear();
        let mut transaction = inner.transaction.lock();
        transaction.participants = participants;
        transaction.deferred = deferred;
        Ok(())
    }

    /// Makes all as it was before step `number`; returns who took part.
    pub(super) fn roll_back(&self, number: u64) -> Vec<Arc<dyn StepParticipant>> {
        let inner = self.inner();
        let (participants, deferred) = {
            let mut transaction = inner.transaction.lock();
            transaction.open = None;
            transaction.doom = None;
            (mem::take(&mut transaction.participants), mem::take(&mut transaction.deferred))
        };
        let central = inner.central.write();
        for participant in &participants {
            participant.roll_back(number);
        }
        drop(central);
        drop(deferred);
        participants
    }
}
