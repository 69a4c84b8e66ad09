//! The callback of a replica, in the step and in a nested run, and how the last one to leave an
//! abandoned step drains it.

use super::moves::{Cost, Moves};
use super::properties::DRAIN_ORDER;
use super::{Event, Property};
use crate::faults::Fault;
use crate::state::{Limit, Place, Rank, Stage};

impl Moves<'_> {
    pub fn of_replica(&mut self, replica: usize) {
        let rank = self.rank();
        match rank.replicas[replica].stage {
            Stage::Absent => {}
            Stage::Posted if rank.late => self.leave(Event::Skip, replica),
            Stage::Posted => self.stage(Event::Start, replica, Stage::Begun),
            Stage::Begun => {
                self.write(replica);
                self.fail(replica);
                self.hang(replica);
            }
            // A replica that waited for the run to end continues, and then writes.
            Stage::Hung if rank.late => self.stage(Event::Start, replica, Stage::Begun),
            Stage::Hung => {}
            Stage::Written if self.model.merges && !rank.late => {
                self.stage(Event::Arrive, replica, Stage::Waiting);
                // The first replica always makes the call: without any, the step would be valid and
                // have no update.
                if replica > 0 {
                    self.go_checked(Event::Disagree, Cost::Failure, |rank| {
                        rank.replicas[replica].stage = Stage::Absent;
                        rank.drain()
                    });
                }
                self.fail(replica);
            }
            Stage::Waiting => {
                if rank.late && !self.has(Fault::AbandonedStepKeepsReplicasWaiting) {
                    self.leave(Event::Return, replica);
                }
            }
            Stage::Written | Stage::Resumed => {
                self.leave(Event::Return, replica);
                self.fail(replica);
            }
            stage => self.of_nested_replica(replica, stage),
        }
    }

    fn of_nested_replica(&mut self, replica: usize, stage: Stage) {
        let rank = self.rank();
        let is_waiting = stage.is_waiting();
        let back = if is_waiting {
            Stage::Waiting
        } else {
            Stage::Resumed
        };
        match stage {
            Stage::NestedPosted | Stage::LateNestedPosted if rank.nested_late => {
                self.leave_nested_run(Event::Skip, Cost::Free, replica, back);
            }
            Stage::NestedPosted => self.stage(Event::Start, replica, Stage::NestedBegun),
            Stage::NestedBegun | Stage::LateNestedBegun => {
                let written = if is_waiting {
                    Stage::NestedWritten
                } else {
                    Stage::LateNestedWritten
                };
                if rank.open || self.has(Fault::WriteIsNotChecked) {
                    self.go(Event::Write, |rank| {
                        rank.stale |= !rank.open;
                        rank.nested_staged |= 1 << replica;
                        rank.replicas[replica].stage = written;
                    });
                } else {
                    self.leave_nested_run(Event::WriteRefused, Cost::Free, replica, back);
                }
                if !rank.nested_late {
                    self.leave_nested_run(Event::Fail, Cost::Failure, replica, back);
                }
            }
            _ => self.leave_nested_run(Event::Return, Cost::Free, replica, back),
        }
    }

    /// The callback of a nested run returns, and its replica is `back` in the merge call or after
    /// it.
    fn leave_nested_run(&mut self, event: Event, cost: Cost, replica: usize, back: Stage) {
        let has_failed = matches!(event, Event::WriteRefused | Event::Fail);
        let forgets = self.has(Fault::NestedReplicaDrainsNothing);
        self.go_at(event, cost, |rank| {
            rank.replicas[replica].stage = back;
            rank.nested_failed |= has_failed && !rank.nested_late;
            if !forgets {
                rank.drain_nested();
            }
        });
    }

    fn stage(&mut self, event: Event, replica: usize, stage: Stage) {
        self.go(event, |rank| rank.replicas[replica].stage = stage);
    }

    /// The callback returns, or does not begin. In an abandoned step nobody asks whether it failed.
    fn leave(&mut self, event: Event, replica: usize) {
        let forgets = self.has(Fault::LateReplicaDrainsNothing);
        let notes_late = self.has(Fault::LateFailureIsNoted);
        self.go_checked(event, Cost::Free, |rank| {
            rank.replicas[replica].stage = Stage::Absent;
            let is_refused = event == Event::WriteRefused;
            rank.replicas[replica].failed |= is_refused && !rank.late;
            let broken = if forgets { None } else { rank.drain() };
            rank.replicas[replica].failed |= is_refused && notes_late;
            broken
        });
    }

    /// The callback writes: that joins the transaction of its own step, or is refused.
    fn write(&mut self, replica: usize) {
        if self.rank().open || self.has(Fault::WriteIsNotChecked) {
            self.go(Event::Write, |rank| {
                rank.stale |= !rank.open;
                rank.staged |= 1 << replica;
                rank.replicas[replica].stage = Stage::Written;
            });
        } else {
            self.leave(Event::WriteRefused, replica);
        }
    }

    /// The callback returns an error: by one of the failures that may come, or because it was told
    /// to stop.
    fn fail(&mut self, replica: usize) {
        let rank = self.rank();
        if rank.late {
            return;
        }
        let is_told = rank.replicas[replica].stop || rank.limit == Limit::Cancelled;
        let cost = if is_told { Cost::Free } else { Cost::Failure };
        let is_noted = !self.has(Fault::FailureIsNotNoted);
        self.go_at(Event::Fail, cost, |rank| {
            rank.replicas[replica].stage = Stage::Absent;
            rank.replicas[replica].failed = is_noted;
        });
    }

    /// The callback does not return before the run has, so that the run has to reach a limit.
    fn hang(&mut self, replica: usize) {
        let rank = self.rank();
        if rank.late {
            return;
        }
        let has_limit = rank.armed || rank.limit != Limit::None;
        let cost = if has_limit { Cost::Free } else { Cost::Limit };
        self.go_at(Event::Hang, cost, |rank| {
            rank.armed |= !has_limit;
            rank.replicas[replica].stage = Stage::Hung;
        });
    }
}

impl Rank {
    /// Whether the coordinator is still in an abandoned step.
    fn is_leaving(&self) -> bool {
        use Place::{Abandoned, AbandonedAnswered, AbandonedSaid};
        matches!(self.place, Abandoned | AbandonedSaid | AbandonedAnswered)
    }

    /// Drains the abandoned step if the last thread has left it.
    pub fn drain(&mut self) -> Option<Property> {
        let are_gone = self.replicas.iter().all(|it| it.stage == Stage::Absent);
        if !self.late || !are_gone || self.is_leaving() {
            return None;
        }
        self.late = false;
        self.forget_step();
        self.nested_late.then_some(DRAIN_ORDER)
    }

    /// Drains the abandoned nested run if the last thread has left it.
    pub fn drain_nested(&mut self) {
        let are_gone = !self.replicas.iter().any(|it| it.stage.is_nested());
        self.nested_late &= !are_gone || self.place == Place::NestedAbandoned;
    }
}
