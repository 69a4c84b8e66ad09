//! Reducing the gradients of all replicas and updating one variable, in a single pass.
//!
//! The gradient of an update is a [`WeightedSum`]. If the pass has an L2 factor, factor × weight is
//! added to it.
//!
//! A pass reads each gradient buffer once, and reads and writes the weights and each state slot
//! once. For R buffers of g bytes an element, all float32, that is R·g + 8 bytes for SGD, R·g + 16
//! with momentum, and R·g + 24 for Adam. No intermediate result is written.
//!
//! If the weights have low-precision copies ([`UpdatePass::with_copies`]), the pass writes them,
//! too. It works in tiles, and rounds the new weights of a tile while they are in the cache. Each
//! copy costs 2 bytes an element more.
//!
//! A pass may carry a moving average of the weights along ([`UpdatePass::with_average`]), tile by
//! tile, too: 8 bytes an element more.
//!
//! States may be coded in 8 bits ([`UpdatePass::with_eight_bit`]). Those of a tile are decoded
//! before it is updated, and coded again afterwards. So are weights in bfloat16 widened, and
//! rounded stochastically ([`UpdatePass::with_rounding`]).
//!
//! The pass over a table ([`UpdatePass::at_rows`]) updates some rows. It adds up the contributions
//! to the rows of a tile just before it updates them, or reads sums that were added up before. It
//! does not touch the other rows.
//!
//! The result of an element depends on that element alone. The sum runs over the buffers in their
//! order, in float64, and is rounded once to the element type. A product is fused with its addition
//! only if it is exact; division and square root are those of IEEE 754. So the bits do not depend
//! on the split into ranges or on the instruction set.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64};

use crate::dtype::DType;
use crate::float::narrow::{narrow, narrow_rows};
use crate::float::real;
use crate::instruction_set::Instructions;
use crate::rows::sum::RowSums;
use crate::streaming;
use crate::update::average::Average;
use crate::update::eight_bit::EightBitStates;
use crate::update::rounding::Rounding;
use crate::update::weighted_sum::{Clipping, Contribution, WeightedSum};
use crate::view::{Span, SpanMut};
use umbo_executor::pieces::PiecePart;

/// The operands of one variable's update, and the range of elements that it updates. All operands
/// are of one length, and all but the gradients, the accumulated sum and weights in bfloat16 are of
/// one dtype.
#[derive(Clone, Debug)]
pub struct UpdatePass<'a> {
    instructions: Instructions,
    weights: &'a SpanMut<'a>,
    pub(super) slots: &'a [SpanMut<'a>],
    /// The states in the place of slots, if they are coded.
    pub(super) eight_bit: Option<EightBitStates<'a>>,
    /// How new weights are rounded, if they are in bfloat16.
    pub(super) rounding: Option<Rounding>,
    sum: WeightedSum<'a>,
    pub(super) l2: f64,
    /// The rows that are updated; `None` if all are.
    pub(super) rows: Option<PassRows<'a>>,
    /// The sums of these rows, if the pass adds them up.
    pub(super) terms: Option<RowSums<'a>>,
    /// The elements, or the rows, that are updated.
    pub(super) range: Range<usize>,
    /// The weights' low-precision copies.
    copies: &'a [Option<&'a SpanMut<'a>>],
    /// The weights' moving average.
    average: Option<&'a Average<'a>>,
    /// Whether the copies are written past the caches.
    streaming: bool,
    /// The flag that is set if an element of the gradient is not finite.
    pub(super) not_finite: Option<&'a AtomicBool>,
    /// The index in the variable of the first element.
    pub(super) first: usize,
    /// The place where the sums of each tile are stored if the pass measures.
    tiles: Option<&'a [AtomicU64]>,
    /// If the pass is a trial: where it writes the new weights, and the index in the variable of
    /// the first.
    pub(super) trial: Option<(&'a SpanMut<'a>, usize)>,
}

/// Some rows of a table.
#[derive(Clone, Copy, Debug)]
pub struct PassRows<'a> {
    /// The numbers of the rows.
    pub numbers: &'a [usize],
    /// The elements of one row.
    pub elements: usize,
}

/// The operands of which the gradients of some rows of a table are made.
#[derive(Clone, Copy, Debug)]
pub enum RowGradients<'a> {
    /// A sum for each row, float64, one row after the other.
    Summed(Span<'a>),
    /// Contributions, which the pass adds up.
    Terms(RowSums<'a>),
}

/// Elements whose new weights are rounded to the copies together. This takes a tenth of a
/// microsecond, and memory meanwhile reads what the processor has prefetched. With more elements,
/// all prefetched lines would have arrived before the rounding ends.
pub(crate) const TILE: usize = 512;

impl<'a> UpdatePass<'a> {
    /// The update of `weights` and `slots` by the sum of factor × gradient over `contributions`,
    /// divided by `divisor`, with `instructions`.
    ///
    /// The caller chooses the operands, so they are asserted, not reported: slots have the number
    /// of elements of `weights` and the dtype in which these are updated, and gradients can be
    /// added to those. Weights in bfloat16 need a [rounding](UpdatePass::with_rounding).
    ///
    /// # Safety
    /// While this pass, or one that is made from it, runs, nobody else reads or writes its elements
    /// of weights, slots, copies and average. Passes over different parts may run at the same time.
    #[inline]
    pub unsafe fn new(
        instructions: Instructions,
        weights: &'a SpanMut<'a>,
        slots: &'a [SpanMut<'a>],
        contributions: &'a [Contribution<'a>],
        divisor: f64,
    ) -> UpdatePass<'a> {
        let dtype = real::computing(weights.dtype());
        let elements = weights.elements();
        for slot in slots {
            assert_eq!((slot.dtype(), slot.elements()), (dtype, elements));
        }
        let sum = WeightedSum::new(dtype, elements, contributions, divisor);
        UpdatePass {
            instructions,
            weights,
            slots,
            eight_bit: None,
            rounding: None,
            sum,
            l2: 0.0,
            rows: None,
            terms: None,
            range: 0..elements,
            copies: &[],
            average: None,
            streaming: false,
            not_finite: None,
            first: 0,
            tiles: None,
            trial: None,
        }
    }

    /// The update of some rows of `weights` and `slots`: the i-th of `rows` is updated by row i of
    /// `gradients`, divided by `divisor`. No other row is touched.
    ///
    /// Asserts what [`UpdatePass::new`] asserts, and that there are gradients of as many rows, of
    /// sums in float64. When the pass runs, it asserts that the rows ascend, that none comes twice,
    /// and that the weights have them.
    ///
    /// # Safety
    /// As for [`UpdatePass::new`].
    pub unsafe fn at_rows(
        instructions: Instructions,
        weights: &'a SpanMut<'a>,
        slots: &'a [SpanMut<'a>],
        rows: PassRows<'a>,
        gradients: RowGradients<'a>,
        divisor: f64,
    ) -> UpdatePass<'a> {
        // SAFETY: the caller's promise is the same.
        let mut pass = unsafe { UpdatePass::new(instructions, weights, slots, &[], divisor) };
        let elements = rows.numbers.len() * rows.elements;
        pass.sum = WeightedSum::new(pass.dtype(), elements, &[], divisor);
        match gradients {
            RowGradients::Summed(sums) => pass.sum = pass.sum.starting_from(Some(sums)),
            RowGradients::Terms(terms) => {
                assert_eq!(terms.elements(), elements);
                pass.terms = Some(terms);
            }
        }
        pass.range = 0..rows.numbers.len();
        pass.rows = Some(rows);
        pass
    }

    /// The same pass, with a sum as [`WeightedSum::starting_from`] makes it.
    #[inline]
    pub fn starting_from(mut self, accumulated: Option<Span<'a>>) -> UpdatePass<'a> {
        self.sum = self.sum.starting_from(accumulated);
        self
    }

    /// The same pass for one worker's part of the elements, or of the rows, or, if it adds up
    /// contributions, of their entries.
    #[inline]
    pub fn over(mut self, part: &PiecePart) -> UpdatePass<'a> {
        let whole = self
            .rows
            .map_or(self.weights.elements(), |rows| rows.numbers.len());
        self.range = match &self.terms {
            Some(terms) => terms.rows_within(part.range()),
            None => part.range(),
        };
        assert!(self.range.end <= whole);
        self
    }

    /// The same pass, with gradients that are clipped.
    #[inline]
    pub fn clipped(mut self, clipping: Clipping) -> UpdatePass<'a> {
        self.sum.clipping = clipping;
        self
    }

    /// The same pass, with `l2` × weight added to each gradient after clipping: the gradient of
    /// `l2`/2 · ‖w‖².
    #[inline]
    pub fn with_l2(mut self, l2: f64) -> UpdatePass<'a> {
        self.l2 = l2;
        self
    }

    /// The same pass, which also rounds the new weights of all elements that it updates into
    /// `copies`, float16 or bfloat16. If `streaming` and all rows are updated, it writes the
    /// copies past the caches. The copies are asserted to be as long as the weights, and the
    /// weights to be float32.
    #[inline]
    pub fn with_copies(
        mut self,
        copies: &'a [Option<&'a SpanMut<'a>>],
        streaming: bool,
    ) -> UpdatePass<'a> {
        (self.copies, self.streaming) = (copies, streaming && self.is_whole());
        self
    }

    /// The same pass, which also moves the weights' average. A pass over some rows is asserted to
    /// have none: the average of a table follows all of its rows.
    #[inline]
    pub fn with_average(mut self, average: Option<&'a Average<'a>>) -> UpdatePass<'a> {
        assert!(average.is_none() || self.is_whole());
        self.average = average;
        self
    }

    /// The same pass, of a rule whose states are coded; it has no slots then. Asserts that the
    /// states are as many as the weights, that these are updated in float32, and that all rows are.
    #[inline]
    pub fn with_eight_bit(mut self, states: Option<EightBitStates<'a>>) -> UpdatePass<'a> {
        if let Some(states) = states {
            assert!(self.is_whole() && self.slots.is_empty());
            states.check(self.weights);
        }
        self.eight_bit = states;
        self
    }

    /// The same pass, of weights in bfloat16, whose new values are rounded so. Asserts that they
    /// are given if the weights are in bfloat16, and only then, and that all rows are updated.
    #[inline]
    pub fn with_rounding(mut self, rounding: Option<Rounding>) -> UpdatePass<'a> {
        let is_narrow = self.weights.dtype() != self.dtype();
        assert_eq!(is_narrow, rounding.is_some());
        assert!(self.is_whole() || !is_narrow);
        self.rounding = rounding;
        self
    }

    /// The same pass, which sets `not_finite` when it runs if an element of the gradient is not
    /// finite.
    #[inline]
    pub fn noting(mut self, not_finite: &'a AtomicBool) -> UpdatePass<'a> {
        self.not_finite = Some(not_finite);
        self
    }

    /// The same pass, whose operands are a part of the variable's, from element `first` on.
    #[inline]
    pub fn from_element(mut self, first: usize) -> UpdatePass<'a> {
        self.first = first;
        self
    }

    /// The same pass, which stores its measurements for each tile of
    /// [`TILE`](crate::update::chunks::TILE) elements in `sums`. A tile has as many numbers as
    /// are measured, as the bits of float64.
    #[inline]
    pub fn with_tile_sums(mut self, sums: &'a [AtomicU64]) -> UpdatePass<'a> {
        self.tiles = Some(sums);
        self
    }

    /// A trial of the same pass: weights and slots stay as they are, and the new weights are
    /// written to `to`, which has those from element `first` of the variable on. The trial is
    /// of one worker's part of these.
    ///
    /// Asserts that all rows are updated, and that the pass has the elements of `to`.
    pub fn trying(mut self, to: &'a SpanMut<'a>, first: usize, part: &PiecePart) -> UpdatePass<'a> {
        let start = first - self.first;
        let part = part.range();
        assert!(self.is_whole() && to.dtype() == self.dtype() && part.end <= to.elements());
        assert!(start + to.elements() <= self.weights.elements());
        self.range = start + part.start..start + part.end;
        self.average = None;
        self.trial = Some((to, first));
        self
    }

    /// The same pass over some elements, for code that reads them and the gradient without the L2
    /// term.
    pub(super) fn only_reading(&self, elements: Range<usize>) -> UpdatePass<'a> {
        let range = elements;
        let copies: &[_] = &[];
        UpdatePass {
            range,
            l2: 0.0,
            copies,
            average: None,
            not_finite: None,
            ..self.clone()
        }
    }

    /// The place where the sums of each tile are stored.
    pub(super) fn tile_sums(&self) -> Option<&'a [AtomicU64]> {
        self.tiles
    }

    /// The element type in which the weights are updated.
    pub fn dtype(&self) -> DType {
        real::computing(self.weights.dtype())
    }

    /// Calls `update` for ranges that together are this pass's range, and writes the copies and the
    /// average after each of them. Without these there is one range; with them each range has
    /// `tile` elements.
    pub(super) fn in_tiles(&self, tile: usize, mut update: impl FnMut(Range<usize>)) {
        let Range { mut start, end } = self.range;
        let has_more = self.average.is_some() || self.copies.iter().any(Option::is_some);
        while start < end {
            let next = if has_more { end.min(start + tile) } else { end };
            update(start..next);
            self.round_to_copies(start..next);
            self.move_average(start..next);
            start = next;
        }
        if self.streaming {
            streaming::finish();
        }
    }

    fn move_average(&self, range: Range<usize>) {
        if let Some(average) = self.average {
            // SAFETY: the caller that made the pass guaranteed its elements of the average, too.
            unsafe { average.follow(self.instructions, self.weights.reading(), range) };
        }
    }

    fn round_to_copies(&self, range: Range<usize>) {
        let instructions = self.instructions;
        let weights = self.weights.reading();
        for copy in self.copies.iter().flatten() {
            match self.rows {
                Some(rows) => {
                    let numbers = &rows.numbers[range.clone()];
                    // SAFETY: the caller that made the pass guaranteed its elements of the copies,
                    // too.
                    unsafe { narrow_rows(instructions, weights, copy, numbers, rows.elements) };
                }
                None => {
                    let streaming = self.streaming;
                    // SAFETY: as above.
                    unsafe { narrow(instructions, weights, copy, range.clone(), streaming) };
                }
            }
        }
    }

    /// Asserts that the rows of the range, and the one before them, ascend, and that the weights
    /// have them.
    pub(super) fn check_rows(&self, PassRows { numbers, elements }: PassRows<'_>) {
        // This includes the row before, which may be another worker's.
        let rows = &numbers[self.range.start.saturating_sub(1)..self.range.end];
        let table = self.weights.elements();
        assert!(rows.is_sorted_by(|before, after| before < after));
        assert!(
            rows.last()
                .is_none_or(|last| (last + 1) * elements <= table)
        );
    }

    /// The instructions that the pass uses.
    pub(super) fn instructions(&self) -> Instructions {
        self.instructions
    }

    /// Whether all rows are updated.
    pub(super) fn is_whole(&self) -> bool {
        self.rows.is_none()
    }

    /// The weights.
    pub(super) fn weights(&self) -> &SpanMut<'_> {
        self.weights
    }

    /// The slots. A formula is run with as many slots as its rule has, which is asserted.
    pub(super) fn slots<const SLOTS: usize>(&self) -> &[SpanMut<'_>; SLOTS] {
        let slots = self
            .slots
            .first_chunk::<SLOTS>()
            .filter(|_| self.slots.len() == SLOTS);
        slots.expect("a formula is run with the slots that its rule names")
    }

    /// The sum that the gradient is made of.
    pub(super) fn sum(&self) -> &WeightedSum<'a> {
        &self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Element;
    use crate::float::real::Real;
    use crate::instruction_set::InstructionSet;
    use crate::layout::{Layout, Shape};
    use crate::update::formula::Formula;
    use crate::view::{View, ViewMut};

    /// A formula that uses every operation that formulas may use.
    #[derive(Clone, Copy)]
    struct Everything<T>(T);

    impl<T: Real> Formula<2> for Everything<T> {
        type Element = T;

        #[inline(always)]
        fn apply(self, weight: T, [a, b]: [T; 2], gradient: T) -> (T, [T; 2]) {
            let a = a * self.0 + gradient;
            let b = b + gradient * gradient;
            (weight - a / (b.sqrt() + self.0), [a, -b + b + b])
        }
    }

    fn layout(elements: usize) -> Layout {
        Layout::row_major(Shape::new(&[elements]).unwrap())
    }

    fn view_mut<T: Element>(data: &mut [T]) -> ViewMut<'_> {
        // SAFETY: the view is used while `data` is borrowed by the caller alone.
        unsafe { ViewMut::new(data.as_mut_ptr().cast(), T::DTYPE, layout(data.len())) }
    }

    fn span_mut<T: Element>(data: &mut [T]) -> SpanMut<'_> {
        view_mut(data).into_span().unwrap()
    }

    fn span<T: Element>(data: &[T]) -> Span<'_> {
        // SAFETY: the view is used while `data` is borrowed by the caller, and nobody writes it.
        unsafe { View::new(data.as_ptr().cast(), T::DTYPE, layout(data.len())) }
            .span()
            .unwrap()
    }

    fn noise<T: Real>(elements: usize, seed: usize) -> Vec<T> {
        let number = |index: usize| ((index * 7919 + seed * 104729) % 1009) as f64 / 1009.0 - 0.3;
        (0..elements)
            .map(|index| T::from_f64(number(index)))
            .collect()
    }

    /// One update in ranges of `part` elements.
    fn updated<T: Real>(
        instructions: Instructions,
        elements: usize,
        replicas: usize,
        divisor: f64,
        part: usize,
    ) -> [Vec<u64>; 3] {
        let mut operands = [1, 2, 3].map(|seed| noise::<T>(elements, seed));
        let [weights, a, b] = &mut operands;
        b.iter_mut().for_each(|b| *b = *b * *b);
        let buffers: Vec<Vec<T>> = (0..replicas).map(|r| noise(elements, 10 + r)).collect();
        let contributions: Vec<Contribution> = buffers
            .iter()
            .enumerate()
            .map(|(replica, buffer)| {
                let factor = 1.0 + replica as f64 / 3.0;
                Contribution {
                    gradient: span(buffer),
                    factor,
                }
            })
            .collect();
        let weights = span_mut(weights);
        let slots = [span_mut(a), span_mut(b)];
        for start in (0..elements).step_by(part) {
            // SAFETY: nobody else has the operands.
            let mut pass =
                unsafe { UpdatePass::new(instructions, &weights, &slots, &contributions, divisor) };
            pass.range = start..(start + part).min(elements);
            pass.run(Everything(T::from_f64(0.3)));
        }
        operands.map(|data| data.iter().map(|value| value.to_f64().to_bits()).collect())
    }

    /// The bits of updates of many sizes, in ranges of `part` elements.
    fn all_updated<T: Real>(instructions: Instructions, part: usize) -> Vec<[Vec<u64>; 3]> {
        let mut results = Vec::new();
        for elements in [0, 1, 15, 16, 17, 100] {
            for replicas in [0, 1, 2, 3, 4, 8, 9] {
                for divisor in [1.0, 0.25, 7.0] {
                    results.push(updated::<T>(
                        instructions,
                        elements,
                        replicas,
                        divisor,
                        part,
                    ));
                }
            }
        }
        results
    }

    #[test]
    fn instruction_sets_and_ranges_give_the_same_bits() {
        let all = |instructions, part| {
            (
                all_updated::<f32>(instructions, part),
                all_updated::<f64>(instructions, part),
            )
        };
        let expected = all(Instructions::of(InstructionSet::Baseline).unwrap(), 1000);
        for instructions in Instructions::all() {
            for part in [1, 5, 33, 1000] {
                assert!(
                    all(instructions, part) == expected,
                    "{instructions:?} in ranges of {part}"
                );
            }
        }
    }

    #[test]
    fn division_is_exact_where_its_result_is() {
        #[derive(Clone, Copy)]
        struct Take;
        impl Formula<0> for Take {
            type Element = f64;

            #[inline(always)]
            fn apply(self, _: f64, _: [f64; 0], gradient: f64) -> (f64, [f64; 0]) {
                (gradient, [])
            }
        }
        // The reciprocals of 49 and 2^-1074 would give 0.99..9 and infinity.
        for divisor in [49.0, 3.0, 8.0, 0.5, f64::from_bits(1)] {
            let gradient = [divisor];
            let mut weight = [0.0];
            let contributions = [Contribution {
                gradient: span(&gradient),
                factor: 1.0,
            }];
            let weights = span_mut(&mut weight);
            let instructions = Instructions::chosen();
            // SAFETY: nobody else has the weight.
            let pass =
                unsafe { UpdatePass::new(instructions, &weights, &[], &contributions, divisor) };
            pass.run(Take);
            assert_eq!(weight, [1.0], "{divisor}");
        }
    }
}
