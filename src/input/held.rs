//! An item that was taken from an input but not yet used, because there was no memory for the result or because another
//! input failed.
//!
//! A call that fails for lack of memory loses nothing: the next call tries again with the same item. Until then, the
//! position of the pass is before the item.

use crate::error::{Result, Status};
use crate::input::pass::Pass;
use crate::input::position::{StateReader, StateWriter};

/// The next item, if it was already taken.
pub(super) struct Held<T> {
    item: Option<T>,
    /// The position of the input before the item that it returned last.
    before: StateWriter,
}

impl<T> Held<T> {
    /// Holds no item of `input` yet.
    pub(super) fn of(input: &dyn Pass<T>) -> Held<T> {
        let mut at = StateWriter::default();
        input.save(&mut at);
        Held { item: None, before: StateWriter::with_room_of(&at) }
    }

    /// Holds the next item of `input`, unless one is held. Returns whether an item is held.
    pub(super) fn fill(&mut self, input: &mut dyn Pass<T>) -> Result<bool> {
        if self.item.is_none() {
            self.before.clear();
            input.save(&mut self.before);
            self.item = input.next()?;
        }
        Ok(self.item.is_some())
    }

    /// Removes the held item and returns it.
    pub(super) fn take(&mut self) -> Option<T> {
        self.item.take()
    }

    /// Whether an item is held.
    pub(super) fn is_some(&self) -> bool {
        self.item.is_some()
    }

    /// The held item or, if there is none, the next one of `input`.
    pub(super) fn next(&mut self, input: &mut dyn Pass<T>) -> Result<Option<T>> {
        self.fill(input)?;
        Ok(self.take())
    }

    /// Returns `made`, the result for `item`, and holds the item if there was no memory for the result. After any other
    /// failure, or a panic, the item is used up.
    pub(super) fn hold_if_no_memory<R>(&mut self, item: T, made: Result<R>) -> Result<R> {
        if lacks_memory(&made) {
            self.item = Some(item);
        }
        made
    }

    /// Saves the position of the pass over `input`.
    pub(super) fn save(&self, input: &dyn Pass<T>, to: &mut StateWriter) {
        match self.item {
            Some(_) => to.extend(&self.before),
            None => input.save(to),
        }
    }

    /// Restores the saved position of `input`.
    pub(super) fn restore(
        &mut self,
        input: &mut dyn Pass<T>,
        from: &mut StateReader<'_>,
    ) -> Result<()> {
        self.item = None;
        input.restore(from)
    }

    /// Begins another round of `input`.
    pub(super) fn restart(&mut self, input: &mut dyn Pass<T>) -> Result<()> {
        self.item = None;
        input.restart()
    }
}

/// Whether the call failed for lack of memory, so that another attempt may succeed.
pub(super) fn lacks_memory<R>(made: &Result<R>) -> bool {
    made.as_ref().is_err_and(|error| error.status() == Status::ResourceExhausted)
}
