//! The caller of a rank, in its epoch: it takes elements of the input, enters steps with them, and
//! puts an element back if its step has had no effect.

use super::moves::{Cost, Moves};
use super::{Event, Model};
use crate::faults::Fault;
use crate::state::{Limit, Place, Rank};

impl Moves<'_> {
    pub fn of_caller(&mut self) {
        match self.rank().place {
            Place::Idle => self.next_element(),
            Place::Holding => self.enter(),
            Place::NotBegun => self.not_begun(),
            Place::Failed => self.give_back(),
            Place::Committed => self.end_step(),
            _ => {}
        }
    }

    fn next_element(&mut self) {
        let rank = self.rank();
        if rank.limit != Limit::None {
            self.say(Event::NoElement, Place::NoElementSaid);
            // On one rank, the epoch looks at its limit before it takes an element. With several,
            // the input may give one all the same, and the rank is refused in the run.
            if self.model.ranks == 1 {
                return;
            }
        }
        if rank.position == self.model.elements {
            self.say(Event::EndOfPass, Place::EndSaid);
            return;
        }
        let step = u8::from(!self.has(Fault::TakeLeavesThePosition));
        self.go(Event::Take, |rank| {
            rank.place = Place::Holding;
            rank.holds = true;
            rank.position += step;
        });
        self.say_with(
            Event::PassOver,
            Cost::Failure,
            Place::PassOverSaid,
            |rank| {
                rank.passed |= 1 << rank.position;
                rank.position += 1;
            },
        );
    }

    fn enter(&mut self) {
        let rank = self.rank();
        if rank.limit != Limit::None {
            self.say(Event::CannotEnter, Place::BeginRefused);
            return;
        }
        // A run can be refused, as it is where its caller does not wait for an abandoned step to
        // drain. The caller then comes again with the same element.
        self.say_with(
            Event::CannotEnter,
            Cost::Failure,
            Place::BeginRefused,
            |_| {},
        );
        if !rank.is_draining() || self.has(Fault::BeginWhileDraining) {
            self.say(Event::Enter, Place::BeginSaid);
        }
    }

    fn not_begun(&mut self) {
        let model = self.model;
        self.go(Event::NotBegun, |rank| {
            let passes = rank.passes_over && !model.has(Fault::PassOverKeepsTheOthersElements);
            if passes {
                rank.passed |= rank.held();
            } else if !model.has(Fault::NotBegunLosesTheElement) {
                rank.position -= 1;
            }
            rank.holds = false;
            model.end_epoch(rank);
        });
    }

    fn give_back(&mut self) {
        let model = self.model;
        self.go(Event::GiveBack, |rank| {
            rank.holds = false;
            rank.position -= u8::from(!model.has(Fault::FailureLosesTheElement));
            model.end_epoch(rank);
        });
    }

    fn end_step(&mut self) {
        let back = u8::from(self.has(Fault::CommitGivesTheElementBack));
        let end = |rank: &mut Rank| {
            rank.holds = false;
            rank.position -= back;
            rank.forget_step();
        };
        self.go(Event::StepEnds, |rank| {
            rank.place = Place::Idle;
            end(rank);
        });
        self.say_with(
            Event::ProgressFails,
            Cost::Failure,
            Place::ProgressSaid,
            end,
        );
    }
}

impl Model {
    /// The epoch has ended with an error. The caller either ends the training, or begins another
    /// epoch, which has limits of its own.
    pub fn end_epoch(&self, rank: &mut Rank) {
        rank.place = if self.quits { Place::Quit } else { Place::Idle };
        rank.limit = Limit::None;
        rank.armed = false;
        rank.passes_over = false;
        rank.ended = false;
        rank.forget_step();
    }
}

impl Rank {
    /// Clears the flags that each step sets anew. Late replicas do not read them.
    pub fn forget_step(&mut self) {
        self.verdict = false;
        self.nested_failed = false;
        for replica in &mut self.replicas {
            replica.failed = false;
            replica.stop = false;
        }
    }
}
