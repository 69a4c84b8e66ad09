//! Moving averages of weights, which an update carries along: with the weight r of the newest
//! weights w, average ← average − r·(average − w). This is an exponential moving average where r is
//! 1 − decay, and the plain mean of n weights where r is 1/n.
//!
//! With r = 1 the average becomes a copy of the weights. Every operation is rounded by itself, so
//! that the bits depend on neither the split into ranges nor the instruction set. On GPUs the rule
//! `sgd` of the table computes the same: the average is its weight, r its learning rate, and
//! average − w its gradient.

use std::ops::Range;

use crate::dtype::Element;
use crate::float::real::{Real, for_real};
use crate::instruction_set::{InstructionSet, Instructions, Kernel, dispatch};
use crate::prefetch::{BYTES_AHEAD, prefetch};
use crate::streaming::LINE;
use crate::view::{Span, SpanMut};

/// The average that a pass carries along.
#[derive(Debug)]
pub struct Average<'a> {
    /// The average of each weight: of the weights' dtype, and as many.
    pub values: SpanMut<'a>,
    /// The weight of the newest weights in the average: more than 0, at most 1.
    pub newest: f64,
}

impl Average<'_> {
    /// Moves the elements `range` of the average towards those of `weights`, on this thread.
    ///
    /// Asserted, not reported: both are of one dtype and length, and the range lies within.
    ///
    /// # Safety
    /// Nobody else reads or writes these elements of the average meanwhile, and nobody writes those
    /// of the weights.
    pub unsafe fn follow(&self, instructions: Instructions, weights: Span, range: Range<usize>) {
        let Average { values, newest } = self;
        let kinds = [
            (weights.dtype(), weights.elements()),
            (values.dtype(), values.elements()),
        ];
        assert!(kinds[0] == kinds[1] && range.start <= range.end && range.end <= kinds[0].1);
        for_real!(values.dtype(), T => {
            // SAFETY: the elements exist, since the range lies within, and the caller promises
            // that nobody else uses them. Average and weights are different memory.
            let (average, weights) = unsafe {
                let average = values.data().cast::<T>().add(range.start);
                let weights = weights.data().cast::<T>().add(range.start);
                (
                    std::slice::from_raw_parts_mut(average, range.len()),
                    std::slice::from_raw_parts(weights, range.len()),
                )
            };
            match *newest {
                1.0 => average.copy_from_slice(weights),
                _ => {
                    let newest = T::from_f64(*newest);
                    dispatch(instructions, Following { average, weights, newest });
                }
            }
        });
    }
}

struct Following<'a, T> {
    average: &'a mut [T],
    weights: &'a [T],
    newest: T,
}

impl<T: Real + Element> Kernel for Following<'_, T> {
    const WIDEST: InstructionSet = InstructionSet::Avx2;

    #[inline(always)]
    fn run(self, _: Instructions) {
        let newest = self.newest;
        let line = LINE / size_of::<T>();
        let blocks = self.average.chunks_mut(line).zip(self.weights.chunks(line));
        for (average, weights) in blocks {
            // Tiles come one after the other, so that what lies behind this one is needed next.
            prefetch(
                average.as_ptr().cast::<u8>().wrapping_add(BYTES_AHEAD),
                LINE,
            );
            for (average, &weight) in average.iter_mut().zip(weights) {
                *average = *average - newest * (*average - weight);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Layout, Shape};
    use crate::view::ViewMut;

    fn followed<T: Real>(instructions: Instructions, newest: f64, part: usize) -> Vec<T> {
        let numbers =
            |factor: f64| (0..100).map(move |i| T::from_f64(f64::from(i % 7) * factor - 1.0));
        let mut average: Vec<T> = numbers(0.37).collect();
        let mut weights: Vec<T> = numbers(-1.7).collect();
        let layout = Layout::row_major(Shape::new(&[100]).unwrap());
        // SAFETY: the spans are used while this function has both vectors, and nobody else.
        let [values, weights] = [&mut average, &mut weights].map(|data| unsafe {
            ViewMut::new(data.as_mut_ptr().cast(), T::DTYPE, layout)
                .into_span()
                .unwrap()
        });
        let followed = Average { values, newest };
        for start in (0..100).step_by(part) {
            let range = start..(start + part).min(100);
            // SAFETY: as above.
            unsafe { followed.follow(instructions, weights.reading(), range) };
        }
        average
    }

    #[test]
    fn bits_depend_on_neither_ranges_nor_instructions() {
        for instructions in Instructions::all() {
            for part in [1, 7, 16, 100] {
                let averages = |newest| followed::<f32>(instructions, newest, part);
                for (i, average) in averages(0.3).into_iter().enumerate() {
                    let (before, weight) = of_index(i);
                    assert_eq!(average, before - 0.3 * (before - weight), "{i}");
                }
                for (i, average) in averages(1.0).into_iter().enumerate() {
                    assert_eq!(average, of_index(i).1, "{i}");
                }
            }
        }
    }

    fn of_index(i: usize) -> (f32, f32) {
        let number = |factor: f64| ((i % 7) as f64 * factor - 1.0) as f32;
        (number(0.37), number(-1.7))
    }
}
