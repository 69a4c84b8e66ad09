//! The outcome of a step: the judgement of each rank, its vote, and the commit or the rollback.

use super::moves::{Cost, Moves};
use super::{Event, Model};
use crate::faults::Fault;
use crate::state::{Limit, Place, Rank};

impl Moves<'_> {
    pub fn of_outcome(&mut self) {
        let model = self.model;
        match self.rank().place {
            Place::Finished => self.judge(),
            Place::Agreed => self.commit(),
            Place::Disagreed => self.roll_back_after_votes(),
            Place::Failing => {
                self.say_with(Event::RollBack, Cost::Free, Place::FailSaid, |rank| {
                    model.roll_back(rank);
                });
            }
            // The number of an abandoned step is taken back once its coordinator leaves.
            Place::Abandoned => {
                self.say_with(Event::RollBack, Cost::Free, Place::AbandonedSaid, |rank| {
                    rank.discard(model.has(Fault::AbandonedStepIsNotRolledBack));
                });
            }
            _ => {}
        }
    }

    /// All callbacks have returned in time.
    fn judge(&mut self) {
        let rank = self.rank();
        let is_seen = rank.has_failed() && !self.has(Fault::JudgeOverlooksFailures);
        if is_seen || rank.limit != Limit::None {
            self.go(Event::JudgeFailed, |rank| rank.place = Place::Failing);
        } else if rank.poisoned {
            self.say(Event::Judge, Place::VoteRefused);
        } else {
            self.say(Event::Judge, Place::VoteSaid);
            self.prepare_fails();
        }
    }

    /// The rank finds that it could not commit.
    fn prepare_fails(&mut self) {
        let is_dropped = self.has(Fault::FailedPreparationIsDropped);
        let place = if is_dropped {
            Place::VoteSaid
        } else {
            Place::VoteRefused
        };
        self.say_with(Event::PrepareFails, Cost::Failure, place, |rank| {
            rank.deferred &= !is_dropped;
        });
    }

    fn commit(&mut self) {
        let model = self.model;
        self.go_checked(Event::Commit, Cost::Free, |rank| {
            let broken = model.broken_by_commit(rank);
            let before = *rank;
            rank.place = Place::Committed;
            if !model.has(Fault::CommitWritesNothing) {
                rank.applied |= rank.held();
            }
            rank.close_transaction();
            if model.has(Fault::CommitLeavesTheWrites) {
                rank.staged = before.staged;
                rank.deferred = before.deferred;
            }
            broken
        });
    }

    fn roll_back_after_votes(&mut self) {
        let model = self.model;
        self.go(Event::RollBack, |rank| {
            if model.has(Fault::CommitAgainstTheVotes) && !rank.poisoned {
                rank.place = Place::Committed;
                rank.applied |= rank.held();
                rank.ended = false;
                rank.close_transaction();
                return;
            }
            rank.place = Place::Failed;
            model.roll_back(rank);
        });
    }
}

impl Model {
    fn roll_back(&self, rank: &mut Rank) {
        rank.discard(self.has(Fault::RollbackLeavesTheWrites));
        if !self.has(Fault::RollbackLeavesTheStep) {
            rank.uncount_step();
        }
    }
}

impl Rank {
    /// Whether a callback or a merge call of the step has failed.
    pub fn has_failed(&self) -> bool {
        self.verdict || self.replicas.iter().any(|it| it.failed)
    }

    /// The step does not count. A fault may have left it out of the count before.
    pub fn uncount_step(&mut self) {
        self.steps = self.steps.saturating_sub(1);
    }

    /// Drops the writes of the transaction, or, by a fault, closes it with them still in it.
    fn discard(&mut self, leaves_writes: bool) {
        if leaves_writes {
            self.open = false;
        } else {
            self.close_transaction();
        }
    }

    fn close_transaction(&mut self) {
        self.open = false;
        self.staged = 0;
        self.nested_staged = 0;
        self.poisoned = false;
        self.deferred = false;
        self.stale = false;
    }
}
