//! Handles that are lent for the call of a callback.

use std::sync::atomic::Ordering;

use super::{
    GENERATION_MASK, LENT, ReservedHandle, SLOT_BITS, TAKEN, fill, generation, reserve, vacate,
};
use crate::machinery::object::Opaque;
use umbo_core::error::Result;

/// A place in the table for what a callback is given: each call lends one object, whose handle
/// cannot be released and is stale when the call is over. Lending allocates
/// nothing and takes no lock.
pub(crate) struct LentHandle<H: Opaque> {
    pub(super) place: ReservedHandle<H>,
    is_lent: bool,
}

impl<H: Opaque> LentHandle<H> {
    /// A place that lends nothing yet.
    pub(crate) fn new() -> Result<LentHandle<H>> {
        Ok(LentHandle {
            place: reserve()?,
            is_lent: false,
        })
    }

    /// Lends `object` until it is withdrawn, in place of what was lent before.
    pub(crate) fn lend(&mut self, object: H::Object) -> Result<*mut H> {
        drop(self.withdraw());
        if generation(self.place.slot.state.load(Ordering::Relaxed)) == GENERATION_MASK {
            self.place = reserve()?;
        }
        let handle = fill(
            self.place.index,
            self.place.slot,
            H::wrap(object),
            TAKEN | LENT,
        );
        self.is_lent = true;
        Ok(handle)
    }

    /// Takes back what is lent: handles to it are stale, and nobody looks at it any more.
    pub(crate) fn withdraw(&mut self) -> Option<H::Object> {
        if !std::mem::take(&mut self.is_lent) {
            return None;
        }
        // Nobody else changes the state of a lent slot.
        let ReservedHandle { index, slot, .. } = self.place;
        let next = generation(slot.state.load(Ordering::Relaxed)) + 1;
        slot.state.swap(next << SLOT_BITS, Ordering::SeqCst);
        H::unwrap(vacate(index, slot))
    }
}

impl<H: Opaque> Drop for LentHandle<H> {
    fn drop(&mut self) {
        drop(self.withdraw());
    }
}
