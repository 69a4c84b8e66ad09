//! The commit point of a strategy's steps, and what leads to it: joining, deferring, poisoning.

#![expect(
    unsafe_code,
    reason = "who has the step lock uses the lists of writes again"
)]

use std::mem;
use std::sync::Arc;

use super::transaction::Writes;
use crate::commit::{CommitAction, StepParticipant};
use crate::context::metrics::{EpochMetrics, Metric, MetricTable};
use crate::context::{require_cross_replica, step_place};
use crate::setup::central_storage::Strategy;
use crate::step::StepRecord;
use crate::step::limits::Limits;
use crate::step::trace::{self, Transition};
use umbo_base::error::{Error, Result};
use umbo_base::observe::{self, Phase};

impl Strategy {
    pub(crate) fn open_transaction(&self, number: u64) {
        let mut transaction = self.inner().steps.transaction.lock();
        transaction.open = Some(number);
        transaction.poison = None;
        transaction.writes.epochs.clear();
        transaction.writes.of_nested.clear();
    }

    /// Makes `participant` take part in the outcome of step `number`, unless it does already. To be
    /// called before it writes anything in the step; then its writes are committed or rolled back
    /// with the step. Fails with CANCELLED if the step's outcome is known.
    pub fn join_step<P>(&self, number: u64, participant: &Arc<P>) -> Result<()>
    where
        P: StepParticipant + 'static,
    {
        // Under one lock with the outcome: nobody sees a participant that the outcome will miss.
        let mut transaction = self.inner().steps.transaction.lock();
        if transaction.open != Some(number) {
            return Err(Error::Cancelled(
                "the step has ended without this replica".into(),
            ));
        }
        if participant.join(number) {
            transaction
                .writes
                .participants
                .push(Arc::clone(participant) as _);
        }
        Ok(())
    }

    /// Defers `action` to the commit point of the open step.
    pub fn defer(&self, action: Box<dyn CommitAction>) -> Result<()> {
        let mut transaction = self.inner().steps.transaction.lock();
        if transaction.open.is_none() {
            return Err(Error::precondition(
                "no step is open that the change could wait for",
            ));
        }
        transaction.writes.deferred.push(action);
        Ok(())
    }

    /// Adds what step `number`, if it is the open one, measures to what `epoch` has measured, once
    /// it is committed. Other epochs that it is one of have it, too.
    pub fn count_for(&self, number: u64, epoch: &Arc<EpochMetrics>) {
        let mut transaction = self.inner().steps.transaction.lock();
        if transaction.open == Some(number) {
            transaction.writes.epochs.push(Arc::clone(epoch));
        }
    }

    /// The number of the open step of this strategy that this thread is inside of, in
    /// cross-replica context.
    pub fn current_step(&self) -> Option<u64> {
        step_place(self.id()).map(|step| step.number.id)
    }

    /// Carries out `action` at once, outside of any step: waits for its turn, prepares it, and
    /// changes central state if that succeeded.
    pub fn change(&self, action: &mut dyn CommitAction) -> Result<()> {
        require_cross_replica(self.id())?;
        let lock = self.enter(&Limits::default());
        let _update = observe::span(Phase::Update);
        self.begin_series(0);
        let (_lock, prepared) = match lock {
            Ok(lock) => (Some(lock), action.prepare()),
            Err(error) => (None, Err(error)),
        };
        self.agree(prepared)?;
        let _changing = self.inner().steps.central.write();
        action.commit();
        action.failure().map_or(Ok(()), Err)
    }

    /// Notes that a run or an update inside of the step failed: if it or anything before it in the
    /// step wrote central state, the writes cannot be separated, and the step must not be
    /// committed.
    pub(crate) fn poison_after(&self, error: &Error) {
        let mut transaction = self.inner().steps.transaction.lock();
        let Writes {
            participants,
            deferred,
            ..
        } = &transaction.writes;
        let has_changed = !participants.is_empty() || !deferred.is_empty();
        // The result of the other ranks is not known.
        if has_changed || !self.ranks().is_alone() {
            transaction.poison.get_or_insert_with(|| error.to_string());
        }
    }

    pub(crate) fn add_nested_metrics(&self, record: &StepRecord) {
        if self.ranks().is_alone() && !record.has_measured() {
            return;
        }
        // They are sent to all ranks unsummed, so that all ranks add them up in the same order.
        let named = |(name, metric): (&str, Metric)| (name.to_owned(), metric);
        let replicas = record.metrics().map(|metrics| {
            let metrics = metrics.into_iter().flat_map(MetricTable::iter);
            metrics.map(named).collect()
        });
        self.inner()
            .steps
            .transaction
            .lock()
            .writes
            .of_nested
            .push(replicas.collect());
    }

    /// The commit point: carries out what the step wrote, or fails and rolls it back. `record` is
    /// the step whose metrics count, if it was a run.
    pub(crate) fn commit(&self, number: u64, record: Option<&StepRecord>) -> Result<()> {
        let _update = observe::span(Phase::Update).named("commit");
        let steps = &self.inner().steps;
        let has_measured = record.is_some_and(StepRecord::has_measured);
        let (mut writes, poison) = {
            let mut transaction = steps.transaction.lock();
            // All callbacks have returned: nobody takes part any more.
            transaction.open = None;
            if self.ranks().is_alone() && transaction.has_nothing() && !has_measured {
                trace::note(self.id(), number, Transition::Commit);
                return Ok(());
            }
            // SAFETY: this thread has the step lock.
            let spare = mem::take(unsafe { steps.spare_writes.get() });
            let writes = mem::replace(&mut transaction.writes, spare);
            (writes, transaction.poison.take())
        };
        let prepared = match poison {
            Some(reason) => Err(self.poisoned(&reason)),
            None => writes
                .deferred
                .iter_mut()
                .try_for_each(|action| action.prepare()),
        };
        let gathered = match self.agree_on_step(number, prepared, record, &writes.of_nested) {
            Ok(gathered) => gathered,
            Err(error) => {
                writes.deferred.clear();
                self.undo(number, writes);
                return Err(error);
            }
        };
        trace::note(self.id(), number, Transition::Commit);
        let failure = self.change_central(number, &mut writes);
        match gathered {
            Some(gathered) => {
                let has_measured = self.take_metrics(&gathered);
                if has_measured && failure.is_none() {
                    add_to_epochs(&writes, &steps.metrics.lock());
                }
            }
            None if let Some(record) = record
                && (has_measured || !writes.of_nested.is_empty()) =>
            {
                let mut metrics = steps.metrics.lock();
                replace_metrics(&mut metrics, &writes, record);
                if failure.is_none() {
                    add_to_epochs(&writes, &metrics);
                }
            }
            None => {}
        }
        writes
            .participants
            .iter()
            .for_each(|participant| participant.release_resources());
        // Dropping a participant may release the last reference to a variable, whose memory comes
        // back to this strategy: not under the lock.
        writes.clear();
        // SAFETY: this thread has the step lock.
        unsafe { *steps.spare_writes.get() = writes };
        failure.map_or(Ok(()), Err)
    }

    /// The error of a step of which a part has failed, for this reason.
    fn poisoned(&self, reason: &str) -> Error {
        Error::precondition(if self.ranks().is_alone() {
            format!(
                "a part of the step failed after the step had written central state, so nothing \
                 of the step was kept; that part's error: {reason}"
            )
        } else {
            format!(
                "a part of the step failed on this rank, so nothing of the step was kept on any; \
                 that part's error: {reason}"
            )
        })
    }

    /// Makes central state of what step `number` has written and deferred, which cannot fail any
    /// more, except for a GPU that breaks.
    fn change_central(&self, number: u64, writes: &mut Writes) -> Option<Error> {
        let _central = self.inner().steps.central.write();
        for participant in &writes.participants {
            participant.commit(number);
        }
        let mut failure = None;
        for action in &mut writes.deferred {
            action.commit();
            failure = failure.or_else(|| action.failure());
        }
        writes
            .participants
            .iter()
            .for_each(|participant| participant.finish());
        failure
    }

    /// Makes all as it was before step `number`; returns who took part.
    pub(crate) fn roll_back(&self, number: u64) -> Vec<Arc<dyn StepParticipant>> {
        let writes = {
            let mut transaction = self.inner().steps.transaction.lock();
            transaction.open = None;
            transaction.poison = None;
            mem::take(&mut transaction.writes)
        };
        self.undo(number, writes)
    }

    /// Makes all as it was before these writes of step `number`; returns who took part.
    fn undo(&self, number: u64, writes: Writes) -> Vec<Arc<dyn StepParticipant>> {
        trace::note(self.id(), number, Transition::RollBack);
        let Writes {
            participants,
            deferred,
            ..
        } = writes;
        let central = self.inner().steps.central.write();
        for participant in &participants {
            participant.roll_back(number);
        }
        drop(central);
        drop(deferred);
        participants
            .iter()
            .for_each(|participant| participant.release_resources());
        participants
    }
}

/// Takes the metrics of the step that has made `writes` from its replicas. They replace those of
/// the one before it, which stay where a run has measured nothing.
fn replace_metrics(metrics: &mut MetricTable, writes: &Writes, record: &StepRecord) {
    metrics.clear();
    let of_nested = writes.of_nested.iter().flatten().flatten();
    of_nested.for_each(|(name, metric)| metrics.add(name, *metric));
    let of_replicas = record.metrics().flatten();
    of_replicas
        .flat_map(MetricTable::iter)
        .for_each(|(name, metric)| metrics.add(name, metric));
}

/// Adds what a step has measured to the epochs that it is one of.
fn add_to_epochs(writes: &Writes, metrics: &MetricTable) {
    writes.epochs.iter().for_each(|epoch| epoch.add(metrics));
}
