//! The loops of updates by a formula: one makes the gradients block by block, the other finds those
//! of a tile in memory. The first is compiled for each number of replicas that is usual, the second
//! serves everything else.

use std::marker::PhantomData;
use std::ops::Range;

use crate::dtype::{DType, Element};
use crate::float::gradient_element::GradientElement;
use crate::float::lanes::BLOCK;
use crate::float::real::Real;
use crate::instruction_set::{InstructionSet, Instructions, Kernel, dispatch};
use crate::prefetch::{BYTES_AHEAD, prefetch};
use crate::update::finite_mask::FiniteMask;
use crate::update::formula::Formula;
use crate::update::gradients::{GradientLoop, MakeGradients};
use crate::update::pass::{TILE, UpdatePass};
use crate::update::tiles::TileRows;

/// Elements that are updated together at the end of a tile that ends with no whole block, as rows
/// of 20 or 300 numbers do.
const PART: usize = 4;

impl UpdatePass<'_> {
    /// Updates the elements by `formula`, on this thread. Nothing is allocated.
    pub fn run<F: Formula<SLOTS>, const SLOTS: usize>(&self, formula: F) {
        if self.eight_bit.is_some() || self.rounding.is_some() {
            let states = self.eight_bit.map_or(self.slots.len(), |it| it.codes.len());
            assert_eq!((DType::Float32, states), (F::Element::DTYPE, SLOTS));
            return self.run_buffered(&mut |tile| {
                let update = UpdateTiles {
                    tiles: &TileRows::of(tile),
                    formula,
                    goes_on: false,
                };
                dispatch(self.instructions(), update);
            });
        }
        assert_eq!((self.dtype(), self.slots.len()), (F::Element::DTYPE, SLOTS));
        let finish = self.sum().finish::<F::Element>();
        let may_have_loop = self.is_whole() && self.l2 == 0.0 && self.trial.is_none();
        // Known to the compiler, which so makes no loops that nobody runs.
        if const { !F::IS_RARE && matches!(F::Element::DTYPE, DType::Float32) }
            && may_have_loop
            && self.sum().is_usual(self.instructions(), finish)
        {
            return match self.sum().gradient_dtype {
                DType::Float16 => self.run_with::<<F::Element as Real>::Float16, F, SLOTS>(formula),
                DType::BFloat16 => {
                    self.run_with::<<F::Element as Real>::BFloat16, F, SLOTS>(formula);
                }
                same => {
                    debug_assert_eq!(same, F::Element::DTYPE, "the type of the gradients");
                    self.run_with::<F::Element, F, SLOTS>(formula);
                }
            };
        }
        let goes_on = self.is_whole();
        if self.trial.is_some() {
            return self.run_tiles(&mut |tile| {
                let tiles = &TileRows::of(tile);
                let update = UpdateTiles {
                    tiles,
                    formula,
                    goes_on,
                };
                dispatch(self.instructions(), update);
            });
        }
        self.run_tile_rows(&mut |tiles| {
            let update = UpdateTiles {
                tiles,
                formula,
                goes_on,
            };
            dispatch(self.instructions(), update);
        });
    }

    fn run_with<G: GradientElement, F: Formula<SLOTS>, const SLOTS: usize>(&self, formula: F) {
        assert_eq!(self.sum().gradient_dtype, G::DTYPE);
        self.in_tiles(TILE, |range| {
            let gradient = PhantomData::<G>;
            dispatch(
                self.instructions(),
                UpdateRange {
                    pass: self,
                    range,
                    formula,
                    gradient,
                },
            );
        });
    }
}

/// One worker's part of an update of all elements. The code that creates it ensures that the range
/// lies within the elements, that no other part that runs at the same time shares one of them, that
/// the operands of the pass are of the formula's type and its contributions of type `G`, and that
/// its sum is usual.
struct UpdateRange<'a, G, F, const SLOTS: usize> {
    pass: &'a UpdatePass<'a>,
    range: Range<usize>,
    formula: F,
    gradient: PhantomData<G>,
}

impl<G: GradientElement, F: Formula<SLOTS>, const SLOTS: usize> Kernel
    for UpdateRange<'_, G, F, SLOTS>
{
    const IS_SPECIAL: bool = true;

    #[inline(always)]
    fn run(self, instructions: Instructions) {
        let sum = self.pass.sum();
        sum.run_usual::<G, F::Element>(instructions, sum.finish(), self);
    }
}

impl<G: GradientElement, F: Formula<SLOTS>, const SLOTS: usize> GradientLoop<F::Element>
    for UpdateRange<'_, G, F, SLOTS>
{
    #[inline(always)]
    fn run<W: MakeGradients<F::Element>>(self, instructions: Instructions, gradients: W) {
        let UpdateRange {
            pass,
            range,
            formula,
            ..
        } = self;
        let weights = pass.weights().data().cast();
        let slots = pass
            .slots::<SLOTS>()
            .each_ref()
            .map(|slot| slot.data().cast());
        let operands = Operands {
            weights,
            slots,
            formula,
        };
        let mut traces = FiniteMask::new();
        let mut start = range.start;
        while range.end - start >= BLOCK {
            // Processors predict passes over three arrays well enough, and prefetching these makes
            // them slower.
            if const { W::ARRAYS.saturating_add(SLOTS) > 2 } {
                operands.prefetch(start);
                gradients.prefetch(start);
            }
            // SAFETY: `BLOCK` elements from `start` on are in the range, which only this part uses.
            unsafe {
                let gradient = gradients.block::<BLOCK>(instructions, start);
                traces.see_block(gradient);
                operands.update(gradient, start);
            }
            start += BLOCK;
        }
        while start < range.end {
            // SAFETY: the element is in the range, which only this part uses.
            unsafe {
                let gradient = gradients.block::<1>(instructions, start);
                traces.see(gradient);
                operands.update(gradient, start);
            }
            start += 1;
        }
        traces.note(pass.not_finite);
    }
}

/// The update of tiles, whose gradients are in memory. The code that creates it ensures that they
/// are of the formula's type, and have its slots.
struct UpdateTiles<'a, F, const SLOTS: usize> {
    tiles: &'a TileRows<'a>,
    formula: F,
    /// Whether what lies behind a tile in memory comes next.
    goes_on: bool,
}

impl<F: Formula<SLOTS>, const SLOTS: usize> Kernel for UpdateTiles<'_, F, SLOTS> {
    const WIDEST: InstructionSet = InstructionSet::Avx2;

    #[inline(always)]
    fn run(self, _: Instructions) {
        let UpdateTiles {
            tiles,
            formula,
            goes_on,
        } = self;
        let mut slots = [std::ptr::null_mut(); SLOTS];
        for (pointer, slot) in slots.iter_mut().zip(tiles.slots) {
            *pointer = slot.cast();
        }
        let operands = Operands {
            weights: tiles.weights.cast(),
            slots,
            formula,
        };
        let elements = tiles.columns.len();
        let mut gradient = tiles.gradient.cast::<F::Element>();
        for mut place in tiles.places() {
            let end = place + elements;
            while end - place >= BLOCK {
                if goes_on {
                    operands.prefetch(place);
                }
                // SAFETY: `BLOCK` elements from here on are in the tile, which only this call uses.
                unsafe {
                    operands.update(gradient.cast::<[_; BLOCK]>().read(), place);
                    gradient = gradient.add(BLOCK);
                }
                place += BLOCK;
            }
            while end - place >= PART {
                // SAFETY: as above.
                unsafe {
                    operands.update(gradient.cast::<[_; PART]>().read(), place);
                    gradient = gradient.add(PART);
                }
                place += PART;
            }
            while place < end {
                // SAFETY: the element is in the tile, which only this call uses.
                unsafe {
                    operands.update([gradient.read()], place);
                    gradient = gradient.add(1);
                }
                place += 1;
            }
        }
    }
}

/// The operands of a loop except the gradients, as values that it keeps in registers.
struct Operands<F: Formula<SLOTS>, const SLOTS: usize> {
    weights: *mut F::Element,
    slots: [*mut F::Element; SLOTS],
    formula: F,
}

impl<F: Formula<SLOTS>, const SLOTS: usize> Operands<F, SLOTS> {
    /// Prefetches what a pass over all elements needs some blocks after the one from `start` on.
    #[inline(always)]
    fn prefetch(&self, start: usize) {
        let ask = |first: *mut F::Element| {
            let from = first
                .wrapping_add(start)
                .cast::<u8>()
                .wrapping_add(BYTES_AHEAD);
            prefetch(from, BLOCK * size_of::<F::Element>());
        };
        ask(self.weights);
        self.slots.into_iter().for_each(ask);
    }

    /// Updates the `N` elements from `place` on, at most [`BLOCK`]. All loads come before all
    /// stores, so that the compiler need not check whether buffers overlap.
    ///
    /// # Safety
    /// These elements exist, and no other call uses one of them at the same time.
    #[inline(always)]
    unsafe fn update<const N: usize>(&self, gradient: [F::Element; N], place: usize) {
        let block = |data: *mut F::Element| data.wrapping_add(place).cast::<[F::Element; N]>();
        let weights = block(self.weights);
        let slots = self.slots.map(block);
        // SAFETY: weights and slots have at least `place + N` elements of this type. They are
        // variables and their state, and so initialised. Only this call uses these elements
        // now.
        let (mut weight, mut state) = unsafe { (weights.read(), slots.map(|slot| slot.read())) };
        for index in 0..N {
            let before = state.each_ref().map(|slot| slot[index]);
            let (new_weight, after) = self.formula.apply(weight[index], before, gradient[index]);
            weight[index] = new_weight;
            for (slot, new) in state.iter_mut().zip(after) {
                slot[index] = new;
            }
        }
        // SAFETY: as for the reads; the views' builders guaranteed writing.
        unsafe {
            weights.write(weight);
            for (slot, state) in slots.into_iter().zip(state) {
                slot.write(state);
            }
        }
    }
}
