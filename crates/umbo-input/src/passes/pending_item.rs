//! An item that was taken from an input but not yet used, because there was no memory for the
//! result, or because another input lacked memory or was interrupted.
//!
//! A call that fails for lack of memory, or because a limit has ended it, loses nothing: the next
//! call tries again with the same item. Until then, the position of the pass is before the item.
//! After any other failure the item is passed over.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::passes::IteratorStage;
use crate::passes::place::Place;
use crate::passes::position::{Rounds, StateReader, StateWriter};
use umbo_base::error::{Error, Result};
use umbo_executor::pool::Outcome;

/// The next item, if it was already taken.
pub(crate) struct PendingItem<T> {
    item: Option<T>,
    /// Whether the next item failed and is passed over ([`PendingItem::fill_or_pass_over`]).
    is_passed_over: bool,
    /// The place of the input before the item that it returned last.
    before: Place,
}

impl<T> PendingItem<T> {
    /// Holds no item of `input` yet.
    pub(crate) fn of(input: &dyn IteratorStage<T>) -> PendingItem<T> {
        let mut at = Place::default();
        input.save(&mut at.position);
        PendingItem {
            item: None,
            is_passed_over: false,
            before: Place::with_room_of(&at),
        }
    }

    /// Holds the next item of `input`, unless one is held. Returns whether an item is held.
    pub(crate) fn fill(&mut self, input: &mut dyn IteratorStage<T>) -> Result<bool> {
        if self.item.is_none() {
            self.before.note(input);
            self.item = input.next()?;
        }
        Ok(self.item.is_some())
    }

    /// As [`PendingItem::fill`], for an item that belongs to the items of other inputs. If it
    /// fails, and does not come again, its place is held until [`PendingItem::take`], so that the
    /// items that belong to it can be passed over, too.
    pub(crate) fn fill_or_pass_over(&mut self, input: &mut dyn IteratorStage<T>) -> Result<Filled> {
        if self.is_passed_over {
            return Ok(Filled::Place);
        }
        // Unwind safety: a pass in which a panic occurred continues after it.
        let failure = match catch_unwind(AssertUnwindSafe(|| self.fill(input))) {
            Ok(Ok(true)) => return Ok(Filled::Place),
            Ok(Ok(false)) => return Ok(Filled::End),
            Ok(filled) if comes_again(&filled) => return filled.map(|_| Filled::End),
            Ok(Err(error)) => Ok(error),
            Err(panic) => Err(panic),
        };
        self.is_passed_over = true;
        Ok(Filled::Failed(failure))
    }

    /// Removes the held item and returns it.
    pub(crate) fn take(&mut self) -> Option<T> {
        self.is_passed_over = false;
        self.item.take()
    }

    /// Whether an item is held.
    pub(crate) fn is_some(&self) -> bool {
        self.item.is_some()
    }

    /// The held item or, if there is none, the next one of `input`.
    pub(crate) fn next(&mut self, input: &mut dyn IteratorStage<T>) -> Result<Option<T>> {
        self.fill(input)?;
        Ok(self.take())
    }

    /// Returns `made`, the result for `item`, and holds the item if the result comes again, as when
    /// there was no memory for it. After any other failure, or a panic, the item is used up.
    pub(crate) fn hold_if_it_comes_again<R>(&mut self, item: T, made: Result<R>) -> Result<R> {
        if comes_again(&made) {
            self.item = Some(item);
        }
        made
    }

    /// Saves the position of the pass over `input`.
    pub(crate) fn save(&self, input: &dyn IteratorStage<T>, to: &mut StateWriter) {
        match self.has_taken() {
            true => to.extend(&self.before.position),
            false => input.save(to),
        }
    }

    /// Restores the saved position of `input`.
    pub(crate) fn restore(
        &mut self,
        input: &mut dyn IteratorStage<T>,
        from: &mut StateReader<'_>,
    ) -> Result<()> {
        self.take();
        input.restore(from)
    }

    /// Begins another round of `input`.
    pub(crate) fn restart(&mut self, input: &mut dyn IteratorStage<T>) -> Result<()> {
        let has_taken = self.has_taken();
        self.take();
        match has_taken {
            true => self.before.restart(input),
            false => input.restart(),
        }
    }

    /// The state that later rounds of the pass over `input` depend on: that of its saved position.
    pub(crate) fn rounds(&self, input: &mut dyn IteratorStage<T>, to: &mut Rounds) {
        match self.has_taken() {
            true => to.extend(&self.before.rounds),
            false => input.rounds(to),
        }
    }

    /// Undoes what has happened to `input` since then.
    pub(crate) fn go_back(
        &mut self,
        input: &mut dyn IteratorStage<T>,
        to: &mut StateReader<'_>,
    ) -> Result<()> {
        self.take();
        input.go_back(to)
    }

    /// Whether the input is behind an item, or the place of one that failed, which was not used
    /// yet.
    fn has_taken(&self) -> bool {
        self.item.is_some() || self.is_passed_over
    }
}

/// The outcome of [`PendingItem::fill_or_pass_over`].
pub(crate) enum Filled {
    /// The next item, or its place if it failed in an earlier call.
    Place,
    /// The input has ended.
    End,
    /// The next item has failed.
    Failed(Outcome<Error>),
}

/// Whether the call failed and lost nothing, so that another attempt may succeed: for lack of
/// memory, or because a limit has ended it.
pub(crate) fn comes_again<R>(made: &Result<R>) -> bool {
    made.as_ref().is_err_and(Error::comes_again)
}
