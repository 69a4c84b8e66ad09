//! The list of transitions from a state, and how one is added to it.

use super::{Event, Model, Move, Property};
use crate::faults::Fault;
use crate::state::{Rank, State};

/// The failure or limit that a transition uses up, of those that may still come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    Free,
    Failure,
    Limit,
}

impl State {
    /// Takes `cost`; false if none is left.
    fn pay(&mut self, cost: Cost) -> bool {
        let left = match cost {
            Cost::Free => return true,
            Cost::Failure => &mut self.failures,
            Cost::Limit => &mut self.limits,
        };
        let can_pay = *left > 0;
        *left -= u8::from(can_pay);
        can_pay
    }
}

/// The transitions of one rank from a state.
pub struct Moves<'a> {
    pub model: &'a Model,
    pub from: &'a State,
    pub rank: usize,
    pub replica: Option<usize>,
    pub found: &'a mut Vec<Move>,
}

impl<'a> Moves<'a> {
    pub fn rank(&self) -> &'a Rank {
        &self.from.ranks[self.rank]
    }

    pub fn has(&self, fault: Fault) -> bool {
        self.model.has(fault)
    }

    /// Adds a transition that changes this rank alone.
    pub fn go(&mut self, event: Event, change: impl FnOnce(&mut Rank)) {
        self.go_at(event, Cost::Free, change);
    }

    /// The same at a cost: the transition is there only if that can be paid.
    pub fn go_at(&mut self, event: Event, cost: Cost, change: impl FnOnce(&mut Rank)) {
        self.go_checked(event, cost, |rank| {
            change(rank);
            None
        });
    }

    /// The same for a change that can break a property.
    pub fn go_checked(
        &mut self,
        event: Event,
        cost: Cost,
        change: impl FnOnce(&mut Rank) -> Option<Property>,
    ) {
        self.add(event, cost, |_, to, rank| change(&mut to.ranks[rank]));
    }

    /// Adds a transition that changes several ranks.
    pub fn add(
        &mut self,
        event: Event,
        cost: Cost,
        change: impl FnOnce(&Model, &mut State, usize) -> Option<Property>,
    ) {
        let mut to = *self.from;
        if !to.pay(cost) {
            return;
        }
        let broken = change(self.model, &mut to, self.rank);
        self.found.push(Move {
            event,
            rank: self.rank,
            replica: self.replica,
            to,
            broken,
        });
    }
}
