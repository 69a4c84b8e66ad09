//! The model: the transitions of a step, as `crates/umbo-strategy` has them, and of the epoch
//! around it, as `crates/umbo-core/src/training/epoch.rs` has it.
//!
//! In one rank, `epoch` has the transitions of the caller, `coordinator` and `merge` those of the
//! coordinator, `replica` those of the replicas. Of the ranks together, `outcome` has votes,
//! commits and rollbacks, and `exchange` the answers to them. `properties` says what must hold.

mod coordinator;
mod epoch;
mod event;
mod exchange;
mod merge;
mod moves;
mod outcome;
mod properties;
mod replica;

pub use event::{Event, Move};
pub use properties::{ENDLESS, Property};

use crate::faults::Fault;
use crate::state::State;
use moves::Moves;

/// The size of a model, and the fault in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Model {
    pub ranks: usize,
    pub replicas: usize,
    pub elements: u8,
    /// Whether callbacks make a merge call, and whether that has a nested run.
    pub merges: bool,
    pub nests: bool,
    /// Whether the caller of an epoch that has failed ends the training.
    pub quits: bool,
    /// How many failures may come, and how many limits may be reached.
    pub failures: u8,
    pub limits: u8,
    pub fault: Option<Fault>,
}

impl Model {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// A bit for each replica of a rank.
    fn all_replicas(&self) -> u8 {
        (1 << self.replicas) - 1
    }

    pub fn start(&self) -> State {
        State {
            failures: self.failures,
            limits: self.limits,
            ..State::default()
        }
    }

    /// Appends all transitions from a state.
    pub fn moves(&self, from: &State, found: &mut Vec<Move>) {
        for rank in 0..self.ranks {
            let mut moves = Moves {
                model: self,
                from,
                rank,
                replica: None,
                found,
            };
            moves.of_caller();
            moves.of_coordinator();
            moves.of_nested_run();
            moves.of_outcome();
            moves.of_limits();
            for replica in 0..self.replicas {
                moves.replica = Some(replica);
                moves.of_replica(replica);
            }
        }
    }
}
