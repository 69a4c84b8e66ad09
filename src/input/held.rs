//! An item that was taken of an input, and that there was no memory to make anything of.
//!
//! A call that fails for want of memory loses nothing: the next one tries again with the same item. Until
//! then the pass is before it, which is what its position says.

use crate::error::{Result, Status};
use crate::input::pass::Pass;
use crate::input::position::StateWriter;

/// The item that comes next, if it was taken already.
pub(super) struct Held<T> {
    item: Option<T>,
    /// Where the input was before the item that it gave last.
    before: StateWriter,
}

impl<T> Held<T> {
    /// Nothing yet of `input`.
    pub(super) fn of(input: &dyn Pass<T>) -> Held<T> {
        Held { item: None, before: place_before(input) }
    }

    /// The item that is held, or else the next one of `input`.
    pub(super) fn next(&mut self, input: &mut dyn Pass<T>) -> Result<Option<T>> {
        if self.item.is_some() {
            return Ok(self.item.take());
        }
        self.before.clear();
        input.save(&mut self.before);
        input.next()
    }

    /// Returns what was made of `item`, and holds the item if there was no memory for it. After any other
    /// failure, or a panic, it is used up.
    pub(super) fn hold_if_no_memory<R>(&mut self, item: T, made: Result<R>) -> Result<R> {
        if lacks_memory(&made) {
            self.item = Some(item);
        }
        made
    }

    /// Nothing is held any more.
    pub(super) fn clear(&mut self) {
        self.item = None;
    }

    /// Writes down where the pass over `input` is.
    pub(super) fn save(&self, input: &dyn Pass<T>, to: &mut StateWriter) {
        match self.item {
            Some(_) => to.extend(&self.before),
            None => input.save(to),
        }
    }

    /// Passes over items, of which the one that is held is the first.
    pub(super) fn skip(&mut self, input: &mut dyn Pass<T>, count: u64) -> Result<u64> {
        let held = u64::from(count > 0 && self.item.is_some());
        if held > 0 {
            self.item = None;
        }
        Ok(held + input.skip(count - held)?)
    }
}

/// Memory for places of `input`, which has not begun.
pub(super) fn place_before<T>(input: &dyn Pass<T>) -> StateWriter {
    let mut at = StateWriter::default();
    input.save(&mut at);
    StateWriter::with_room_of(&at)
}

/// Whether there was no memory for it, so that another attempt may succeed.
pub(super) fn lacks_memory<R>(made: &Result<R>) -> bool {
    made.as_ref().is_err_and(|error| error.status() == Status::ResourceExhausted)
}
