//! The strategy that is current where a program has made none.

#![expect(unsafe_code, reason = "the default strategy is never freed, and found without a lock")]

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::central_storage::Strategy;

/// The default strategy of this process, never freed. The child of a fork, where another thread may
/// have been changing the parent's for ever, makes one of its own.
static DEFAULT: AtomicPtr<Strategy> = AtomicPtr::new(ptr::null_mut());

impl Strategy {
    /// The strategy that is current where no other one is: one replica on `CPU:0`.
    pub fn default_strategy() -> Strategy {
        let current = DEFAULT.load(Ordering::Acquire);
        // SAFETY: what was stored is never freed.
        match unsafe { current.as_ref() } {
            Some(strategy) if strategy.inner().origin.is_here() => strategy.clone(),
            _ => make_default(current),
        }
    }
}

#[cold]
fn make_default(current: *mut Strategy) -> Strategy {
    let made = Strategy::on_host().expect("one replica needs no thread and CPU:0 is always there");
    let new = Box::into_raw(Box::new(made.clone()));
    match DEFAULT.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => made,
        Err(faster) => {
            // SAFETY: nobody else has seen it.
            drop(unsafe { Box::from_raw(new) });
            // SAFETY: what was stored is never freed.
            unsafe { (*faster).clone() }
        }
    }
}
