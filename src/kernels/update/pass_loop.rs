//! The loops of updates: block by block over a range of elements, or over rows of a table.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::kernels::float::gradient_element::GradientElement;
use crate::kernels::float::lanes::BLOCK;
use crate::kernels::float::real::Real;
use crate::kernels::instruction_set::{InstructionSet, Instructions, Kernel, widest_for};
use crate::kernels::prefetch::{BYTES_AHEAD, ROWS_AHEAD, prefetch};
use crate::kernels::update::formula::Formula;
use crate::kernels::update::gradients::{GradientLoop, MakeGradients};
use crate::kernels::update::weighted_sum::{Finish, WeightedSum};
use crate::kernels::view::SpanMut;

/// An update with all of its operands. The code that creates it has checked that sum, weights and slots fit each
/// other, and that the contributions are of type `G`.
pub(super) struct LoopUpdate<'a, G, F: Formula<SLOTS>, const SLOTS: usize> {
    pub(super) weights: &'a SpanMut<'a>,
    pub(super) slots: &'a [SpanMut<'a>; SLOTS],
    pub(super) sum: &'a WeightedSum<'a>,
    pub(super) finish: Finish<F::Element>,
    pub(super) l2: Option<F::Element>,
    pub(super) formula: F,
    /// The flag that is set if an element of the gradient is not finite.
    pub(super) not_finite: Option<&'a AtomicBool>,
    pub(super) gradient: PhantomData<G>,
}

/// One worker's part of an update. The code that creates it ensures that the range lies within the elements, and that
/// no other part that runs at the same time shares one of them.
pub(super) struct UpdateRange<'a, G, F: Formula<SLOTS>, const SLOTS: usize> {
    pub(super) update: &'a LoopUpdate<'a, G, F, SLOTS>,
    pub(super) range: Range<usize>,
}

impl<G: GradientElement, F: Formula<SLOTS>, const SLOTS: usize> Kernel
    for UpdateRange<'_, G, F, SLOTS>
{
    const WIDEST: InstructionSet = widest_for::<F::Element>();

    #[inline(always)]
    fn run(self, instructions: Instructions) {
        let LoopUpdate { sum, finish, l2, .. } = self.update;
        sum.run::<G, _>(instructions, *finish, l2.is_none() && !F::IS_RARE, self);
    }
}

impl<G: GradientElement, F: Formula<SLOTS>, const SLOTS: usize> GradientLoop<F::Element>
    for UpdateRange<'_, G, F, SLOTS>
{
    #[inline(always)]
    fn run<W: MakeGradients<F::Element>>(self, instructions: Instructions, gradients: W) {
        let UpdateRange { update, range } = self;
        let l2 = if W::IS_USUAL { None } else { update.l2 };
        let mut pass = Operands::of(update, l2);
        let mut start = range.start;
        while range.end - start >= BLOCK {
            pass.prefetch(start);
            // SAFETY: `BLOCK` elements from `start` on are in the range, which only this part uses.
            unsafe {
                let gradient = gradients.block::<BLOCK>(instructions, start);
                pass.traces.see_block(gradient);
                pass.update(gradient, start);
            }
            start += BLOCK;
        }
        while start < range.end {
            // SAFETY: the element is in the range, which only this part uses.
            unsafe {
                let gradient = gradients.block::<1>(instructions, start);
                pass.traces.see(gradient);
                pass.update(gradient, start);
            }
            start += 1;
        }
        pass.traces.note(update.not_finite);
    }
}

/// One worker's part of an update of some rows: the rows of `rows` that are in the range. Their gradients are the
/// same rows of the sum. The code that creates it ensures that no other part that runs at the same time has one of
/// them. The rows after the range are this worker's next ones.
pub(super) struct UpdateRows<'a, F: Formula<SLOTS>, const SLOTS: usize> {
    pub(super) update: &'a LoopUpdate<'a, F::Element, F, SLOTS>,
    pub(super) rows: &'a [usize],
    pub(super) range: Range<usize>,
    /// The elements of one row.
    pub(super) elements: usize,
}

impl<F: Formula<SLOTS>, const SLOTS: usize> Kernel for UpdateRows<'_, F, SLOTS> {
    const WIDEST: InstructionSet = widest_for::<F::Element>();

    #[inline(always)]
    fn run(self, instructions: Instructions) {
        let UpdateRows { update, rows, range, elements } = self;
        let gradients = update.sum.every::<F::Element, _>(update.finish);
        let mut pass = Operands::of(update, update.l2);
        for position in range {
            if let Some(next) = rows.get(position + ROWS_AHEAD) {
                let bytes = elements * size_of::<F::Element>();
                for first in std::iter::once(pass.weights).chain(pass.slots) {
                    prefetch(first.cast::<u8>().wrapping_add(next * bytes), bytes);
                }
            }
            let (start, place) = (position * elements, rows[position] * elements);
            let mut done = 0;
            while elements - done >= BLOCK {
                // SAFETY: the sum and the weights have these elements of the row, which only this part uses (the pass
                // asserted in `UpdatePass::check_rows` that the rows exist and differ).
                unsafe {
                    let gradient = gradients.block::<BLOCK>(instructions, start + done);
                    pass.traces.see_block(gradient);
                    pass.update(gradient, place + done);
                }
                done += BLOCK;
            }
            while done < elements {
                // SAFETY: as above.
                unsafe {
                    let gradient = gradients.block::<1>(instructions, start + done);
                    pass.traces.see(gradient);
                    pass.update(gradient, place + done);
                }
                done += 1;
            }
        }
        pass.traces.note(update.not_finite);
    }
}

/// The operands of a loop except the gradients, as values that it keeps in registers.
struct Operands<F: Formula<SLOTS>, const SLOTS: usize> {
    weights: *mut F::Element,
    slots: [*mut F::Element; SLOTS],
    l2: Option<F::Element>,
    formula: F,
    traces: Traces<F::Element>,
}

impl<F: Formula<SLOTS>, const SLOTS: usize> Operands<F, SLOTS> {
    #[inline(always)]
    fn of<G>(update: &LoopUpdate<'_, G, F, SLOTS>, l2: Option<F::Element>) -> Operands<F, SLOTS> {
        Operands {
            weights: update.weights.data().cast(),
            slots: update.slots.each_ref().map(|slot| slot.data().cast()),
            l2,
            formula: update.formula,
            traces: Traces::new(),
        }
    }

    /// Prefetches what a pass over all elements needs some blocks after the one from `start` on.
    #[inline(always)]
    fn prefetch(&self, start: usize) {
        let ask = |first: *mut F::Element| {
            let from = first.wrapping_add(start).cast::<u8>().wrapping_add(BYTES_AHEAD);
            prefetch(from, BLOCK * size_of::<F::Element>());
        };
        ask(self.weights);
        self.slots.into_iter().for_each(ask);
    }

    /// Updates the `N` elements from `place` on, at most [`BLOCK`]. All loads come before all stores, so that the
    /// compiler need not check whether buffers overlap.
    ///
    /// # Safety
    /// These elements exist, and no other call uses one of them at the same time.
    #[inline(always)]
    unsafe fn update<const N: usize>(&mut self, mut gradient: [F::Element; N], place: usize) {
        let block = |data: *mut F::Element| data.wrapping_add(place).cast::<[F::Element; N]>();
        let (weights, slots) = (block(self.weights), self.slots.map(block));
        // SAFETY: weights and slots have at least `place + N` elements of this type. They are variables and their
        // state, and so initialised. Only this call uses these elements now.
        let (mut weight, mut state) = unsafe { (weights.read(), slots.map(|slot| slot.read())) };
        if let Some(l2) = self.l2 {
            for (gradient, weight) in gradient.iter_mut().zip(weight) {
                *gradient = *gradient + l2 * weight;
            }
        }
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

/// Records whether gradients are finite, without a branch in the loop. Each lane holds 0 as long as all gradients in
/// it were finite, and is NaN from the first that was not.
pub(super) struct Traces<T> {
    blocks: [T; BLOCK],
    single: [T; 1],
}

impl<T: Real> Traces<T> {
    #[inline(always)]
    pub(super) fn new() -> Traces<T> {
        Traces { blocks: [T::from_f64(0.0); BLOCK], single: [T::from_f64(0.0)] }
    }

    #[inline(always)]
    pub(super) fn see_block(&mut self, gradient: [T; BLOCK]) {
        leave(&mut self.blocks, gradient);
    }

    #[inline(always)]
    pub(super) fn see(&mut self, gradient: [T; 1]) {
        leave(&mut self.single, gradient);
    }

    /// Sets the flag if a gradient was not finite.
    #[inline(always)]
    pub(super) fn note(self, not_finite: Option<&AtomicBool>) {
        let zero = T::from_f64(0.0);
        // A lane that is not 0 is NaN.
        if let Some(not_finite) = not_finite
            && self.blocks.iter().chain(&self.single).any(|lane| *lane != zero)
        {
            not_finite.store(true, Ordering::Relaxed);
        }
    }
}

/// Adds 0 to the lane of a finite element, and NaN to the lane of any other.
#[inline(always)]
fn leave<T: Real, const N: usize>(traces: &mut [T; N], gradient: [T; N]) {
    let zero = T::from_f64(0.0);
    for (trace, gradient) in traces.iter_mut().zip(gradient) {
        *trace = *trace + gradient * zero;
    }
}
