//! Sums over the elements of one variable's update before anything is updated: norms.
//!
//! A sum is float64, and the order of its additions depends only on the number of elements. Tiles of 1024 elements
//! are added in 16 interleaved lanes, and the lanes are added in halves. Tiles are added in order within a chunk, and
//! chunks in order within the variable. So the bits do not depend on the threads or the instruction set.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::executor::pieces::PiecePart;
use crate::executor::workers;
use crate::kernels::dtype::{DType, Element};
use crate::kernels::float::gradient_element::GradientElement;
use crate::kernels::float::lanes;
use crate::kernels::float::real::{Real, for_gradient, for_real};
use crate::kernels::instruction_set::{
    InstructionSet, Instructions, Kernel, dispatch, keep_to_blocks, widest_for,
};
use crate::kernels::streaming;
use crate::kernels::update::chunks::{ChunkSums, Chunks, MOST_CHUNKS, TILE, total};
use crate::kernels::update::gradients::{GradientLoop, MakeGradients};
use crate::kernels::update::pass::UpdatePass;
use crate::kernels::update::weighted_sum::{Finish, WeightedSum};
use crate::kernels::view::SpanMut;

/// Elements whose gradients are made before they are added up: a whole number of lanes, and few enough that the
/// processor reads the next ones meanwhile.
const STRIP: usize = 128;
const _: () = assert!(STRIP.is_multiple_of(LANES) && STRIP <= TILE);

/// Interleaved sums within a tile.
const LANES: usize = lanes::BLOCK;

/// What is added up over the elements. Implementations are marked `#[inline(always)]`; inputs that they do not use
/// are not read from memory.
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

/// The result of [`WeightedSum::measure_squares`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Squares {
    /// The sum of the squares of all elements. It is infinite also if the true sum is past the range of float64.
    pub sum: f64,
    /// Whether every element, rounded to its type, is finite.
    pub finite: bool,
}

impl WeightedSum<'_> {
    /// The squares of all elements, measured on this thread.
    pub fn squares(&self, instructions: Instructions) -> Squares {
        let chunks = Chunks::of(self.elements);
        let sums = [const { [const { AtomicU64::new(0) }; 2] }; MOST_CHUNKS];
        for_real!(self.dtype, T => for_gradient!(T, self.gradient_dtype, G => {
            let terms = GradientSquares::<T> { kept: None, streaming: false };
            chunks.add_up::<G, _, 2>(instructions, 0..chunks.count(), self, &terms, &sums);
        }));
        Squares::of_chunks(&sums[..chunks.count()])
    }

    /// Measures the chunks of `chunks` that lie in `part`, on this thread, for [`Squares::of_chunks`]. `chunks` cuts
    /// the elements, and the boundaries of `part` are boundaries of chunks. `sums` has the sums of all chunks.
    ///
    /// If there is a `kept`, the same elements of it become the gradient. If `streaming`, they are written past the
    /// caches. `kept` is asserted to have the gradient's type and length. If a sum reads more than two elements and
    /// is needed twice, this costs less memory traffic: the gradient is written once and then read.
    ///
    /// # Safety
    /// Nobody else reads or writes the elements of the part in `kept` meanwhile.
    pub unsafe fn measure_squares(
        &self,
        instructions: Instructions,
        (chunks, part): (Chunks, &PiecePart),
        sums: &[ChunkSums<2>],
        kept: Option<&SpanMut>,
        streaming: bool,
    ) {
        let range = part.range();
        assert!(range.end <= self.elements && range.start.is_multiple_of(chunks.size));
        assert_eq!(chunks.elements, self.elements);
        if let Some(kept) = kept {
            assert_eq!((kept.dtype(), kept.elements()), (self.dtype, self.elements));
        }
        let range = range.start / chunks.size..range.end.div_ceil(chunks.size);
        for_real!(self.dtype, T => for_gradient!(T, self.gradient_dtype, G => {
            let kept = kept.map(|kept| kept.data().cast::<T>());
            let terms = GradientSquares { kept, streaming };
            chunks.add_up::<G, _, 2>(instructions, range, self, &terms, sums);
        }));
        if kept.is_some() && streaming {
            streaming::finish();
        }
    }
}

impl Squares {
    /// The squares of one variable, from the sums of its chunks.
    pub fn of_chunks(sums: &[ChunkSums<2>]) -> Squares {
        Squares::of_sums(total(sums))
    }

    /// The squares, from the sums of the whole variable.
    pub fn of_sums([sum, zero]: [f64; 2]) -> Squares {
        Squares { sum, finite: zero == 0.0 }
    }
}

impl UpdatePass<'_> {
    /// The sums of `measure` over all elements, computed on the workers. The gradient is the one that an update would
    /// use, without the L2 term. Nothing is written or allocated. Asserted: the pass is over all of its elements.
    /// With [`UpdatePass::with_tile_sums`] the sums of each tile are stored, and the returned numbers are zeros.
    pub fn measure<M: Measure<SLOTS, SUMS>, const SLOTS: usize, const SUMS: usize>(
        &self,
        measure: M,
    ) -> [f64; SUMS] {
        assert!(self.is_whole());
        match self.sum().gradient_dtype {
            DType::Float16 => self.measure_with::<<M::Element as Real>::Float16, M, _, _>(measure),
            DType::BFloat16 => {
                self.measure_with::<<M::Element as Real>::BFloat16, M, _, _>(measure)
            }
            _ => self.measure_with::<M::Element, M, _, _>(measure),
        }
    }

    fn measure_with<G, M, const SLOTS: usize, const SUMS: usize>(&self, measure: M) -> [f64; SUMS]
    where
        G: GradientElement,
        M: Measure<SLOTS, SUMS>,
    {
        let (weights, slots, sum) = (self.weights(), self.slots::<SLOTS>(), self.sum());
        assert_eq!((self.dtype(), sum.gradient_dtype), (M::Element::DTYPE, G::DTYPE));
        let chunks = Chunks::of(sum.elements);
        let bytes = sum.bytes() + (1 + SLOTS) * size_of::<M::Element>();
        let terms = PassTerms { weights, slots, measure };
        if let Some(tiles) = self.tile_sums() {
            let (chunks, (tiles, _)) = (Chunks::tiles(sum.elements), tiles.as_chunks::<SUMS>());
            workers::for_each_task(chunks.count(), chunks.size * bytes, &|range| {
                chunks.add_up::<G, _, SUMS>(self.instructions(), range, sum, &terms, tiles);
            });
            return [0.0; SUMS];
        }
        let sums = [const { [const { AtomicU64::new(0) }; SUMS] }; MOST_CHUNKS];
        let chunk_bytes = chunks.size.saturating_mul(bytes);
        workers::for_each_task(chunks.count(), chunk_bytes, &|range| {
            chunks.add_up::<G, _, SUMS>(self.instructions(), range, sum, &terms, &sums);
        });
        total(&sums)
    }
}

/// What each element adds to the sums.
trait Terms<const SUMS: usize>: Sync {
    type Element: Real;

    /// The sums over the elements of `tile`, which are at most [`TILE`]: of each sum its lanes. The element at index i
    /// of the tile is added to lane i modulo the number of lanes. Inlined.
    ///
    /// # Safety
    /// The elements exist, and no other call uses one of them at the same time.
    unsafe fn lanes<W: MakeGradients<Self::Element>>(
        &self,
        instructions: Instructions,
        gradients: W,
        tile: Range<usize>,
    ) -> [Lanes; SUMS];
}

type Lanes = [f64; LANES];

/// The squares of the gradient. If the gradient is to be kept, it is also written to the elements from `kept` on.
struct GradientSquares<T> {
    kept: Option<*mut T>,
    streaming: bool,
}

// SAFETY: a pointer to elements; each worker writes only its own.
unsafe impl<T> Sync for GradientSquares<T> {}

impl<T: Real> Terms<2> for GradientSquares<T> {
    type Element = T;

    #[inline(always)]
    unsafe fn lanes<W: MakeGradients<T>>(
        &self,
        instructions: Instructions,
        gradients: W,
        tile: Range<usize>,
    ) -> [Lanes; 2] {
        let (mut squares, mut zeros) = ([0.0; LANES], [0.0; LANES]);
        let mut strip = [const { MaybeUninit::<T>::uninit() }; STRIP];
        for start in tile.clone().step_by(STRIP) {
            let range = start..tile.end.min(start + STRIP);
            // SAFETY: the caller's promise, for some of the elements.
            let gradient = unsafe { fill(instructions, gradients, range, &mut strip) };
            // SAFETY: as above.
            unsafe { self.keep(instructions, gradient, start) };
            let (blocks, mut rest) = gradient.as_chunks();
            let are_exact = T::DTYPE == DType::Float32;
            if !lanes::add_squares(instructions, blocks, are_exact, &mut squares) {
                rest = gradient;
            }
            add(&mut squares, rest, |element| element * element);
            if T::DTYPE == DType::Float64 {
                add(&mut zeros, gradient, |element| element * 0.0);
            }
        }
        // Zero times a finite number is zero; zero times any other is NaN. Squares of float32 are never past the range of
        // float64: their sum is finite if they are.
        if T::DTYPE == DType::Float32 {
            zeros = squares.map(|square| square * 0.0);
        }
        [squares, zeros]
    }
}

impl<T: Real> GradientSquares<T> {
    /// Writes the gradient to what is kept, from element `start` on.
    ///
    /// # Safety
    /// No other call uses these elements of what is kept at the same time.
    #[inline(always)]
    unsafe fn keep(&self, instructions: Instructions, gradient: &[T], start: usize) {
        let Some(kept) = self.kept else { return };
        let (from, to) = (gradient.as_ptr(), kept.wrapping_add(start));
        // SAFETY: `kept` has the elements, too (`measure_squares` asserted that); the caller's promise.
        unsafe {
            if self.streaming {
                let bytes = size_of_val(gradient);
                streaming::write(instructions, from.cast(), to.cast(), bytes);
            } else {
                to.copy_from_nonoverlapping(from, gradient.len());
            }
        }
    }
}

/// Makes the gradients of the elements in `range` in `buffer`, which has room for them.
///
/// # Safety
/// The sum of `gradients` has these elements.
#[inline(always)]
unsafe fn fill<T: Real, W: MakeGradients<T>>(
    instructions: Instructions,
    gradients: W,
    range: Range<usize>,
    buffer: &mut [MaybeUninit<T>],
) -> &[T] {
    let gradient = &mut buffer[..range.len()];
    let (blocks, rest) = gradient.as_chunks_mut::<LANES>();
    let mut next = range.start;
    for block in blocks {
        // SAFETY: these elements are in the range.
        let elements = unsafe { gradients.block::<LANES>(instructions, next) };
        *block = elements.map(MaybeUninit::new);
        next += LANES;
        keep_to_blocks();
    }
    for element in rest {
        // SAFETY: this element is in the range.
        let elements = unsafe { gradients.block::<1>(instructions, next) };
        [*element] = elements.map(MaybeUninit::new);
        next += 1;
    }
    // SAFETY: the blocks and the rest are all of it, and were just written.
    unsafe { gradient.assume_init_ref() }
}

/// Adds the result of `term` for each element to the element's lane.
#[inline(always)]
fn add<T: Real>(lanes: &mut Lanes, gradient: &[T], term: impl Fn(f64) -> f64) {
    let (blocks, rest) = gradient.as_chunks::<LANES>();
    let mut sums = *lanes;
    for block in blocks {
        for (sum, element) in sums.iter_mut().zip(block) {
            *sum += term(element.to_f64());
        }
    }
    for (sum, element) in sums.iter_mut().zip(rest) {
        *sum += term(element.to_f64());
    }
    *lanes = sums;
}

struct PassTerms<'a, M, const SLOTS: usize> {
    weights: &'a SpanMut<'a>,
    slots: &'a [SpanMut<'a>; SLOTS],
    measure: M,
}

impl<M: Measure<SLOTS, SUMS>, const SLOTS: usize, const SUMS: usize> Terms<SUMS>
    for PassTerms<'_, M, SLOTS>
{
    type Element = M::Element;

    #[inline(always)]
    unsafe fn lanes<W: MakeGradients<M::Element>>(
        &self,
        instructions: Instructions,
        gradients: W,
        tile: Range<usize>,
    ) -> [Lanes; SUMS] {
        let start = tile.start;
        let mut buffer = [const { MaybeUninit::<M::Element>::uninit() }; TILE];
        // SAFETY: the caller's promise.
        let gradient = unsafe { fill(instructions, gradients, tile, &mut buffer) };
        let elements = |span: &SpanMut| {
            let first = span.data().cast::<M::Element>().cast_const().wrapping_add(start);
            // SAFETY: the operands of a pass are as long as the weights, of the element type that
            // `measure` asserted, initialised, and written by nobody while the pass is borrowed.
            unsafe { std::slice::from_raw_parts(first, gradient.len()) }
        };
        let (weights, slots) = (elements(self.weights), self.slots.each_ref().map(elements));
        let (weights, last_weights) = weights.as_chunks::<LANES>();
        let (gradients, last_gradients) = gradient.as_chunks::<LANES>();
        let state = slots.map(|slot| slot.as_chunks::<LANES>());
        let mut sums = [[0.0; LANES]; SUMS];
        for (block, (weights, gradients)) in weights.iter().zip(gradients).enumerate() {
            let state = state.each_ref().map(|(slot, _)| slot[block]);
            for lane in 0..LANES {
                let state = state.each_ref().map(|slot| slot[lane]);
                let terms = self.measure.of(weights[lane], state, gradients[lane]);
                for (sums, term) in sums.iter_mut().zip(terms) {
                    sums[lane] += term;
                }
            }
        }
        for (lane, (weight, gradient)) in last_weights.iter().zip(last_gradients).enumerate() {
            let state = state.each_ref().map(|(_, last)| last[lane]);
            let terms = self.measure.of(*weight, state, *gradient);
            for (sums, term) in sums.iter_mut().zip(terms) {
                sums[lane] += term;
            }
        }
        sums
    }
}

impl Chunks {
    /// Adds up the chunks `range` of `sum`, whose contributions are of type `G`, on this thread.
    fn add_up<G: GradientElement, T: Terms<SUMS>, const SUMS: usize>(
        self,
        instructions: Instructions,
        range: Range<usize>,
        sum: &WeightedSum<'_>,
        terms: &T,
        sums: &[ChunkSums<SUMS>],
    ) {
        let (finish, gradient) = (sum.finish(), PhantomData::<G>);
        dispatch(
            instructions,
            SomeChunks { sum, finish, terms, chunks: self, range, sums, gradient },
        );
    }
}

/// The sums of the chunks of `chunks` that are in `range`. The code that creates it ensures that they are chunks of
/// these elements, and that the contributions are of type `G`.
struct SomeChunks<'a, G, T: Terms<SUMS>, const SUMS: usize> {
    sum: &'a WeightedSum<'a>,
    finish: Finish<T::Element>,
    terms: &'a T,
    chunks: Chunks,
    range: Range<usize>,
    sums: &'a [ChunkSums<SUMS>],
    gradient: PhantomData<G>,
}

impl<G: GradientElement, T: Terms<SUMS>, const SUMS: usize> Kernel for SomeChunks<'_, G, T, SUMS> {
    const WIDEST: InstructionSet = widest_for::<T::Element>();

    #[inline(always)]
    fn run(self, instructions: Instructions) {
        self.sum.run::<G, _>(instructions, self.finish, self);
    }
}

impl<G: GradientElement, T: Terms<SUMS>, const SUMS: usize> GradientLoop<T::Element>
    for SomeChunks<'_, G, T, SUMS>
{
    #[inline(always)]
    fn run<W: MakeGradients<T::Element>>(self, instructions: Instructions, gradients: W) {
        let SomeChunks { terms, chunks, range, sums, .. } = self;
        for chunk in range {
            let range = chunks.range(chunk);
            let mut result = [0.0; SUMS];
            for start in range.clone().step_by(TILE) {
                let tile = start..range.end.min(start + TILE);
                // SAFETY: these elements are in the range, which only this part uses.
                let lanes = unsafe { terms.lanes(instructions, gradients, tile) };
                for (result, mut lanes) in result.iter_mut().zip(lanes) {
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
            for (sum, result) in sums[chunk].iter().zip(result) {
                sum.store(result.to_bits(), Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::pieces::Pieces;
    use crate::kernels::instruction_set::InstructionSet;
    use crate::kernels::layout::{Layout, Shape};
    use crate::kernels::update::chunks::OfTiles;
    use crate::kernels::update::weighted_sum::Contribution;
    use crate::kernels::view::{View, ViewMut};

    #[derive(Clone, Copy)]
    struct Norms;

    impl Measure<0, 2> for Norms {
        type Element = f32;

        #[inline(always)]
        fn of(self, weight: f32, _: [f32; 0], gradient: f32) -> [f64; 2] {
            [weight, gradient].map(|value| f64::from(value) * f64::from(value))
        }
    }

    /// The squares of a sum, measured by the workers.
    fn squares(instructions: Instructions, sum: &WeightedSum<'_>) -> Squares {
        let chunks = Chunks::of(sum.elements);
        let sums: Vec<ChunkSums<2>> = (0..chunks.count()).map(|_| Default::default()).collect();
        let mut pieces = Pieces::default();
        pieces.push(sum.elements, chunks.size, sum.bytes());
        pieces.for_each_share(usize::MAX, &|share| {
            for (_, part) in share.parts() {
                // SAFETY: nothing is written.
                unsafe {
                    sum.measure_squares(instructions, (chunks, &part), &sums, None, false);
                };
            }
        });
        Squares::of_chunks(&sums)
    }

    fn norms(instructions: Instructions, elements: usize) -> [u64; 2] {
        let layout = Layout::row_major(Shape::new(&[elements]).unwrap());
        let mut weights: Vec<f32> = (0..elements).map(|index| 1.0 / (index + 3) as f32).collect();
        let gradient: Vec<f32> = (0..elements).map(|index| (index % 1009) as f32 / 7.0).collect();
        // SAFETY: the views are used while both vectors live, and nobody else uses the weights.
        let (weights, gradient) = unsafe {
            (
                ViewMut::new(weights.as_mut_ptr().cast(), f32::DTYPE, layout).into_span().unwrap(),
                View::new(gradient.as_ptr().cast(), DType::Float32, layout).span().unwrap(),
            )
        };
        let contributions = [Contribution { gradient, factor: 3.0 }];
        // SAFETY: the pass writes nothing.
        let pass = unsafe { UpdatePass::new(instructions, &weights, &[], &contributions, 2.0) };
        let sums = pass.measure(Norms);
        let sum = WeightedSum::new(DType::Float32, elements, &contributions, 2.0);
        let alone = squares(instructions, &sum);
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
                let gradient = gradient.span().unwrap();
                // 8 × 1e38 is finite before it is rounded to float32.
                let factor = if value == 1e38 { 8.0 } else { 1.0 };
                let contributions = [Contribution { gradient, factor }];
                let sum = WeightedSum::new(DType::Float32, 1030, &contributions, 1.0);
                assert_eq!(
                    squares(Instructions::chosen(), &sum).finite,
                    finite,
                    "{value} at {position}"
                );
            }
        }
    }

    #[test]
    fn threads_and_instruction_sets_do_not_show() {
        let baseline = Instructions::of(InstructionSet::Baseline).unwrap();
        let count = workers::count();
        // With no costs, the work is divided between several workers whenever it can be.
        workers::fix_costs(Some(workers::Costs::NONE));
        for elements in [0, 1, 15, 17, 1024, 1039, 16_385, 250_001] {
            workers::set_count(1).unwrap();
            let expected = norms(baseline, elements);
            let plain: f64 = (0..elements)
                .map(|index| f64::from(((index % 1009) as f32 / 7.0) * 1.5).powi(2))
                .sum();
            let ours = f64::from_bits(expected[1]);
            assert!((ours - plain).abs() <= 1e-11 * plain, "{ours} for {plain}");
            for instructions in Instructions::all() {
                for count in [1, 2, 3] {
                    workers::set_count(count).unwrap();
                    let found = norms(instructions, elements);
                    assert_eq!(found, expected, "{elements} {instructions:?} {count}");
                }
            }
        }
        workers::set_count(count).unwrap();
    }

    #[test]
    fn tiles_make_the_bits_of_the_whole() {
        let instructions = Instructions::chosen();
        for elements in [0, 1, 1023, 1024, 1025, 16_384, 16_385, 300_001, 1_100_003] {
            let numbers: Vec<f32> =
                (0..elements).map(|index| ((index * 7919) % 1013) as f32 / 7.0 - 70.0).collect();
            let span = |range: Range<usize>| {
                let part = &numbers[range];
                let layout = Layout::row_major(Shape::new(&[part.len()]).unwrap());
                // SAFETY: the view is used while the numbers live, and nobody writes them.
                unsafe { View::new(part.as_ptr().cast(), DType::Float32, layout) }.span().unwrap()
            };
            let measured = |range: Range<usize>, chunks: Chunks| {
                let contributions = [Contribution { gradient: span(range.clone()), factor: 1.5 }];
                let sum = WeightedSum::new(DType::Float32, range.len(), &contributions, 3.0);
                let sums: Vec<ChunkSums<2>> =
                    (0..chunks.count()).map(|_| Default::default()).collect();
                let mut pieces = Pieces::default();
                pieces.push(range.len(), chunks.size, sum.bytes());
                pieces.for_each_share(usize::MAX, &|share| {
                    for (_, part) in share.parts() {
                        // SAFETY: nothing is written.
                        unsafe {
                            sum.measure_squares(instructions, (chunks, &part), &sums, None, false);
                        };
                    }
                });
                sums
            };
            let whole = Squares::of_chunks(&measured(0..elements, Chunks::of(elements)));
            let mut tiles = OfTiles::new(elements);
            let borders = [0, elements / 3 / TILE * TILE, elements / 2 / TILE * TILE, elements];
            for range in borders.windows(2).map(|pair| pair[0]..pair[1]) {
                for sums in measured(range.clone(), Chunks::tiles(range.len())) {
                    tiles.add(sums.each_ref().map(|it| f64::from_bits(it.load(Ordering::Relaxed))));
                }
            }
            let found = Squares::of_sums(tiles.total());
            assert_eq!((found.sum.to_bits(), found.finite), (whole.sum.to_bits(), whole.finite));
        }
    }
}
