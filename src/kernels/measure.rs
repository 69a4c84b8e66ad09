//! Sums over the elements of one variable's update, before anything is updated: norms.
//!
//! A sum is float64 and its order of additions depends on the number of elements alone: tiles of
//! 1024 elements are added in 16 interleaved lanes, which are added in halves; tiles follow each
//! other within a chunk, and chunks within the variable. So threads and instruction sets do not
//! show in the bits.

use std::array;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::cpu::workers;
use crate::kernels::dtype::Element;
use crate::kernels::instruction_set::{Kernel, dispatch};
use crate::kernels::update::{Pass, Real, for_real};
use crate::kernels::view::ViewMut;
use crate::kernels::weighted_sum::{Finish, WeightedSum};

/// Elements of one tile.
const TILE: usize = 1024;

/// Interleaved sums within a tile.
const LANES: usize = 16;

/// The most chunks that a variable is cut into.
const CHUNKS: usize = 64;

/// Elements of the smallest chunk.
const SMALLEST_CHUNK: usize = 16 * TILE;

/// What is added up over the elements. Implementations are marked `#[inline(always)]`; what they
/// do not use is not read from memory.
pub trait Measure<const SLOTS: usize, const SUMS: usize>: Copy + Sync {
    /// The type of the elements.
    type Element: Real;

    /// What one element adds to each of the sums.
    fn of(
        self,
        weight: Self::Element,
        slots: [Self::Element; SLOTS],
        gradient: Self::Element,
    ) -> [f64; SUMS];
}

/// What [`WeightedSum::squares`] finds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Squares {
    /// The sum of the squares of all elements. Infinite also where it is past float64.
    pub sum: f64,
    /// Whether every element, rounded to its type, is finite.
    pub finite: bool,
}

impl WeightedSum<'_> {
    /// The squares of the gradient that this sum makes. Nothing is allocated.
    pub fn squares(&self) -> Squares {
        let finish = self.finish();
        let [sum, finite] = for_real!(self.dtype, T => {
            add_up(self.elements, self.bytes::<T>(), &GradientSquares::<T> {
                sum: self,
                finish,
                element: PhantomData,
            })
        });
        Squares { sum, finite: finite == 0.0 }
    }
}

impl Pass<'_> {
    /// The sums of `measure` over all elements, on the workers. The gradient that it sees is the
    /// one that an update would use, without the L2 term. Nothing is written or allocated. Asserted:
    /// the pass is one over the whole variable.
    pub fn measure<M: Measure<SLOTS, SUMS>, const SLOTS: usize, const SUMS: usize>(
        &self,
        measure: M,
    ) -> [f64; SUMS] {
        assert!(self.is_whole());
        assert_eq!(self.dtype(), <M::Element as Element>::DTYPE);
        let (slots, sum) = (self.slots::<SLOTS>(), self.sum());
        let bytes = sum.bytes::<M::Element>() + (1 + SLOTS) * size_of::<M::Element>();
        let terms =
            PassTerms { weights: self.weights(), slots, sum, finish: sum.finish(), measure };
        add_up(sum.elements, bytes, &terms)
    }
}

/// What the elements add to the sums.
trait Terms<const SUMS: usize>: Sync {
    /// The terms of the `N` elements from `start` on.
    ///
    /// # Safety
    /// The elements exist.
    unsafe fn of<const N: usize>(&self, start: usize) -> [[f64; N]; SUMS];
}

struct GradientSquares<'a, T> {
    sum: &'a WeightedSum<'a>,
    finish: Finish,
    element: PhantomData<T>,
}

impl<T: Real> Terms<2> for GradientSquares<'_, T> {
    #[inline(always)]
    unsafe fn of<const N: usize>(&self, start: usize) -> [[f64; N]; 2] {
        // SAFETY: the elements exist, and are of type `T` as the sum's dtype says.
        let sum = unsafe { self.sum.block::<T, N>(self.sum.contributions, start) };
        let gradient = self.finish.gradient::<T, N>(sum).map(|element| element.to_f64());
        // Zero times anything finite is zero, and NaN otherwise.
        [gradient.map(|element| element * element), gradient.map(|element| element * 0.0)]
    }
}

struct PassTerms<'a, M, const SLOTS: usize> {
    weights: &'a ViewMut,
    slots: &'a [ViewMut; SLOTS],
    sum: &'a WeightedSum<'a>,
    finish: Finish,
    measure: M,
}

impl<M: Measure<SLOTS, SUMS>, const SLOTS: usize, const SUMS: usize> Terms<SUMS>
    for PassTerms<'_, M, SLOTS>
{
    #[inline(always)]
    unsafe fn of<const N: usize>(&self, start: usize) -> [[f64; N]; SUMS] {
        let block = |view: &ViewMut| {
            let first = view.data().cast::<M::Element>().cast_const().wrapping_add(start);
            // SAFETY: the operands of a pass are as long as the weights, of the element type that
            // `measure` asserted, initialised, and written by nobody while the pass is borrowed.
            unsafe { first.cast::<[M::Element; N]>().read() }
        };
        // SAFETY: as above.
        let sum = unsafe { self.sum.block::<M::Element, N>(self.sum.contributions, start) };
        let gradient: [M::Element; N] = self.finish.gradient(sum);
        let (weight, slots) = (block(self.weights), self.slots.each_ref().map(block));
        let mut terms = [[0.0; N]; SUMS];
        for index in 0..N {
            let state = slots.each_ref().map(|slot| slot[index]);
            let of = self.measure.of(weight[index], state, gradient[index]);
            for (terms, term) in terms.iter_mut().zip(of) {
                terms[index] = term;
            }
        }
        terms
    }
}

/// The sums over all elements; each costs `bytes` of memory traffic.
fn add_up<T: Terms<SUMS>, const SUMS: usize>(
    elements: usize,
    bytes: usize,
    terms: &T,
) -> [f64; SUMS] {
    let size = elements.div_ceil(CHUNKS).next_multiple_of(TILE).max(SMALLEST_CHUNK);
    let sums = [const { [const { AtomicU64::new(0) }; SUMS] }; CHUNKS];
    workers::for_each_task(elements.div_ceil(size), size.saturating_mul(bytes), &|chunks| {
        for chunk in chunks {
            let mut result = [0.0; SUMS];
            let range = chunk * size..elements.min((chunk + 1) * size);
            dispatch(Chunk { terms, range, result: &mut result });
            for (sum, result) in sums[chunk].iter().zip(result) {
                sum.store(result.to_bits(), Ordering::Relaxed);
            }
        }
    });
    let of_chunk = |sum: &AtomicU64| f64::from_bits(sum.load(Ordering::Relaxed));
    // Not `sum`, whose start is −0.
    array::from_fn(|index| sums.iter().fold(0.0, |total, sums| total + of_chunk(&sums[index])))
}

/// One chunk of the sums. Whoever makes it sees to it that the range lies within the elements.
struct Chunk<'a, T, const SUMS: usize> {
    terms: &'a T,
    range: Range<usize>,
    result: &'a mut [f64; SUMS],
}

impl<T: Terms<SUMS>, const SUMS: usize> Kernel for Chunk<'_, T, SUMS> {
    #[inline(always)]
    fn run(self) {
        let Range { mut start, end } = self.range;
        while start < end {
            let tile_end = end.min(start + TILE);
            let mut lanes = [[0.0; LANES]; SUMS];
            while tile_end - start >= LANES {
                // SAFETY: these elements are in the range.
                let terms = unsafe { self.terms.of::<LANES>(start) };
                for (lanes, terms) in lanes.iter_mut().zip(terms) {
                    for (lane, term) in lanes.iter_mut().zip(terms) {
                        *lane += term;
                    }
                }
                start += LANES;
            }
            for lane in 0..tile_end - start {
                // SAFETY: this element is in the range.
                let terms = unsafe { self.terms.of::<1>(start + lane) };
                for (lanes, [term]) in lanes.iter_mut().zip(terms) {
                    lanes[lane] += term;
                }
            }
            start = tile_end;
            for (result, mut lanes) in self.result.iter_mut().zip(lanes) {
                let mut half = LANES / 2;
                while half > 0 {
                    for lane in 0..half {
                        lanes[lane] += lanes[lane + half];
                    }
                    half /= 2;
                }
                *result += lanes[0];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::dtype::DType;
    use crate::kernels::instruction_set::{InstructionSet, select, selected};
    use crate::kernels::layout::{Layout, Shape};
    use crate::kernels::view::View;
    use crate::kernels::weighted_sum::Contribution;

    #[derive(Clone, Copy)]
    struct Norms;

    impl Measure<0, 2> for Norms {
        type Element = f32;

        #[inline(always)]
        fn of(self, weight: f32, _: [f32; 0], gradient: f32) -> [f64; 2] {
            [weight, gradient].map(|value| f64::from(value) * f64::from(value))
        }
    }

    fn norms(elements: usize) -> [u64; 2] {
        let layout = Layout::row_major(Shape::new(&[elements]).unwrap());
        let mut weights: Vec<f32> = (0..elements).map(|index| 1.0 / (index + 3) as f32).collect();
        let gradient: Vec<f32> = (0..elements).map(|index| (index % 1009) as f32 / 7.0).collect();
        // SAFETY: the views are used while both vectors live, and nobody else uses the weights.
        let (weights, gradient) = unsafe {
            (
                ViewMut::new(weights.as_mut_ptr().cast(), f32::DTYPE, layout),
                View::new(gradient.as_ptr().cast(), DType::Float32, layout),
            )
        };
        let contributions = [Contribution { gradient, factor: 3.0 }];
        let sums = Pass::new(weights, &mut [], &contributions, 2.0).measure(Norms);
        let alone = WeightedSum::new(DType::Float32, elements, &contributions, 2.0).squares();
        assert_eq!(alone, Squares { sum: sums[1], finite: true });
        sums.map(f64::to_bits)
    }

    #[test]
    fn elements_that_are_not_finite_are_seen() {
        for (value, finite) in [(1e30, true), (f32::MAX, true), (f32::NAN, false), (1e38, false)] {
            for position in [0, 1029] {
                let mut gradient = [1.0f32; 1030];
                gradient[position] = value;
                let layout = Layout::row_major(Shape::new(&[gradient.len()]).unwrap());
                // SAFETY: the view is used while the array lives, and nobody writes it.
                let gradient =
                    unsafe { View::new(gradient.as_ptr().cast(), DType::Float32, layout) };
                // 8 × 1e38 is finite before it is rounded to float32.
                let factor = if value == 1e38 { 8.0 } else { 1.0 };
                let contributions = [Contribution { gradient, factor }];
                let sum = WeightedSum::new(DType::Float32, 1030, &contributions, 1.0);
                assert_eq!(sum.squares().finite, finite, "{value} at {position}");
            }
        }
    }

    #[test]
    fn threads_and_instruction_sets_do_not_show() {
        let (set, count) = (selected(), workers::count());
        for elements in [0, 1, 15, 17, 1024, 1039, 16_385, 250_001] {
            select(InstructionSet::Baseline).unwrap();
            workers::set_count(1).unwrap();
            let expected = norms(elements);
            let plain: f64 = (0..elements)
                .map(|index| f64::from(((index % 1009) as f32 / 7.0) * 1.5).powi(2))
                .sum();
            let ours = f64::from_bits(expected[1]);
            assert!((ours - plain).abs() <= 1e-11 * plain, "{ours} for {plain}");
            for set in InstructionSet::ALL.into_iter().filter(|set| set.is_available()) {
                select(set).unwrap();
                for count in [1, 2, 3] {
                    workers::set_count(count).unwrap();
                    assert_eq!(norms(elements), expected, "{elements} {set:?} {count}");
                }
            }
        }
        select(set).unwrap();
        workers::set_count(count).unwrap();
    }
}
