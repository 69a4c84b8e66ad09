//! The squares of a gradient, added up before an update: for norms, and to see whether all elements
//! are finite. [`measure`](super::measure) says in which order.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::slice;
use std::sync::atomic::AtomicU64;

use crate::dtype::DType;
use crate::float::gradient_element::GradientElement;
use crate::float::lanes;
use crate::float::real::{Real, for_gradient, for_real};
use crate::instruction_set::{
    InstructionSet, Instructions, Kernel, dispatch, keep_to_blocks, widest_for,
};
use crate::streaming;
use crate::update::chunks::{
    ChunkSums, ChunkTotal, Chunks, LANES, Lanes, MOST_CHUNKS, TILE, sum_of, total,
};
use crate::update::gradients::{GradientLoop, MakeGradients};
use crate::update::weighted_sum::{Finish, WeightedSum};
use crate::view::SpanMut;
use umbo_executor::pieces::PiecePart;

/// Elements whose gradients are made before they are added up: a whole number of lanes, and few
/// enough that the processor reads the next ones meanwhile.
const STRIP: usize = 128;
const _: () = assert!(STRIP.is_multiple_of(LANES) && STRIP <= TILE);

/// The result of [`WeightedSum::measure_squares`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Squares {
    /// The sum of the squares of all elements. It is infinite also if the true sum is past the
    /// range of float64.
    pub sum: f64,
    /// Whether every element, rounded to its type, is finite.
    pub finite: bool,
}

impl WeightedSum<'_> {
    /// The squares of all elements, measured on this thread.
    pub fn squares(&self, instructions: Instructions) -> Squares {
        let chunks = Chunks::of(self.elements);
        let sums = [const { [const { AtomicU64::new(0) }; 2] }; MOST_CHUNKS];
        // SAFETY: nothing is kept.
        unsafe { self.squares_of(instructions, chunks, 0..chunks.count(), &sums, None, false) };
        Squares::of_chunks(&sums[..chunks.count()])
    }

    /// Measures the chunks of `chunks` that lie in `part`, on this thread, for
    /// [`Squares::of_chunks`]. `chunks` cuts the elements, and the boundaries of `part` are
    /// boundaries of chunks. `sums` has the sums of all chunks.
    ///
    /// If there is a `kept`, the same elements of it become the gradient. If `streaming`, they are
    /// written past the caches. `kept` is asserted to have the gradient's type and length. If a
    /// sum reads more than two elements and is needed twice, this costs less memory traffic:
    /// the gradient is written once and then read.
    ///
    /// # Safety
    /// Nobody else reads or writes the elements of the part in `kept` meanwhile.
    pub unsafe fn measure_squares(
        &self,
        instructions: Instructions,
        chunks: Chunks,
        part: &PiecePart,
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
        // SAFETY: the caller's promise; what is kept has these elements.
        unsafe { self.squares_of(instructions, chunks, range, sums, kept, streaming) };
        if kept.is_some() && streaming {
            streaming::finish();
        }
    }

    /// # Safety
    /// The kept memory has the gradient's type and length, and nobody else reads or writes these
    /// elements of it.
    unsafe fn squares_of(
        &self,
        instructions: Instructions,
        chunks: Chunks,
        range: Range<usize>,
        sums: &[ChunkSums<2>],
        kept: Option<&SpanMut>,
        streaming: bool,
    ) {
        for_real!(self.dtype, T => for_gradient!(T, self.gradient_dtype, G => {
            let sum = self;
            let finish = self.finish::<T>();
            let gradient = PhantomData::<G>;
            let kept = kept.map(|kept| kept.data().cast::<T>());
            let squares =
                SquaresOfChunks { sum, finish, chunks, range, sums, kept, streaming, gradient };
            dispatch(instructions, squares);
        }));
    }
}

impl Squares {
    /// The squares of one variable, from the sums of its chunks.
    pub fn of_chunks(sums: &[ChunkSums<2>]) -> Squares {
        Squares::of_sums(total(sums))
    }

    /// The squares, from the sums of the whole variable.
    pub fn of_sums([sum, zero]: [f64; 2]) -> Squares {
        Squares {
            sum,
            finite: zero == 0.0,
        }
    }
}

/// The squares of the gradient in the chunks `range` of `chunks`. If the gradient is to be kept, it
/// is also written to the elements from `kept` on. The code that creates it ensures that they are
/// chunks of these elements, that the contributions are of type `G`, and that nobody else uses
/// these elements of what is kept.
struct SquaresOfChunks<'a, G, T> {
    sum: &'a WeightedSum<'a>,
    finish: Finish<T>,
    chunks: Chunks,
    range: Range<usize>,
    sums: &'a [ChunkSums<2>],
    kept: Option<*mut T>,
    streaming: bool,
    gradient: PhantomData<G>,
}

impl<G: GradientElement, T: Real> Kernel for SquaresOfChunks<'_, G, T> {
    const WIDEST: InstructionSet = widest_for::<T>();

    #[inline(always)]
    fn run(self, instructions: Instructions) {
        self.sum.run::<G, T>(instructions, self.finish, self);
    }
}

impl<G: GradientElement, T: Real> GradientLoop<T> for SquaresOfChunks<'_, G, T> {
    #[inline(always)]
    fn run<W: MakeGradients<T>>(self, instructions: Instructions, gradients: W) {
        for chunk in self.range.clone() {
            // No closures: they would be compiled without the instructions of the set.
            let mut total = ChunkTotal::new();
            let Range {
                start: mut tile,
                end,
            } = self.chunks.range(chunk);
            while tile < end {
                let elements = TILE.min(end - tile);
                total.add_sums(self.tile(instructions, gradients, tile, elements));
                tile += elements;
            }
            total.store(&self.sums[chunk]);
        }
    }
}

impl<G: GradientElement, T: Real> SquaresOfChunks<'_, G, T> {
    /// The sum of the squares of a tile's elements, and zero if they are finite. Small variables
    /// have few, so that counting costs as much as the work: compilers made a hundred
    /// instructions of iterators over ranges.
    #[inline(always)]
    fn tile<W: MakeGradients<T>>(
        &self,
        instructions: Instructions,
        gradients: W,
        mut start: usize,
        mut left: usize,
    ) -> [f64; 2] {
        let mut squares = [0.0; LANES];
        let mut zeros = [0.0; LANES];
        let mut strip = [const { MaybeUninit::<T>::uninit() }; STRIP];
        while left > 0 {
            let elements = STRIP.min(left);
            // SAFETY: these elements are in the chunk, which the sum has.
            let gradient = unsafe {
                match gradients.in_place(start) {
                    Some(first) => slice::from_raw_parts(first, elements),
                    None => fill(instructions, gradients, start, &mut strip[..elements]),
                }
            };
            // SAFETY: the code that created this guaranteed that nobody else uses them.
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
            start += elements;
            left -= elements;
        }
        // Zero times a finite number is zero; zero times any other is NaN. Squares of float32 are
        // never past the range of float64: their sum is finite if they are.
        let sum = sum_of(squares);
        [
            sum,
            if T::DTYPE == DType::Float32 {
                sum * 0.0
            } else {
                sum_of(zeros)
            },
        ]
    }

    /// Writes the gradient to what is kept, from element `start` on.
    ///
    /// # Safety
    /// No other call uses these elements of what is kept at the same time.
    #[inline(always)]
    unsafe fn keep(&self, instructions: Instructions, gradient: &[T], start: usize) {
        let Some(kept) = self.kept else { return };
        let from = gradient.as_ptr();
        let to = kept.wrapping_add(start);
        // SAFETY: `kept` has the elements, too (`measure_squares` asserted that); the caller's
        // promise.
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

/// Makes the gradients of the elements from `next` on, as many as there are in `gradient`.
///
/// # Safety
/// The sum of `gradients` has these elements.
#[inline(always)]
unsafe fn fill<T: Real, W: MakeGradients<T>>(
    instructions: Instructions,
    gradients: W,
    mut next: usize,
    gradient: &mut [MaybeUninit<T>],
) -> &[T] {
    let (blocks, rest) = gradient.as_chunks_mut::<LANES>();
    for block in blocks {
        // SAFETY: these elements are among them.
        let elements = unsafe { gradients.block::<LANES>(instructions, next) };
        *block = elements.map(MaybeUninit::new);
        next += LANES;
        keep_to_blocks();
    }
    for element in rest {
        // SAFETY: this element is among them.
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::dtype::Element;
    use crate::instruction_set::InstructionSet;
    use crate::layout::{Layout, Shape};
    use crate::update::chunks::OfTiles;
    use crate::update::measure::Measure;
    use crate::update::pass::UpdatePass;
    use crate::update::weighted_sum::Contribution;
    use crate::view::{View, ViewMut};
    use umbo_executor::pieces::Pieces;
    use umbo_executor::workers;

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
        pieces.for_each_range(usize::MAX, &|range| {
            for (_, part) in range.parts() {
                // SAFETY: nothing is written.
                unsafe {
                    sum.measure_squares(instructions, chunks, &part, &sums, None, false);
                };
            }
        });
        Squares::of_chunks(&sums)
    }

    fn norms(instructions: Instructions, elements: usize, factor: f64, divisor: f64) -> [u64; 2] {
        let layout = Layout::row_major(Shape::new(&[elements]).unwrap());
        let mut weights: Vec<f32> = (0..elements)
            .map(|index| 1.0 / (index + 3) as f32)
            .collect();
        let gradient: Vec<f32> = (0..elements)
            .map(|index| (index % 1009) as f32 / 7.0)
            .collect();
        // SAFETY: the views are used while both vectors live, and nobody else uses the weights.
        let (weights, gradient) = unsafe {
            (
                ViewMut::new(weights.as_mut_ptr().cast(), f32::DTYPE, layout)
                    .into_span()
                    .unwrap(),
                View::new(gradient.as_ptr().cast(), DType::Float32, layout)
                    .span()
                    .unwrap(),
            )
        };
        let contributions = [Contribution { gradient, factor }];
        // SAFETY: the pass writes nothing.
        let pass = unsafe { UpdatePass::new(instructions, &weights, &[], &contributions, divisor) };
        let sums = pass.measure(Norms);
        let sum = WeightedSum::new(DType::Float32, elements, &contributions, divisor);
        let alone = squares(instructions, &sum);
        assert_eq!(
            alone,
            Squares {
                sum: sums[1],
                finite: true
            }
        );
        sums.map(f64::to_bits)
    }

    #[test]
    fn elements_that_are_not_finite_are_seen() {
        for (value, finite) in [
            (1e30, true),
            (f32::MAX, true),
            (f32::NAN, false),
            (1e38, false),
        ] {
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
    fn threads_and_instruction_sets_keep_the_bits() {
        let baseline = Instructions::of(InstructionSet::Baseline).unwrap();
        let count = workers::count();
        // With no costs, the work is divided between several workers whenever it can be.
        workers::fix_costs(Some(workers::Costs::NONE));
        // The second gradient is its only contribution, and is read where it lies.
        let cases = [0, 1, 15, 17, 1024, 1039, 16_385, 250_001]
            .into_iter()
            .flat_map(|elements| [(elements, 3.0, 2.0), (elements, 1.0, 1.0)]);
        for (elements, factor, divisor) in cases {
            workers::set_count(1).unwrap();
            let expected = norms(baseline, elements, factor, divisor);
            let scale = (factor / divisor) as f32;
            let plain: f64 = (0..elements)
                .map(|index| f64::from(((index % 1009) as f32 / 7.0) * scale).powi(2))
                .sum();
            let ours = f64::from_bits(expected[1]);
            assert!((ours - plain).abs() <= 1e-11 * plain, "{ours} for {plain}");
            for instructions in Instructions::all() {
                for count in [1, 2, 3] {
                    workers::set_count(count).unwrap();
                    let found = norms(instructions, elements, factor, divisor);
                    assert_eq!(found, expected, "{elements} {instructions:?} {count}");
                }
            }
        }
        workers::set_count(count).unwrap();
    }

    #[test]
    fn tiles_sum_to_the_bits_of_the_whole() {
        let instructions = Instructions::chosen();
        for elements in [0, 1, 1023, 1024, 1025, 16_384, 16_385, 300_001, 1_100_003] {
            let numbers: Vec<f32> = (0..elements)
                .map(|index| ((index * 7919) % 1013) as f32 / 7.0 - 70.0)
                .collect();
            let span = |range: Range<usize>| {
                let part = &numbers[range];
                let layout = Layout::row_major(Shape::new(&[part.len()]).unwrap());
                // SAFETY: the view is used while the numbers live, and nobody writes them.
                unsafe { View::new(part.as_ptr().cast(), DType::Float32, layout) }
                    .span()
                    .unwrap()
            };
            let measured = |range: Range<usize>, chunks: Chunks| {
                let contributions = [Contribution {
                    gradient: span(range.clone()),
                    factor: 1.5,
                }];
                let sum = WeightedSum::new(DType::Float32, range.len(), &contributions, 3.0);
                let sums: Vec<ChunkSums<2>> =
                    (0..chunks.count()).map(|_| Default::default()).collect();
                let mut pieces = Pieces::default();
                pieces.push(range.len(), chunks.size, sum.bytes());
                pieces.for_each_range(usize::MAX, &|range| {
                    for (_, part) in range.parts() {
                        // SAFETY: nothing is written.
                        unsafe {
                            sum.measure_squares(instructions, chunks, &part, &sums, None, false);
                        };
                    }
                });
                sums
            };
            let whole = Squares::of_chunks(&measured(0..elements, Chunks::of(elements)));
            let mut tiles = OfTiles::new(elements);
            let borders = [
                0,
                elements / 3 / TILE * TILE,
                elements / 2 / TILE * TILE,
                elements,
            ];
            for range in borders.windows(2).map(|pair| pair[0]..pair[1]) {
                for sums in measured(range.clone(), Chunks::tiles(range.len())) {
                    tiles.add(
                        sums.each_ref()
                            .map(|it| f64::from_bits(it.load(Ordering::Relaxed))),
                    );
                }
            }
            let found = Squares::of_sums(tiles.total());
            assert_eq!(
                (found.sum.to_bits(), found.finite),
                (whole.sum.to_bits(), whole.finite)
            );
        }
    }
}
