//! The loops of updates: block by block over a range of elements, or over rows of a table.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::kernels::float::gradient_element::GradientElement;
use crate::kernels::float::real::Real;
use crate::kernels::instruction_set::{Instructions, Kernel};
use crate::kernels::prefetch::{ROWS_AHEAD, prefetch};
use crate::kernels::update::formula::Formula;
use crate::kernels::update::weighted_sum::{
    Any, Contribution, Finish, GradientLoop, Way, WeightedSum,
};
use crate::kernels::view::SpanMut;

/// Elements that go through the registers together: one cache line of float32.
const BLOCK: usize = 16;

/// An update with everything that it needs filled in. Whoever makes it has checked that sum,
/// weights and slots belong together, and that the contributions are of type `G`.
pub(super) struct Update<'a, G, F: Formula<SLOTS>, const SLOTS: usize> {
    pub(super) weights: &'a SpanMut<'a>,
    pub(super) slots: &'a [SpanMut<'a>; SLOTS],
    pub(super) sum: &'a WeightedSum<'a>,
    pub(super) finish: Finish<F::Element>,
    pub(super) l2: Option<F::Element>,
    pub(super) formula: F,
    /// What is set if an element of the gradient is not finite.
    pub(super) not_finite: Option<&'a AtomicBool>,
    pub(super) gradient: PhantomData<G>,
}

/// One worker's part of an update. Whoever makes it sees to it that the range lies within the
/// elements and that no other part that runs at the same time shares one of them.
pub(super) struct UpdateRange<'a, G, F: Formula<SLOTS>, const SLOTS: usize> {
    pub(super) update: &'a Update<'a, G, F, SLOTS>,
    pub(super) range: Range<usize>,
}

impl<G: GradientElement, F: Formula<SLOTS>, const SLOTS: usize> Kernel
    for UpdateRange<'_, G, F, SLOTS>
{
    #[inline(always)]
    fn run(self, instructions: Instructions) {
        let Update { sum, finish, l2, .. } = self.update;
        sum.run::<G, _>(instructions, *finish, l2.is_none() && !F::IS_RARE, self);
    }
}

impl<G: GradientElement, F: Formula<SLOTS>, const SLOTS: usize> GradientLoop
    for UpdateRange<'_, G, F, SLOTS>
{
    #[inline(always)]
    fn run<'c>(
        self,
        instructions: Instructions,
        contributions: impl AsRef<[Contribution<'c>]>,
        way: impl Way,
    ) {
        let UpdateRange { update, range } = self;
        let contributions = contributions.as_ref();
        let mut traces = Traces::new();
        let mut start = range.start;
        while range.end - start >= BLOCK {
            // SAFETY: `BLOCK` elements from `start` on are in the range, which is this part's.
            unsafe {
                update_block::<G, F, SLOTS, BLOCK>(
                    instructions,
                    update,
                    contributions,
                    way,
                    start,
                    start,
                    &mut traces.blocks,
                )
            };
            start += BLOCK;
        }
        while start < range.end {
            // SAFETY: the element is in the range, which is this part's.
            unsafe {
                update_block::<G, F, SLOTS, 1>(
                    instructions,
                    update,
                    contributions,
                    way,
                    start,
                    start,
                    &mut traces.singles,
                )
            };
            start += 1;
        }
        traces.tell(update.not_finite);
    }
}

/// One worker's part of an update of some rows: those of `rows` that are in the range, whose
/// gradients are the same rows of the sum. Whoever makes it sees to it that no other part that runs
/// at the same time has one of them. The rows behind the range are this worker's next ones.
pub(super) struct UpdateRows<'a, F: Formula<SLOTS>, const SLOTS: usize> {
    pub(super) update: &'a Update<'a, F::Element, F, SLOTS>,
    pub(super) rows: &'a [usize],
    pub(super) range: Range<usize>,
    /// Of one row.
    pub(super) elements: usize,
}

impl<F: Formula<SLOTS>, const SLOTS: usize> Kernel for UpdateRows<'_, F, SLOTS> {
    #[inline(always)]
    fn run(self, instructions: Instructions) {
        let UpdateRows { update, rows, range, elements } = self;
        let mut traces = Traces::new();
        for position in range {
            if let Some(next) = rows.get(position + ROWS_AHEAD) {
                let bytes = elements * size_of::<F::Element>();
                for view in std::iter::once(update.weights).chain(update.slots) {
                    prefetch(view.data().wrapping_add(next * bytes), bytes);
                }
            }
            let (start, place) = (position * elements, rows[position] * elements);
            let mut done = 0;
            while elements - done >= BLOCK {
                let (start, place) = (start + done, place + done);
                // SAFETY: the sum and the weights have these elements of the row, which is this
                // part's (`Pass::run_at` asserted that rows exist and differ).
                unsafe {
                    update_block::<_, F, SLOTS, BLOCK>(
                        instructions,
                        update,
                        &[],
                        Any,
                        start,
                        place,
                        &mut traces.blocks,
                    )
                };
                done += BLOCK;
            }
            while done < elements {
                // SAFETY: as above.
                unsafe {
                    update_block::<_, F, SLOTS, 1>(
                        instructions,
                        update,
                        &[],
                        Any,
                        start + done,
                        place + done,
                        &mut traces.singles,
                    )
                };
                done += 1;
            }
        }
        traces.tell(update.not_finite);
    }
}

/// What gradients that are not finite leave behind, which costs a loop no branch: each lane holds 0 as
/// long as the gradients that went through it were finite, and is NaN from the first on that was not.
struct Traces<T> {
    blocks: [T; BLOCK],
    singles: [T; 1],
}

impl<T: Real> Traces<T> {
    #[inline(always)]
    fn new() -> Traces<T> {
        Traces { blocks: [T::from_f64(0.0); BLOCK], singles: [T::from_f64(0.0)] }
    }

    #[inline(always)]
    fn tell(self, not_finite: Option<&AtomicBool>) {
        let zero = T::from_f64(0.0);
        // What is not 0 is NaN.
        if let Some(not_finite) = not_finite
            && self.blocks.iter().chain(&self.singles).any(|lane| *lane != zero)
        {
            not_finite.store(true, Ordering::Relaxed);
        }
    }
}

/// All loads come before all stores, so that the compiler need not ask whether buffers overlap.
///
/// `contributions` and `way` are as a [`GradientLoop`] over the update's sum gets them. With L2 the way
/// is [`Any`].
///
/// # Safety
/// The `N` elements of the gradient from `start` on exist, and those of weights and slots from
/// `place` on, and no other call at the same time has one of the latter.
#[inline(always)]
unsafe fn update_block<
    G: GradientElement,
    F: Formula<SLOTS>,
    const SLOTS: usize,
    const N: usize,
>(
    instructions: Instructions,
    update: &Update<'_, G, F, SLOTS>,
    contributions: &[Contribution],
    way: impl Way,
    start: usize,
    place: usize,
    trace: &mut [F::Element; N],
) {
    let block = |data: *mut u8| data.cast::<F::Element>().wrapping_add(place).cast();
    // SAFETY: the sum has these elements, and its contributions are of type `G`, as `Pass::update`
    // asserted.
    let mut gradient = unsafe {
        update.sum.block::<G, _, N>(instructions, contributions, way, update.finish, start)
    };
    let zero = F::Element::from_f64(0.0);
    for (trace, gradient) in trace.iter_mut().zip(gradient) {
        // 0 for what is finite, NaN for the rest.
        *trace = *trace + gradient * zero;
    }

    let weights: *mut [F::Element; N] = block(update.weights.data());
    let slots: [*mut [F::Element; N]; SLOTS] =
        update.slots.each_ref().map(|slot| block(slot.data()));
    // SAFETY: weights and slots hold at least `place + N` elements of this type, initialised since
    // they are variables and their state, and only this call has these elements now.
    let (mut weight, mut state) = unsafe { (weights.read(), slots.map(|slot| slot.read())) };
    if way.reciprocal().is_none()
        && let Some(l2) = update.l2
    {
        for (gradient, weight) in gradient.iter_mut().zip(weight) {
            *gradient = *gradient + l2 * weight;
        }
    }
    for index in 0..N {
        let before = state.each_ref().map(|slot| slot[index]);
        let (new_weight, after) = update.formula.apply(weight[index], before, gradient[index]);
        weight[index] = new_weight;
        for (slot, new) in state.iter_mut().zip(after) {
            slot[index] = new;
        }
    }
    // SAFETY: as for the reads; the views' builders vouched for writing.
    unsafe {
        weights.write(weight);
        for (slot, state) in slots.into_iter().zip(state) {
            slot.write(state);
        }
    }
}
