//! How the coordinator of a step and its replicas share data without locks and without reference
//! counts. The rendezvous decides whose turn it is.

#![expect(
    unsafe_code,
    reason = "a step lends what it has to the replicas' threads"
)]

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;

/// A value that the coordinator and one replica use in turn: the replica from when the step is
/// posted to it until it arrives in a merge call or finishes, else the coordinator.
#[derive(Default)]
pub(crate) struct TurnCell<T>(UnsafeCell<T>);

// SAFETY: one thread at a time uses it, as callers of `get` promise, and hands it on by the
// rendezvous.
unsafe impl<T: Send> Sync for TurnCell<T> {}

impl<T> TurnCell<T> {
    pub fn new(value: T) -> TurnCell<T> {
        TurnCell(UnsafeCell::new(value))
    }

    /// # Safety
    /// It is the caller's turn as long as the reference lives, and the caller has no other one.
    #[expect(clippy::mut_from_ref, reason = "turns are taken, not borrowed")]
    pub unsafe fn get(&self) -> &mut T {
        // SAFETY: as the caller promises.
        unsafe { &mut *self.0.get() }
    }
}

impl<T: Sync> TurnCell<T> {
    /// # Safety
    /// Nobody writes it as long as the reference lives.
    pub unsafe fn read(&self) -> &T {
        // SAFETY: as the caller promises.
        unsafe { &*self.0.get() }
    }
}

/// An `Arc`, or an uncounted alias whose owner outlives it. A clone is counted.
pub(crate) enum Reference<T> {
    Counted(T),
    Lent(ManuallyDrop<T>),
}

impl<T> Reference<T> {
    /// # Safety
    /// Somebody else keeps a reference to the object of `kept` while this lives. `T` is a counted
    /// reference or an enum of such, and has no other state.
    pub unsafe fn lent(kept: &T) -> Reference<T> {
        // SAFETY: the copy is never dropped, and nobody sees it but behind a shared reference.
        Reference::Lent(ManuallyDrop::new(unsafe { ptr::read(kept) }))
    }
}

impl<T> Deref for Reference<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Reference::Counted(reference) => reference,
            Reference::Lent(reference) => reference,
        }
    }
}

impl<T: Clone> Clone for Reference<T> {
    fn clone(&self) -> Reference<T> {
        Reference::Counted(T::clone(self))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn clones_of_lent_references_are_counted() {
        let kept = Arc::new(String::from("kept"));
        // SAFETY: `kept` lives longer than both.
        let lent = unsafe { Reference::lent(&kept) };
        // SAFETY: as above.
        let again = unsafe { Reference::lent(&*lent) };
        assert_eq!(Arc::strong_count(&kept), 1);
        let counted = again.clone();
        assert_eq!(Arc::strong_count(&kept), 2);
        drop((lent, again));
        assert_eq!(Arc::strong_count(&kept), 2);
        drop(kept);
        assert_eq!(**counted, "kept");
        assert_eq!(Arc::strong_count(&counted), 1);
    }
}
