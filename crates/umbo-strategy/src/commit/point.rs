//! The commit point of a strategy's steps, and what leads to it: joining, deferring, poisoning.

use std::mem;
use std::sync::Arc;

use super::transaction::Transaction;
use crate::commit::{CommitAction, StepParticipant};
use crate::context::metrics::EpochMetrics;
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
        transaction.epochs.clear();
        transaction.of_nested.clear();
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
            transaction.participants.push(Arc::clone(participant) as _);
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
        transaction.deferred.push(action);
        Ok(())
    }

    /// Adds what step `number`, if it is the open one, measures to what `epoch` has measured, once
    /// it is committed. Other epochs that it is one of have it, too.
    pub fn count_for(&self, number: u64, epoch: &Arc<EpochMetrics>) {
        let mut transaction = self.inner().steps.transaction.lock();
        if transaction.open == Some(number) {
            transaction.epochs.push(Arc::clone(epoch));
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
        let has_changed = !transaction.participants.is_empty() || !transaction.deferred.is_empty();
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
        let replicas = record.slots.iter().map(|slot| {
            let local = slot.local();
            local
                .metrics
                .iter()
                .map(|(name, metric)| (name.to_owned(), metric))
                .collect()
        });
        self.inner()
            .steps
            .transaction
            .lock()
            .of_nested
            .push(replicas.collect());
    }

    /// The commit point: carries out what the step wrote, or fails and rolls it back. `record` is
    /// the step whose metrics count, if it was a run.
    pub(crate) fn commit(&self, number: u64, record: Option<&StepRecord>) -> Result<()> {
        let _update = observe::span(Phase::Update).named("commit");
        let steps = &self.inner().steps;
        let (mut deferred, poison) = {
            let mut transaction = steps.transaction.lock();
            let has_measured = || record.is_some_and(StepRecord::has_measured);
            if self.ranks().is_alone() && transaction.has_nothing() && !has_measured() {
                transaction.open = None;
                trace::note(self.id(), number, Transition::Commit);
                return Ok(());
            }
            (
                mem::take(&mut transaction.deferred),
                transaction.poison.take(),
            )
        };
        let prepared = match poison {
            Some(reason) => Err(self.poisoned(&reason)),
            None => deferred.iter_mut().try_for_each(|action| action.prepare()),
        };
        let gathered = match self.agree_on_step(number, prepared, record) {
            Ok(gathered) => gathered,
            Err(error) => {
                drop(deferred);
                self.roll_back(number);
                return Err(error);
            }
        };
        let mut transaction = steps.transaction.lock();
        transaction.open = None;
        trace::note(self.id(), number, Transition::Commit);
        let failure = self.change_central(number, &transaction.participants, &mut deferred);
        // The vectors go back with their capacity: a steady step allocates nothing.
        let mut participants = mem::take(&mut transaction.participants);
        let has_measured = match (&gathered, record) {
            (Some(gathered), _) => self.take_metrics(gathered),
            (None, Some(record)) => self.own_metrics(&transaction, record),
            (None, None) => false,
        };
        if has_measured && failure.is_none() {
            let metrics = steps.metrics.lock();
            transaction
                .epochs
                .iter()
                .for_each(|epoch| epoch.add(&metrics));
        }
        transaction.epochs.clear();
        drop(transaction);
        participants
            .iter()
            .for_each(|participant| participant.release_resources());
        // Dropping a participant may release the last reference to a variable, whose memory comes
        // back to this strategy: not under the lock.
        participants.clear();
        deferred.clear();
        let mut transaction = steps.transaction.lock();
        transaction.participants = participants;
        transaction.deferred = deferred;
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
    fn change_central(
        &self,
        number: u64,
        participants: &[Arc<dyn StepParticipant>],
        deferred: &mut [Box<dyn CommitAction>],
    ) -> Option<Error> {
        let _central = self.inner().steps.central.write();
        for participant in participants {
            participant.commit(number);
        }
        let mut failure = None;
        for action in deferred {
            action.commit();
            failure = failure.or_else(|| action.failure());
        }
        participants
            .iter()
            .for_each(|participant| participant.finish());
        failure
    }

    /// Takes the metrics of the step from its replicas, and says whether there are any: a run that
    /// measured nothing leaves what the one before it had.
    fn own_metrics(&self, transaction: &Transaction, record: &StepRecord) -> bool {
        let has_measured = !transaction.of_nested.is_empty() || record.has_measured();
        if has_measured {
            let mut metrics = self.inner().steps.metrics.lock();
            metrics.clear();
            let of_nested = transaction.of_nested.iter().flatten().flatten();
            of_nested.for_each(|(name, metric)| metrics.add(name, *metric));
            for slot in record.slots.iter().filter(|slot| slot.is_used()) {
                slot.local()
                    .metrics
                    .iter()
                    .for_each(|(name, metric)| metrics.add(name, metric));
            }
        }
        has_measured
    }

    /// Makes all as it was before step `number`; returns who took part.
    pub(crate) fn roll_back(&self, number: u64) -> Vec<Arc<dyn StepParticipant>> {
        trace::note(self.id(), number, Transition::RollBack);
        let inner = self.inner();
        let (participants, deferred) = {
            let mut transaction = inner.steps.transaction.lock();
            transaction.open = None;
            transaction.poison = None;
            transaction.epochs.clear();
            (
                mem::take(&mut transaction.participants),
                mem::take(&mut transaction.deferred),
            )
        };
        let central = inner.steps.central.write();
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
