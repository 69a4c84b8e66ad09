//! The handles that calls make for callbacks that are watched.

use std::cell::{Cell, RefCell};

use super::object::Kind;

thread_local! {
    /// Whether a callback on this thread is watched.
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
    /// The tensors and values that such callbacks have made, those of inner callbacks last.
    static MADE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Notes a handle that a call has made for the program. Those that a program retains are not noted:
/// it means to keep them. Variables, optimizers and the like are made for longer than a step.
#[inline]
pub(crate) fn note(handle: u64, kind: Kind) {
    if IS_WATCHED.get() && matches!(kind, Kind::Tensor | Kind::Value) {
        MADE.with_borrow_mut(|made| made.push(handle));
    }
}

/// Watches the callback that this thread calls, until it is dropped.
pub(crate) struct Watch {
    /// How many handles callbacks around this one have made.
    around: usize,
    was_watched: bool,
}

impl Watch {
    /// The callback is about to be called.
    pub(crate) fn begin() -> Watch {
        let around = MADE.with_borrow(Vec::len);
        Watch {
            around,
            was_watched: IS_WATCHED.replace(true),
        }
    }

    /// The handles that were made so far. Some of them may be released.
    pub(crate) fn made(&self) -> Vec<u64> {
        MADE.with_borrow(|made| made[self.around..].to_vec())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        MADE.with_borrow_mut(|made| made.truncate(self.around));
        IS_WATCHED.set(self.was_watched);
    }
}
