//! Merge calls: the coordinator runs the merge function once all replicas have arrived, and answers
//! them. The function may have a nested run, on the threads of the replicas that wait.

use super::moves::{Cost, Moves};
use super::properties::EARLY_MERGE;
use super::{Event, Model};
use crate::faults::Fault;
use crate::state::{Limit, Place, Rank, Stage};

impl Moves<'_> {
    pub fn of_nested_run(&mut self) {
        match self.rank().place {
            Place::NestedBegun => self.go(Event::NestedBegin, |rank| {
                rank.place = Place::NestedRunning;
                for replica in &mut rank.replicas {
                    if replica.stage == Stage::Waiting {
                        replica.stage = Stage::NestedPosted;
                    }
                }
            }),
            Place::NestedRunning => self.watch_nested(),
            Place::NestedAbandoned => self.leave_nested(),
            Place::NestedOk => {
                self.merge_succeeds(Event::MergeReturns);
                self.merge_fails();
            }
            Place::NestedFailed => {
                self.merge_succeeds(Event::MergeSwallows);
                self.stop_replicas(Event::MergeReturns, true);
            }
            _ => {}
        }
    }

    /// Some replicas wait in a merge call, and none computes.
    pub fn serve(&mut self) {
        let replicas = &self.rank().replicas[..self.model.replicas];
        let have_all_arrived = replicas.iter().all(|it| it.stage == Stage::Waiting);
        if replicas.iter().any(|it| it.failed || it.stop) {
            self.stop_replicas(Event::StopWaiting, false);
        } else if !have_all_arrived && !self.has(Fault::MergeWithoutAllReplicas) {
            self.stop_replicas(Event::DisagreementFound, true);
        } else if self.model.nests {
            self.say(Event::NestedCall, Place::NestedSaid);
            // The limit is reached in the merge function, before the nested run.
            self.go_at(Event::NestedTooLate, Cost::Limit, |rank| {
                rank.place = Place::NestedFailed;
                rank.limit = Limit::Deadline;
                rank.poisoned = true;
            });
        } else {
            let model = self.model;
            self.go_checked(Event::Serve, Cost::Free, |rank| {
                rank.deferred = true;
                model.reply(rank, false);
                (!have_all_arrived).then_some(EARLY_MERGE)
            });
            self.merge_fails();
        }
    }

    fn merge_succeeds(&mut self, event: Event) {
        let model = self.model;
        self.go(event, |rank| {
            rank.deferred = true;
            model.reply(rank, false);
        });
    }

    fn merge_fails(&mut self) {
        let model = self.model;
        let is_noted = !self.has(Fault::MergeFailureIsForgotten);
        self.go_at(Event::MergeFails, Cost::Failure, |rank| {
            rank.verdict |= is_noted;
            model.reply(rank, is_noted);
        });
    }

    /// The replicas are told to stop, by a verdict of this merge call or by what was known before.
    fn stop_replicas(&mut self, event: Event, by_verdict: bool) {
        let model = self.model;
        self.go(event, |rank| {
            rank.verdict |= by_verdict;
            model.reply(rank, true);
        });
    }

    /// The coordinator waits for the callbacks of the nested run.
    fn watch_nested(&mut self) {
        let rank = self.rank();
        let model = self.model;
        if !rank.replicas.iter().any(|it| it.stage.is_nested()) {
            self.go(Event::NestedEnd, |rank| {
                let has_failed = rank.nested_failed || rank.limit != Limit::None;
                rank.place = if has_failed {
                    Place::NestedFailed
                } else {
                    Place::NestedOk
                };
                rank.poisoned |= has_failed;
                rank.poisoned &= !model.has(Fault::NestedFailureDoesNotPoison);
            });
        } else if rank.limit != Limit::None {
            self.go(Event::NestedAbandon, |rank| {
                rank.place = Place::NestedAbandoned;
                rank.nested_late = true;
            });
        }
    }

    fn leave_nested(&mut self) {
        let stays = self.has(Fault::NestedCoordinatorStays);
        self.go(Event::NestedLeave, |rank| {
            rank.place = Place::NestedFailed;
            rank.poisoned = true;
            if !stays {
                rank.drain_nested();
            }
        });
    }
}

impl Model {
    /// The coordinator answers all replicas that wait, and tells them to stop or not.
    fn reply(&self, rank: &mut Rank, stop: bool) {
        rank.place = Place::Running;
        let missed = usize::from(self.has(Fault::ReplyMissesOneReplica));
        for replica in &mut rank.replicas[missed..] {
            if replica.stage.is_waiting() {
                replica.stage = replica.stage.released();
                replica.stop |= stop;
            }
        }
    }
}
