//! An item that was taken of an input, and that nothing was made of: there was no memory for it, or another input
//! has failed.
//!
//! A call that fails for want of memory loses nothing: the next one tries again with the same item. Until
//! then the pass is before it, which is what its position says.

use crate::error::{Result, Status};
use crate::input::pass::Pass;
use crate::input::position::{StateReader, StateWriter};

/// The item that comes next, if it was taken already.
pub(super) struct Held<T> {
    item: Option<T>,
    /// Where the input was before the item that it gave last.
    before: StateWriter,
}

impl<T> Held<T> {
    /// Nothing yet of `input`.
    pub(super) fn of(input: &dyn Pass<T>) -> Held<T> {
        let mut at = StateWriter::default();
        input.save(&mut at);
        Held { item: None, before: StateWriter::with_room_of(&at) }
    }

    /// Holds the next item of `input`, unless one is held. Whether one is.
    pub(super) fn fill(&mut self, input: &mut dyn Pass<T>) -> Result<bool> {
        if self.item.is_none() {
            self.before.clear();
            input.save(&mut self.before);
            self.item = input.next()?;
        }
        Ok(self.item.is_some())
    }

    /// The item that is held, which is not any more.
    pub(super) fn take(&mut self) -> Option<T> {
        self.item.take()
    }

    /// Whether an item is held.
    pub(super) fn is_some(&self) -> bool {
        self.item.is_some()
    }

    /// The item that is held, or else the next one of `input`.
    pub(super) fn next(&mut self, input: &mut dyn Pass<T>) -> Result<Option<T>> {
        self.fill(input)?;
        Ok(self.take())
    }

    /// Returns what was made of `item`, and holds the item if there was no memory for it. After any other
    /// failure, or a panic, it is used up.
    pub(super) fn hold_if_no_memory<R>(&mut self, item: T, made: Result<R>) -> Result<R> {
        if lacks_memory(&made) {
            self.item = Some(item);
        }
        made
    }

    /// Writes down where the pass over `input` is.
    pub(super) fn save(&self, input: &dyn Pass<T>, to: &mut StateWriter) {
        match self.item {
            Some(_) => to.extend(&self.before),
            None => input.save(to),
        }
    }

    /// Takes `input` to where it was.
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

/// Whether there was no memory for it, so that another attempt may succeed.
pub(super) fn lacks_memory<R>(made: &Result<R>) -> bool {
    made.as_ref().is_err_and(|error| error.status() == Status::ResourceExhausted)
}
