//! Adding contributions of one run to a float64 sum that an update some runs later starts from.
//!
//! The sum has eight bytes an element whatever the gradient's type. So the additions of several
//! runs are those that one run with all of their contributions would do, in the same order, and
//! give the same bits. A run costs R·g + 16 bytes an element, the first one R·g + 8.

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::device::cpu::workers;
use crate::kernels::dtype::DType;
use crate::kernels::instruction_set::{Kernel, dispatch};
use crate::kernels::update::{Real, for_real};
use crate::kernels::view::ViewMut;
use crate::kernels::weighted_sum::Contribution;

/// `sum` ← `sum` + Σ factor × gradient over `contributions`, or, if it is `fresh`, the latter alone
/// (what it held before is not read).
///
/// Asserted, not reported: `sum` is float64, all are contiguous and of one length, and the
/// contributions of one dtype that can be updated.
pub fn accumulate(sum: &ViewMut, fresh: bool, contributions: &[Contribution]) {
    let elements = sum.layout().shape.elements();
    assert!(sum.layout().is_contiguous() && sum.dtype() == DType::Float64);
    let dtype = contributions.first().map_or(DType::Float64, |part| part.gradient.dtype());
    for part in contributions {
        let layout = part.gradient.layout();
        assert!(layout.is_contiguous() && layout.shape.elements() == elements);
        assert_eq!(part.gradient.dtype(), dtype);
    }
    for_real!(dtype, T => {
        let bytes = contributions.len() * size_of::<T>() + 2 * size_of::<f64>();
        workers::for_each_range(elements, bytes, &|range| {
            let sum = sum.data().cast::<MaybeUninit<f64>>().wrapping_add(range.start);
            // SAFETY: the view promises exclusive elements, of which this worker has the range.
            let sum = unsafe { std::slice::from_raw_parts_mut(sum, range.len()) };
            let element = std::marker::PhantomData::<T>;
            dispatch(Part { sum, fresh, contributions, range, element });
        });
    });
}

/// One worker's part: the elements of the sum in the range. The contributions have the range, too,
/// and are of type `T`. A sum that is not fresh is initialised.
struct Part<'a, T> {
    sum: &'a mut [MaybeUninit<f64>],
    fresh: bool,
    contributions: &'a [Contribution],
    range: Range<usize>,
    element: std::marker::PhantomData<T>,
}

impl<T: Real> Kernel for Part<'_, T> {
    #[inline(always)]
    fn run(self) {
        const TILE: usize = 512;
        let starts = self.range.clone().step_by(TILE);
        for (sum, start) in self.sum.chunks_mut(TILE).zip(starts) {
            if self.fresh {
                sum.fill(MaybeUninit::new(0.0));
            }
            for part in self.contributions {
                let first = part.gradient.data().cast::<T>().wrapping_add(start);
                // SAFETY: the tile lies in the range, and the view's builder vouched for reading.
                let gradient = unsafe { std::slice::from_raw_parts(first, sum.len()) };
                for (sum, gradient) in sum.iter_mut().zip(gradient) {
                    // SAFETY: filled just now, or initialised by an earlier run.
                    let before = unsafe { sum.assume_init() };
                    sum.write(before + part.factor * gradient.to_f64());
                }
            }
        }
    }
}
