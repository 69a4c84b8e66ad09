//! The coordinator of a rank, which is the caller's thread inside of a run: it begins the step and
//! waits for the replicas, until all have returned or the run reaches a limit.

use super::moves::{Cost, Moves};
use super::properties::{CARRIED_OVER, OVERLAP};
use super::{Event, Model};
use crate::faults::Fault;
use crate::state::{Limit, Place, Rank, Stage};

impl Moves<'_> {
    pub fn of_coordinator(&mut self) {
        match self.rank().place {
            Place::Begun => self.begin(),
            Place::Running => self.watch(),
            Place::AbandonedAnswered => self.leave_step(),
            _ => {}
        }
    }

    fn begin(&mut self) {
        let model = self.model;
        self.go_checked(Event::Begin, Cost::Free, |rank| {
            let overlaps = rank.replicas.iter().any(|it| it.stage != Stage::Absent);
            rank.place = Place::Running;
            rank.steps += u8::from(!model.has(Fault::BeginCountsNoStep));
            // Writes of another step that are still there cannot be told from this one's.
            rank.stale |= (rank.staged | rank.nested_staged) != 0 || rank.deferred;
            rank.open = !model.has(Fault::BeginOpensNoTransaction);
            for replica in &mut rank.replicas[..model.replicas] {
                replica.stage = Stage::Posted;
            }
            if model.has(Fault::BeginPostsOneReplicaLess) {
                // The coordinator waits for it as for one that computes.
                rank.replicas[model.replicas - 1].stage = Stage::Hung;
            }
            if overlaps {
                Some(OVERLAP)
            } else {
                rank.has_failed().then_some(CARRIED_OVER)
            }
        });
    }

    /// The coordinator waits for the replicas of the step.
    fn watch(&mut self) {
        let rank = self.rank();
        let replicas = &rank.replicas[..self.model.replicas];
        let is_computing = |stage: Stage| stage != Stage::Absent && !stage.is_waiting();
        if replicas.iter().all(|it| it.stage == Stage::Absent) {
            if !self.has(Fault::FinishWakesNobody) {
                self.go(Event::ReplicasReturned, |rank| rank.place = Place::Finished);
            }
        } else if self.model.sees_limit(rank) {
            self.go(Event::Abandon, |rank| {
                rank.place = Place::Abandoned;
                rank.late = true;
            });
        } else if !replicas.iter().any(|it| is_computing(it.stage))
            && !self.has(Fault::ArrivalWakesNobody)
        {
            self.serve();
        }
    }

    /// The coordinator leaves an abandoned step, which replicas may still be in.
    fn leave_step(&mut self) {
        let model = self.model;
        self.go_checked(Event::Leave, Cost::Free, |rank| {
            rank.place = Place::Failed;
            if !model.has(Fault::AbandonedStepCounts) {
                rank.uncount_step();
            }
            if model.has(Fault::CoordinatorDoesNotLeave) {
                None
            } else {
                rank.drain()
            }
        });
    }

    /// The deadline of a run passes, or its token is cancelled, at any time.
    pub fn of_limits(&mut self) {
        let rank = self.rank();
        if rank.limit != Limit::None || matches!(rank.place, Place::Done | Place::Quit) {
            return;
        }
        // A replica that hangs until the limit has paid for it.
        let cost = if rank.armed { Cost::Free } else { Cost::Limit };
        self.go_at(Event::DeadlinePasses, cost, |rank| {
            rank.limit = Limit::Deadline;
        });
        self.go_at(Event::Cancel, cost, |rank| rank.limit = Limit::Cancelled);
    }
}

impl Model {
    /// Whether the limit that a run has reached wakes its coordinator.
    fn sees_limit(&self, rank: &Rank) -> bool {
        match rank.limit {
            Limit::None => false,
            Limit::Deadline => !self.has(Fault::DeadlineWakesNobody),
            Limit::Cancelled => !self.has(Fault::CancellationWakesNobody),
        }
    }
}
