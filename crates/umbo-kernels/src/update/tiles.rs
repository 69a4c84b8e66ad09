//! Gradients that are written to memory. They are written tile by tile for updates that have no
//! loop of their own, and as a whole for a caller that reads them.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

use crate::dtype::DType;
use crate::float::gradient_element::GradientElement;
use crate::float::lanes::BLOCK;
use crate::float::real::{Real, for_gradient, for_real};
use crate::instruction_set::{InstructionSet, Instructions, Kernel, dispatch, widest_for};
use crate::prefetch::prefetch;
use crate::update::finite_mask::FiniteMask;
use crate::update::gradients::{GradientLoop, MakeGradients};
use crate::update::pass::{PassRows, TILE, UpdatePass};
use crate::update::weighted_sum::{Finish, WeightedSum};
use crate::view::{Span, SpanMut};

/// The most slots of an update that is not a formula.
pub const MOST_SLOTS: usize = 8;

/// Some neighbouring elements of one variable's update. All have the variable's dtype.
#[derive(Debug)]
pub struct Tile<'t> {
    /// The variable's dtype.
    pub dtype: DType,
    /// The index in the variable of the first element.
    pub start: usize,
    /// Their number.
    pub elements: usize,
    /// The weights, which this tile alone may write.
    pub weights: *mut u8,
    /// The gradient: reduced, clipped, with the L2 term.
    pub gradient: *const u8,
    /// The slots, which this tile alone may write.
    pub slots: &'t [*mut u8],
}

/// Tiles whose gradients lie one after the other: one of a pass over all elements, or those of
/// rows. The code that creates it ensures that each lies in the weights and slots, which the pass
/// alone uses, and that there is a gradient for each element.
pub(super) struct TileRows<'t> {
    dtype: DType,
    /// The index in the variable of the first of the weights.
    first: usize,
    /// The rows, each of `width` elements.
    numbers: &'t [usize],
    width: usize,
    /// The elements of a row that a tile has.
    pub(super) columns: Range<usize>,
    pub(super) weights: *mut u8,
    pub(super) gradient: *const u8,
    pub(super) slots: &'t [*mut u8],
}

impl<'t> TileRows<'t> {
    /// A single tile.
    pub(super) fn of(tile: &'t Tile<'t>) -> TileRows<'t> {
        TileRows {
            dtype: tile.dtype,
            first: tile.start,
            numbers: &[0],
            width: 1,
            columns: 0..tile.elements,
            weights: tile.weights,
            gradient: tile.gradient,
            slots: tile.slots,
        }
    }

    /// For each tile the index of its first element among the weights.
    #[inline(always)]
    pub(super) fn places(&self) -> impl Iterator<Item = usize> {
        let numbers = self.numbers.iter();
        numbers.map(|number| number * self.width + self.columns.start)
    }

    /// Calls `update` with each tile.
    fn each(&self, update: &mut dyn FnMut(&Tile<'_>)) {
        let size = self.dtype.size();
        let elements = self.columns.len();
        for (index, place) in self.places().enumerate() {
            let at = |first: *mut u8| first.wrapping_add(place * size);
            let mut slots = [std::ptr::null_mut(); MOST_SLOTS];
            for (pointer, slot) in slots.iter_mut().zip(self.slots) {
                *pointer = at(*slot);
            }
            update(&Tile {
                dtype: self.dtype,
                start: self.first + place,
                elements,
                weights: at(self.weights),
                gradient: self.gradient.wrapping_add(index * elements * size),
                slots: &slots[..self.slots.len()],
            });
        }
    }
}

/// Memory for the gradient of one tile, or for its sums, its weights, or a slot.
#[repr(align(64))]
struct TileBuffer(MaybeUninit<[f64; TILE]>);

impl Tile<'_> {
    /// Calls `update` with copies of weights and slots, and writes the new weights to `to`, from
    /// `place` on.
    ///
    /// # Safety
    /// The tile's pointers are valid, and at most a [`TileBuffer`] of elements lies behind each.
    /// The elements of `to` exist, and nobody else reads or writes them.
    pub(super) unsafe fn update_copies(
        &self,
        to: &SpanMut<'_>,
        place: usize,
        update: &mut dyn FnMut(&Tile<'_>),
    ) {
        let size = self.dtype.size();
        let mut copies = [const { TileBuffer(MaybeUninit::uninit()) }; 1 + MOST_SLOTS];
        let copies = copies
            .each_mut()
            .map(|copy| copy.0.as_mut_ptr().cast::<u8>());
        let [weights, slots @ ..] = &copies;
        let originals = [self.weights].into_iter().chain(self.slots.iter().copied());
        // SAFETY: the caller's promise, and the copies are this call's.
        unsafe {
            for (copy, original) in copies.iter().zip(originals) {
                copy.copy_from_nonoverlapping(original, self.elements * size);
            }
            update(&Tile {
                weights: *weights,
                slots: &slots[..self.slots.len()],
                ..*self
            });
            let to = to.data().add(place * size);
            to.copy_from_nonoverlapping(*weights, self.elements * size);
        }
    }
}

/// Writes the elements `range` of the gradient to `to`. The code that creates it ensures that the
/// gradient has these elements, that its contributions are of type `G`, and that `to` has memory
/// for them.
struct WriteGradient<'a, G, T> {
    sum: &'a WeightedSum<'a>,
    finish: Finish<T>,
    range: Range<usize>,
    to: *mut T,
    /// The flag that is set if an element is not finite.
    not_finite: Option<&'a AtomicBool>,
    gradient: PhantomData<G>,
}

impl<G: GradientElement, T: Real> Kernel for WriteGradient<'_, G, T> {
    const WIDEST: InstructionSet = widest_for::<T>();

    #[inline(always)]
    fn run(self, instructions: Instructions) {
        let sum = self.sum;
        let finish = self.finish;
        sum.run::<G, T>(instructions, finish, self);
    }
}

impl<G: GradientElement, T: Real> GradientLoop<T> for WriteGradient<'_, G, T> {
    #[inline(always)]
    fn run<W: MakeGradients<T>>(self, instructions: Instructions, gradients: W) {
        let WriteGradient {
            range,
            mut to,
            not_finite,
            ..
        } = self;
        let mut traces = FiniteMask::new();
        let mut start = range.start;
        while range.end - start >= BLOCK {
            // SAFETY: the elements are in the range, and the code that created this guaranteed the
            // rest.
            unsafe {
                let block = gradients.block::<BLOCK>(instructions, start);
                traces.see_block(block);
                to.cast::<[T; BLOCK]>().write(block);
                to = to.add(BLOCK);
            }
            start += BLOCK;
        }
        while start < range.end {
            // SAFETY: as above.
            unsafe {
                let element = gradients.block::<1>(instructions, start);
                traces.see(element);
                to.write(element[0]);
                to = to.add(1);
            }
            start += 1;
        }
        traces.note(not_finite);
    }
}

impl WeightedSum<'_> {
    /// Writes the gradient to `to`, on this thread. Asserted: `to` is of the gradient's dtype and
    /// length.
    ///
    /// # Safety
    /// Nobody else reads or writes the elements of `to` meanwhile.
    pub unsafe fn write_to(&self, instructions: Instructions, to: &SpanMut<'_>) {
        assert_eq!((to.dtype(), to.elements()), (self.dtype, self.elements));
        for_real!(self.dtype, T => for_gradient!(T, self.gradient_dtype, G => {
            let finish = self.finish::<T>();
            let range = 0..self.elements;
            let to = to.data().cast::<T>();
            let gradient = PhantomData::<G>;
            let write = WriteGradient { sum: self, finish, range, to, not_finite: None, gradient };
            dispatch(instructions, write);
        }));
    }
}

impl UpdatePass<'_> {
    /// Makes the gradient tile by tile, on this thread, and calls `update` with each tile. `update`
    /// changes weights and slots, in a trial copies of them. Nothing is allocated. Asserted:
    /// there are at most [`MOST_SLOTS`] slots.
    pub fn run_tiles(&self, update: &mut dyn FnMut(&Tile<'_>)) {
        let mut trial;
        let update: &mut dyn FnMut(&Tile<'_>) = match self.trial {
            None => update,
            Some((to, first)) => {
                trial = move |tile: &Tile<'_>| {
                    // SAFETY: the tile is of this pass, which alone writes the new weights of its
                    // range, and these lie in `to`: see `UpdatePass::trying`.
                    unsafe { tile.update_copies(to, tile.start - first, update) }
                };
                &mut trial
            }
        };
        self.run_tile_rows(&mut |rows| rows.each(&mut *update));
    }

    /// The same, with the tiles whose gradients are made together. It is for no trial.
    pub(super) fn run_tile_rows(&self, update: &mut dyn FnMut(&TileRows<'_>)) {
        for_real!(self.dtype(), T => for_gradient!(T, self.sum().gradient_dtype, G => {
            self.tiles::<G, T>(update);
        }));
    }

    fn tiles<G: GradientElement, T: Real>(&self, update: &mut dyn FnMut(&TileRows<'_>)) {
        let mut buffer = TileBuffer(MaybeUninit::uninit());
        let buffer: *mut T = buffer.0.as_mut_ptr().cast();
        let Some(PassRows {
            numbers,
            elements: width,
        }) = self.rows
        else {
            return self.in_tiles(TILE, |range| {
                for start in range.clone().step_by(TILE) {
                    let end = range.end.min(start + TILE);
                    self.write_gradient::<G, T>(self.sum(), start..end, buffer);
                    self.tile_rows(buffer, &[start], 1, 0..end - start, update);
                }
            });
        };
        self.check_rows(PassRows {
            numbers,
            elements: width,
        });
        // The gradients of short rows are made together, those of a long row in parts.
        let together = (TILE / width.max(1)).max(1);
        self.in_tiles(together, |range| {
            for first in range.clone().step_by(together) {
                let rows = first..range.end.min(first + together);
                for done in (0..width).step_by(TILE) {
                    let columns = done..width.min(done + TILE);
                    self.prefetch::<T>(&numbers[rows.clone()], width, columns.clone());
                    self.write_row_gradients::<G, T>(rows.clone(), columns.clone(), buffer);
                    self.tile_rows(buffer, &numbers[rows.clone()], width, columns, update);
                }
            }
        });
    }

    /// Writes the elements `columns` of the gradients of some rows, without the L2 term, to `to`,
    /// which has room for them: of several rows if they are whole.
    fn write_row_gradients<G: GradientElement, T: Real>(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        to: *mut T,
    ) {
        let elements = rows.len() * columns.len();
        let Some(terms) = &self.terms else {
            let width = self.rows.map_or(1, |rows| rows.elements);
            let start = rows.start * width + columns.start;
            return self.write_gradient::<G, T>(self.sum(), start..start + elements, to);
        };
        let instructions = self.instructions();
        // SAFETY: the pass has these rows and columns, for whose gradients `to` has room.
        let is_written = unsafe {
            terms.write_gradients(
                instructions,
                self.sum(),
                rows.clone(),
                columns.clone(),
                to.cast(),
                self.not_finite,
            )
        };
        if is_written {
            return;
        }
        let mut sums = TileBuffer(MaybeUninit::uninit());
        let first = sums.0.as_mut_ptr().cast::<f64>();
        // SAFETY: the pass has these rows and columns, and at most `TILE` elements; the sums are
        // this call's, and are read when they are written.
        let sums = unsafe {
            terms.write_tile(instructions, rows, columns, first);
            std::slice::from_raw_parts(first.cast::<u8>(), elements * size_of::<f64>())
        };
        let sum = self.sum().of_sums(Span::of_bytes(sums, DType::Float64));
        self.write_gradient::<G, T>(&sum, 0..elements, to);
    }

    /// Writes the elements `range` of the gradient that `sum` makes, without the L2 term, to `to`,
    /// which has room for them.
    fn write_gradient<G: GradientElement, T: Real>(
        &self,
        sum: &WeightedSum<'_>,
        range: Range<usize>,
        to: *mut T,
    ) {
        let finish = sum.finish::<T>();
        let not_finite = self.not_finite;
        let gradient = PhantomData::<G>;
        let write = WriteGradient {
            sum,
            finish,
            range,
            to,
            not_finite,
            gradient,
        };
        dispatch(self.instructions(), write);
    }

    /// Asks for the elements `columns` of the weights and slots of the rows with these `numbers`,
    /// each of `width` elements.
    fn prefetch<T: Real>(&self, numbers: &[usize], width: usize, columns: Range<usize>) {
        for span in std::iter::once(self.weights()).chain(self.slots) {
            let first = span.data().cast::<T>().wrapping_add(columns.start);
            for number in numbers {
                let row = first.wrapping_add(number * width);
                prefetch(row.cast(), columns.len() * size_of::<T>());
            }
        }
    }

    /// Updates the elements `columns` of the rows with these `numbers`, each of `width` elements,
    /// whose gradients without the L2 term are in `gradient`.
    fn tile_rows<T: Real>(
        &self,
        gradient: *mut T,
        numbers: &[usize],
        width: usize,
        columns: Range<usize>,
        update: &mut dyn FnMut(&TileRows<'_>),
    ) {
        let mut slots = [std::ptr::null_mut(); MOST_SLOTS];
        for (pointer, slot) in slots[..self.slots.len()].iter_mut().zip(self.slots) {
            *pointer = slot.data();
        }
        let rows = TileRows {
            dtype: T::DTYPE,
            first: self.first,
            numbers,
            width,
            columns,
            weights: self.weights().data(),
            gradient: gradient.cast_const().cast(),
            slots: &slots[..self.slots.len()],
        };
        // Weights that are rounded are widened first.
        if self.l2 != 0.0 && self.rounding.is_none() {
            for (index, place) in rows.places().enumerate() {
                let elements = rows.columns.len();
                let weights = self.weights().data().cast::<T>().wrapping_add(place);
                // SAFETY: the gradient was just written, and nobody else has its memory. The row
                // lies in the weights, which this pass alone uses.
                unsafe { self.add_l2(gradient.add(index * elements), weights, elements) };
            }
        }
        update(&rows);
    }

    /// Adds the L2 term to the gradient of some elements, if there is one.
    ///
    /// # Safety
    /// There are so many elements of both, and nobody else has the gradient's.
    pub(super) unsafe fn add_l2<T: Real>(
        &self,
        gradient: *mut T,
        weights: *const T,
        elements: usize,
    ) {
        if self.l2 == 0.0 {
            return;
        }
        // SAFETY: the caller's promise.
        let (gradient, weights) = unsafe {
            (
                std::slice::from_raw_parts_mut(gradient, elements),
                std::slice::from_raw_parts(weights, elements),
            )
        };
        let add = AddL2 {
            gradient,
            weights,
            l2: T::from_f64(self.l2),
        };
        dispatch(self.instructions(), add);
    }
}

/// Adds `l2` × weight to each element of the gradient.
struct AddL2<'t, T> {
    gradient: &'t mut [T],
    weights: &'t [T],
    l2: T,
}

impl<T: Real> Kernel for AddL2<'_, T> {
    const WIDEST: InstructionSet = InstructionSet::Avx2;

    #[inline(always)]
    fn run(self, _: Instructions) {
        for (gradient, weight) in self.gradient.iter_mut().zip(self.weights) {
            *gradient = *gradient + self.l2 * *weight;
        }
    }
}
