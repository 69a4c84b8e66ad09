//! The update of one element.

use crate::float::real::Real;

/// The update of one element: the step of an optimizer with the values of all of its
/// scalars.
///
/// `apply` takes the weight, the element of each state slot and the gradient, and returns the new
/// weight and the new state. Implementations are marked `#[inline(always)]`, so that the loop
/// around them is compiled for each instruction set.
pub trait Formula<const SLOTS: usize>: Copy + Sync {
    /// Whether few trainings use the formula. If so, one loop serves every number of replicas.
    const IS_RARE: bool = false;

    /// The type of the elements.
    type Element: Real;

    /// One element's new weight and state.
    fn apply(
        self,
        weight: Self::Element,
        slots: [Self::Element; SLOTS],
        gradient: Self::Element,
    ) -> (Self::Element, [Self::Element; SLOTS]);
}
