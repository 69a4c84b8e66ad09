//! Lent gradients: memory of the program that a replica lends instead of writing into its buffer.
//!
//! A lent gradient is kept until nobody reads it any more: until an apply has consumed it, the step
//! is rolled back, the replica withdraws it, or a later step replaces it. It is released while no
//! lock is held except the step lock, since releasing calls the program: see `lending`.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use umbo_tensor::Tensor;

/// The gradient that a replica has lent for one variable, if any.
#[derive(Default)]
pub(crate) struct AttachedGradient {
    /// The step in which it was lent; 0 if nothing is lent. Step numbers start at 1.
    pub(crate) step: AtomicU64,
    /// The program's memory that holds it, and the step.
    pub(crate) held: Mutex<Option<LentGradient>>,
}

/// A lent gradient, and the step in which it was lent.
pub(crate) type LentGradient = (Tensor, u64);

impl AttachedGradient {
    /// Whether something was lent in `step`.
    pub(crate) fn is_of(&self, step: u64) -> bool {
        self.step.load(Ordering::Acquire) == step
    }

    /// The gradient that was lent in `step`. While a step's contributions count, its lent gradients
    /// are not released.
    pub(crate) fn tensor(&self, step: u64) -> Option<Tensor> {
        // An apply to thousands of variables of which none is lent takes no lock.
        if !self.is_of(step) {
            return None;
        }
        self.held.lock().as_ref().map(|(tensor, _)| tensor.clone())
    }

    /// Takes the lent gradient out. The caller drops it when no lock is held.
    pub(crate) fn take(&self) -> Option<LentGradient> {
        let mut held = self.held.lock();
        self.step.store(0, Ordering::Release);
        held.take()
    }

    /// Takes the lent gradient out if it no longer counts: if `counts` returns false for its step.
    pub(crate) fn take_unless(&self, counts: impl FnOnce(u64) -> bool) -> Option<LentGradient> {
        let mut held = self.held.lock();
        held.as_ref().filter(|(_, step)| !counts(*step))?;
        self.step.store(0, Ordering::Release);
        held.take()
    }
}
