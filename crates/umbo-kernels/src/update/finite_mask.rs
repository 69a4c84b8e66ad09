//! Whether the gradients of an update are finite.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::float::lanes::BLOCK;
use crate::float::real::Real;

/// Records whether gradients are finite, without a branch in the loop. Each lane holds 0 as long as
/// all gradients in it were finite, and is NaN from the first that was not.
pub(super) struct FiniteMask<T> {
    blocks: [T; BLOCK],
    single: [T; 1],
}

impl<T: Real> FiniteMask<T> {
    #[inline(always)]
    pub(super) fn new() -> FiniteMask<T> {
        FiniteMask {
            blocks: [T::from_f64(0.0); BLOCK],
            single: [T::from_f64(0.0)],
        }
    }

    #[inline(always)]
    pub(super) fn see_block(&mut self, gradient: [T; BLOCK]) {
        mark_non_finite(&mut self.blocks, gradient);
    }

    #[inline(always)]
    pub(super) fn see(&mut self, gradient: [T; 1]) {
        mark_non_finite(&mut self.single, gradient);
    }

    /// Sets the flag if a gradient was not finite.
    #[inline(always)]
    pub(super) fn note(self, not_finite: Option<&AtomicBool>) {
        let zero = T::from_f64(0.0);
        // A lane that is not 0 is NaN.
        if let Some(not_finite) = not_finite
            && self
                .blocks
                .iter()
                .chain(&self.single)
                .any(|lane| *lane != zero)
        {
            not_finite.store(true, Ordering::Relaxed);
        }
    }
}

/// Adds 0 to the lane of a finite element, and NaN to the lane of any other.
#[inline(always)]
fn mark_non_finite<T: Real, const N: usize>(traces: &mut [T; N], gradient: [T; N]) {
    let zero = T::from_f64(0.0);
    for (trace, gradient) in traces.iter_mut().zip(gradient) {
        *trace = *trace + gradient * zero;
    }
}
