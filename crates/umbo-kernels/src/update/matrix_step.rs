//! The update of a whole matrix by a step that is made of its momentum, as Muon does.
//!
//! The step depends on all elements of the matrix. So a first pass writes the matrix that it is
//! made of, the iteration of [`orthogonal`](crate::matrix::orthogonal) makes it, and a second pass
//! reads it as if it were a further slot.

use std::slice;

use crate::float::real::{Real, for_real};
use crate::instruction_set::{InstructionSet, Instructions, Kernel, dispatch};
use crate::update::formula::Formula;
use crate::update::pass::UpdatePass;
use crate::update::tiles::Tile;

/// How a matrix's momentum moves, and how it makes a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixMomentum {
    /// The share of the gradient in the new momentum, more than 0 and at most 1.
    pub share: f64,
    /// Whether the step looks ahead by the gradient's share once more, as Nesterov's momentum does.
    pub nesterov: bool,
}

/// The second pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixStep {
    /// See [`MatrixMomentum::share`].
    pub share: f64,
    /// The factor of the weights before the step.
    pub kept: f64,
    /// The factor of the step.
    pub rate: f64,
}

impl UpdatePass<'_> {
    /// Writes what the step is made of to the last of two slots, on this thread: the momentum that
    /// the pass will write to the first, or beyond it. Weights and momentum stay as they are.
    /// Nothing is allocated.
    ///
    /// Asserted: the pass has all rows and two slots.
    pub fn look_ahead(&self, momentum: &MatrixMomentum) {
        assert!(self.is_whole() && self.slots.len() == 2);
        self.only_reading(self.range.clone())
            .run_tiles(&mut |tile| {
                for_real!(tile.dtype, T => {
                    let ahead = LookAhead::<T>::new(momentum, tile);
                    dispatch(self.instructions(), ahead);
                });
            });
    }
}

impl MatrixStep {
    /// Updates weights and momentum of the pass by the step that its second slot has, on this
    /// thread. Nothing is allocated.
    pub fn run(&self, pass: &UpdatePass<'_>) {
        for_real!(pass.dtype(), T => pass.run(TakeStep {
            share: T::from_f64(self.share),
            kept: T::from_f64(self.kept),
            rate: T::from_f64(self.rate),
        }));
    }
}

/// `from`, moved towards `to` by this share of the distance.
#[inline(always)]
fn towards<T: Real>(from: T, to: T, share: T) -> T {
    from + share * (to - from)
}

/// The first pass over one tile.
struct LookAhead<'t, T> {
    share: T,
    nesterov: bool,
    momentum: &'t [T],
    gradient: &'t [T],
    to: &'t mut [T],
}

impl<'t, T: Real> LookAhead<'t, T> {
    fn new(momentum: &MatrixMomentum, tile: &Tile<'t>) -> LookAhead<'t, T> {
        let [first, second] = tile.slots else {
            unreachable!("the pass has two slots");
        };
        let count = tile.elements;
        // SAFETY: a tile's elements are of the pass's type and this call's alone, and its gradient
        // is written.
        let (before, gradient, to) = unsafe {
            (
                slice::from_raw_parts(first.cast::<T>(), count),
                slice::from_raw_parts(tile.gradient.cast::<T>(), count),
                slice::from_raw_parts_mut(second.cast::<T>(), count),
            )
        };
        LookAhead {
            share: T::from_f64(momentum.share),
            nesterov: momentum.nesterov,
            momentum: before,
            gradient,
            to,
        }
    }
}

impl<T: Real> Kernel for LookAhead<'_, T> {
    const WIDEST: InstructionSet = InstructionSet::Avx2;

    #[inline(always)]
    fn run(self, _: Instructions) {
        let both = self.momentum.iter().zip(self.gradient);
        for (to, (before, gradient)) in self.to.iter_mut().zip(both) {
            let new = towards(*before, *gradient, self.share);
            *to = match self.nesterov {
                true => towards(new, *gradient, self.share),
                false => new,
            };
        }
    }
}

/// The second pass as a formula, whose slots are the momentum and the step.
#[derive(Clone, Copy)]
struct TakeStep<T> {
    share: T,
    kept: T,
    rate: T,
}

impl<T: Real> Formula<2> for TakeStep<T> {
    const IS_RARE: bool = true;
    type Element = T;

    #[inline(always)]
    fn apply(self, weight: T, [momentum, step]: [T; 2], gradient: T) -> (T, [T; 2]) {
        let momentum = towards(momentum, gradient, self.share);
        (self.kept * weight - self.rate * step, [momentum, step])
    }
}
