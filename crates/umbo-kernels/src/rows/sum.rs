//! Adding up the rows that replicas contribute to the gradient of a table.
//!
//! The sum of a row runs over all entries that name it, in the order in which they were added: by
//! replica, then by position. It is float64, like the sum of a dense gradient
//! ([`weighted_sum`](crate::update::weighted_sum)). One worker adds up a row, so the bits do not
//! depend on the threads.
//!
//! An update adds up the rows of a tile while it updates them ([`UpdatePass::at_rows`]): it reads
//! each contribution once, and writes no sum to memory (`update/row_gradients.rs`).
//! Whoever needs the sums themselves has them written ([`RowSums::write_to`]).
//!
//! [`UpdatePass::at_rows`]: crate::update::pass::UpdatePass::at_rows

use std::marker::PhantomData;
use std::ops::Range;

use crate::dtype::DType;
use crate::float::gradient_element::{GradientElement, for_gradient_dtype};
use crate::float::lanes::{BLOCK, Term};
use crate::instruction_set::{Instructions, Kernel, dispatch, keep_to_blocks};
use crate::prefetch::{ROWS_AHEAD, prefetch};
use crate::rows::order::RowOrder;
use crate::view::{Span, SpanMut};
use umbo_executor::workers;

/// Some rows, one for each entry of a range of an order.
#[derive(Clone, Copy, Debug)]
pub struct RowPart<'a> {
    /// The elements of the rows, one row after the other.
    pub values: Span<'a>,
    /// How many rows there are.
    pub rows: usize,
    /// The factor of each element.
    pub factor: f64,
}

/// For every row of an order, the sum of factor × row over the entries that name it.
#[derive(Clone, Copy, Debug)]
pub struct RowSums<'a> {
    order: &'a RowOrder,
    /// The sums of earlier runs, which are the first entries.
    accumulated: Option<Span<'a>>,
    accumulated_rows: usize,
    parts: &'a [RowPart<'a>],
    /// The elements of a row.
    width: usize,
    /// The type of the parts.
    dtype: DType,
}

impl<'a> RowSums<'a> {
    /// The sums for the rows of `order`, each of `width` elements. The first entries are the rows
    /// of `accumulated`, which is float64 and has the factor 1. The entries of `parts` follow, one
    /// part after the other.
    ///
    /// Asserted, not reported: there are as many entries as in the order; `parts` are of one dtype
    /// that gradients can have.
    pub fn new(
        order: &'a RowOrder,
        accumulated: Option<Span<'a>>,
        parts: &'a [RowPart<'a>],
        width: usize,
    ) -> RowSums<'a> {
        let dtype = parts
            .first()
            .map_or(DType::Float64, |part| part.values.dtype());
        let mut fresh = 0;
        for part in parts {
            assert_eq!(part.values.dtype(), dtype);
            assert_eq!(part.values.elements(), part.rows * width);
            fresh += part.rows;
        }
        assert!(fresh <= order.entries());
        let accumulated_rows = order.entries() - fresh;
        assert!(accumulated.is_none_or(|sums| sums.dtype() == DType::Float64));
        let elements = accumulated.map_or(0, |sums| sums.elements());
        assert_eq!(elements, accumulated_rows * width);
        RowSums {
            order,
            accumulated,
            accumulated_rows,
            parts,
            width,
            dtype,
        }
    }

    /// The elements of all sums together.
    pub fn elements(&self) -> usize {
        self.order.rows() * self.width
    }

    /// The number of entries.
    pub fn entries(&self) -> usize {
        self.order.entries()
    }

    /// The positions of the rows whose first entry lies in a range of the sorted entries.
    pub(crate) fn rows_within(&self, entries: Range<usize>) -> Range<usize> {
        self.order.rows_within(entries)
    }

    /// About how many bytes are read for one entry.
    pub fn bytes_of_entry(&self) -> usize {
        self.width * self.dtype.size()
    }

    /// Writes the sums of all rows to `to`, in the order's own order, on as many workers as the
    /// work is worth. Nothing is allocated. Asserted: `to` is float64 and has as many elements.
    ///
    /// # Safety
    /// Nobody else reads or writes the elements of `to` meanwhile.
    pub unsafe fn write_to(&self, instructions: Instructions, to: &SpanMut<'_>) {
        assert_eq!(
            (to.dtype(), to.elements()),
            (DType::Float64, self.elements())
        );
        let bytes = self.width * (self.dtype.size() + size_of::<f64>());
        workers::for_each_task(self.entries(), bytes, &|entries| {
            let rows = self.rows_within(entries);
            let first = to.data().cast::<f64>();
            let first = first.wrapping_add(rows.start * self.width);
            // SAFETY: the caller's promise, and no other worker has one of these rows.
            unsafe { self.write_tile(instructions, rows, 0..self.width, first) };
        });
    }

    /// Writes the elements `columns` of the sums of the rows at these positions to the memory from
    /// `to` on, one row after the other, on this thread.
    ///
    /// # Safety
    /// There are such rows and columns, and the memory, which nobody else uses, has room for them.
    pub(crate) unsafe fn write_tile(
        &self,
        instructions: Instructions,
        positions: Range<usize>,
        columns: Range<usize>,
        to: *mut f64,
    ) {
        for_gradient_dtype!(self.dtype, T => {
            let element = PhantomData::<T>;
            let tile = SumTile { sums: self, positions, columns, to, element };
            dispatch(instructions, tile);
        });
    }

    /// [`RowSums::write_tile`] in a loop that is compiled for these instructions. The contributions
    /// are of type `T`.
    ///
    /// # Safety
    /// As for [`RowSums::write_tile`].
    #[inline(always)]
    pub(crate) unsafe fn write_tile_of<T: GradientElement>(
        &self,
        instructions: Instructions,
        positions: Range<usize>,
        columns: Range<usize>,
        to: *mut f64,
    ) {
        let element = PhantomData::<T>;
        let tile = SumTile {
            sums: self,
            positions,
            columns,
            to,
            element,
        };
        tile.run(instructions);
    }

    /// Whether there are no sums of earlier runs.
    pub(crate) fn is_fresh(&self) -> bool {
        self.accumulated.is_none()
    }

    /// The type of the contributions.
    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    /// The factors of the parts.
    pub(crate) fn factors(&self) -> impl Iterator<Item = f64> {
        self.parts.iter().map(|part| part.factor)
    }

    /// The range of the sorted entries that name a row.
    #[inline(always)]
    pub(crate) fn entries_of(&self, position: usize) -> Range<usize> {
        self.order.entries_of(position)
    }

    /// The row of a part, of elements of type `T`, that a sorted entry is, with its factor. `None`
    /// past the last entry, and for a sum of earlier runs.
    #[inline(always)]
    pub(crate) fn fresh_term<T>(&self, entry: usize) -> Option<Term<T>> {
        let mut number = self
            .order
            .number(entry)?
            .checked_sub(self.accumulated_rows)?;
        for part in self.parts {
            if number < part.rows {
                let first = part.values.data().cast::<T>();
                return Some((part.factor, first.wrapping_add(number * self.width)));
            }
            number -= part.rows;
        }
        None
    }
}

/// The sums of some columns of some rows. The parts are of type `T`, and the code that creates it
/// ensures what [`RowSums::write_tile`] demands.
struct SumTile<'a, T> {
    sums: &'a RowSums<'a>,
    positions: Range<usize>,
    columns: Range<usize>,
    to: *mut f64,
    element: PhantomData<T>,
}

impl<T: GradientElement> Kernel for SumTile<'_, T> {
    #[inline(always)]
    fn run(self, instructions: Instructions) {
        let width = self.columns.len();
        let order = self.sums.order;
        for (index, position) in self.positions.clone().enumerate() {
            let first = self.to.wrapping_add(index * width);
            // SAFETY: the memory has room for this row, which only this call uses.
            let sum = unsafe {
                first.write_bytes(0, width);
                std::slice::from_raw_parts_mut(first, width)
            };
            for entry in order.entries_of(position) {
                if let Some(RowTerm::Fresh(row, _)) = self.term(entry + ROWS_AHEAD) {
                    prefetch(row.as_ptr().cast(), size_of_val(row));
                }
                match self.term(entry) {
                    None => {}
                    Some(RowTerm::Accumulated(row)) => {
                        sum.iter_mut()
                            .zip(row)
                            .for_each(|(sum, value)| *sum += value);
                    }
                    Some(RowTerm::Fresh(row, factor)) => add(instructions, sum, row, factor),
                }
            }
        }
    }
}

/// Adds factor × row to a sum that is as long.
#[inline(always)]
fn add<T: GradientElement>(instructions: Instructions, sum: &mut [f64], row: &[T], factor: f64) {
    let (sums, last_sums) = sum.as_chunks_mut::<BLOCK>();
    let (rows, last_row) = row.as_chunks::<BLOCK>();
    for (sum, row) in sums.iter_mut().zip(rows) {
        for (sum, value) in sum.iter_mut().zip(T::widened(instructions, *row)) {
            *sum += factor * value;
        }
        keep_to_blocks();
    }
    for (sum, value) in last_sums.iter_mut().zip(last_row) {
        let [value] = T::widened(instructions, [*value]);
        *sum += factor * value;
    }
}

/// The contribution of an entry to the sum of its row.
enum RowTerm<'a, T> {
    /// A sum of earlier runs.
    Accumulated(&'a [f64]),
    /// A row of a part, and its factor.
    Fresh(&'a [T], f64),
}

impl<T: GradientElement> SumTile<'_, T> {
    /// The term of a sorted entry, or `None` past the last.
    #[inline(always)]
    fn term(&self, entry: usize) -> Option<RowTerm<'_, T>> {
        let sums = self.sums;
        let number = sums.order.number(entry)?;
        if number < sums.accumulated_rows {
            let first = sums.accumulated?.data().cast::<f64>();
            let row = self.columns_of(first.wrapping_add(number * sums.width));
            return Some(RowTerm::Accumulated(row));
        }
        let (factor, first) = sums.fresh_term::<T>(entry)?;
        Some(RowTerm::Fresh(self.columns_of(first), factor))
    }

    /// The columns of the row from `first` on, which is one of the sums or of a part.
    #[inline(always)]
    fn columns_of<E>(&self, first: *const E) -> &[E] {
        let first = first.wrapping_add(self.columns.start);
        // SAFETY: there is this row (`RowSums::new` asserted how many there are), it has these
        // columns, and the builder of its span guaranteed that it may be read.
        unsafe { std::slice::from_raw_parts(first, self.columns.len()) }
    }
}
