//! Adding the contributions of one run to a float64 sum, from which an update some runs later
//! starts.
//!
//! The sum has eight bytes an element, whatever the gradient's type. One run with all of the
//! contributions of several runs would do the same additions in the same order, so the bits are the
//! same. A run costs R·g + 16 bytes an element, the first run R·g + 8.

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::dtype::DType;
use crate::float::gradient_element::{GradientElement, for_gradient_dtype};
use crate::instruction_set::{Instructions, Kernel, dispatch, keep_to_blocks};
use crate::update::weighted_sum::{Contribution, common_dtype};
use crate::view::SpanMut;
use umbo_executor::pieces::PiecePart;

/// Sets `sum` to `sum` + Σ factor × gradient over `contributions`, for the elements of `part`, on
/// this thread. If `fresh`, it sets `sum` to the second term alone, and does not read what `sum`
/// held before.
///
/// Asserted, not reported: `sum` is float64; there is at least one contribution; the contributions
/// are of one type and of the length of `sum`.
///
/// # Safety
/// Nobody else reads or writes the elements of the part in `sum` meanwhile.
pub unsafe fn accumulate(
    instructions: Instructions,
    sum: &SpanMut,
    fresh: bool,
    contributions: &[Contribution],
    part: PiecePart,
) {
    let elements = sum.elements();
    let range = part.range();
    assert!(sum.dtype() == DType::Float64 && range.end <= elements);
    let dtype = common_dtype(contributions, elements).expect("a sum is of something");
    let sum = sum
        .data()
        .cast::<MaybeUninit<f64>>()
        .wrapping_add(range.start);
    // SAFETY: the span has the range, and the caller guarantees that nobody else uses it.
    let sum = unsafe { std::slice::from_raw_parts_mut(sum, range.len()) };
    for_gradient_dtype!(dtype, G => {
        let element = std::marker::PhantomData::<G>;
        dispatch(instructions, AccumulatedRange { sum, fresh, contributions, range, element });
    });
}

/// The elements of the sum in the range. The contributions have the range, too, and are of type
/// `G`. If the sum is not fresh, it is initialised.
struct AccumulatedRange<'a, G> {
    sum: &'a mut [MaybeUninit<f64>],
    fresh: bool,
    contributions: &'a [Contribution<'a>],
    range: Range<usize>,
    element: std::marker::PhantomData<G>,
}

impl<G: GradientElement> Kernel for AccumulatedRange<'_, G> {
    #[inline(always)]
    fn run(self, instructions: Instructions) {
        const TILE: usize = 512;
        let starts = self.range.clone().step_by(TILE);
        for (sum, start) in self.sum.chunks_mut(TILE).zip(starts) {
            if self.fresh {
                sum.fill(MaybeUninit::new(-0.0));
            }
            for part in self.contributions {
                let first = part.gradient.data().cast::<G>().wrapping_add(start);
                // SAFETY: the tile lies in the range, and the view's builder guaranteed reading.
                let gradient = unsafe { std::slice::from_raw_parts(first, sum.len()) };
                add(instructions, sum, part.factor, gradient);
            }
        }
    }
}

/// The caller has initialised `sum`.
#[inline(always)]
fn add<G: GradientElement>(
    instructions: Instructions,
    sum: &mut [MaybeUninit<f64>],
    factor: f64,
    gradient: &[G],
) {
    const BLOCK: usize = 16;
    let (sums, last_sums) = sum.as_chunks_mut::<BLOCK>();
    let (gradients, last_gradients) = gradient.as_chunks::<BLOCK>();
    for (sum, gradient) in sums.iter_mut().zip(gradients) {
        add_block(instructions, sum, factor, *gradient);
        keep_to_blocks();
    }
    for (sum, gradient) in last_sums.iter_mut().zip(last_gradients) {
        add_block(instructions, std::array::from_mut(sum), factor, [*gradient]);
    }
}

#[inline(always)]
fn add_block<G: GradientElement, const N: usize>(
    instructions: Instructions,
    sum: &mut [MaybeUninit<f64>; N],
    factor: f64,
    gradient: [G; N],
) {
    for (sum, gradient) in sum.iter_mut().zip(G::widened(instructions, gradient)) {
        // SAFETY: the caller has initialised it.
        let before = unsafe { sum.assume_init() };
        sum.write(before + factor * gradient);
    }
}
