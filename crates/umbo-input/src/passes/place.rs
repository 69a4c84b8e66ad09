//! The place of a pass between two items, to which a pass that works ahead of its consumer goes
//! back.
//!
//! Working ahead changes more than the position: the next round of a repeat begins, so that a
//! shuffle draws another order, a generator is reset, or a cache has a complete round. Before
//! another round begins, all of this is undone up to the item that the consumer was given last. So
//! no order depends on how far ahead a thread is.

use crate::passes::IteratorStage;
use crate::passes::position::{Rounds, StateWriter};
use umbo_base::error::Result;

/// A place of a pass.
#[derive(Default)]
pub(crate) struct Place {
    pub(crate) position: StateWriter,
    pub(crate) rounds: Rounds,
}

impl Place {
    /// The present place of `input`.
    pub(crate) fn of<T>(input: &mut dyn IteratorStage<T>) -> Place {
        let mut place = Place::default();
        place.note(input);
        place
    }

    /// A place with memory for later places of the same pass as `other`.
    pub(crate) fn with_room_of(other: &Place) -> Place {
        let mut place = Place {
            position: StateWriter::with_room_of(&other.position),
            ..Place::default()
        };
        place.rounds = Rounds::with_room_of(&other.rounds);
        place
    }

    /// Becomes the present place of `input`.
    pub(crate) fn note<T>(&mut self, input: &mut dyn IteratorStage<T>) {
        self.position.clear();
        input.save(&mut self.position);
        self.record_rounds(input);
    }

    /// Takes the rounds of `input` from its present place.
    pub(crate) fn record_rounds<T>(&mut self, input: &mut dyn IteratorStage<T>) {
        self.rounds.clear();
        input.rounds(&mut self.rounds);
    }

    /// Begins another round of `input`, as if it was at this place.
    pub(crate) fn restart<T>(&self, input: &mut dyn IteratorStage<T>) -> Result<()> {
        let mut rounds = self.rounds.reader()?;
        input.go_back(&mut rounds)?;
        rounds.end()?;
        input.restart()
    }
}
