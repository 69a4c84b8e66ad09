//! Elements of one tile, which share the moments of their rows and columns: sums, and updates.

use std::slice;

use super::Moments;
use crate::float::real::Real;
use crate::instruction_set::{InstructionSet, Instructions, Kernel};
use crate::update::chunks::{LANES, Lanes, sum_of};
use crate::update::tiles::Tile;
use crate::view::SpanMut;

/// A moment, moved towards `mean` by this share of the distance. A mean past the type's range
/// counts as the largest number, so that the moment stays finite unless a gradient is NaN.
#[inline(always)]
pub(super) fn moved<T: Real>(moment: T, mean: f64, share: f64) -> T {
    let largest = T::largest().to_f64();
    let mean = if mean > largest { largest } else { mean };
    let moment = moment.to_f64();
    T::from_f64(moment + share * (mean - moment))
}

/// The step of an element whose moment is `square`. If that is NaN, so is the step.
#[inline(always)]
fn step<T: Real>(gradient: T, square: T, floor: T) -> T {
    let square = if floor > square { floor } else { square };
    gradient / square.sqrt()
}

/// The moments of the elements of one tile.
#[derive(Clone, Copy)]
pub(super) struct TileMoments<T> {
    /// The means of rows and columns, from the tile's matrix on; null if each element has a moment.
    rows: *mut T,
    columns: *mut T,
    /// The mean of the rows of each matrix, from the tile's on.
    means: *const f64,
    /// The sizes of a matrix; of one row that has all elements, if there is a moment for each.
    sizes: [usize; 2],
    /// The place of the first element in its matrix.
    row: usize,
    column: usize,
}

impl<T: Real> TileMoments<T> {
    /// The moments of a tile.
    ///
    /// # Safety
    /// The moments and the means are those of the variable of the tile's pass.
    pub unsafe fn of(
        moments: &Moments<'_>,
        means: &SpanMut<'_>,
        tile: &Tile<'_>,
    ) -> TileMoments<T> {
        let Moments::Factored {
            rows,
            columns,
            sizes,
        } = moments
        else {
            return TileMoments {
                rows: std::ptr::null_mut(),
                columns: tile.slots[0].cast(),
                means: std::ptr::null(),
                sizes: [1, tile.elements],
                row: 0,
                column: 0,
            };
        };
        let row = tile.start / sizes[1];
        let matrix = row / sizes[0];
        // SAFETY: the tile's elements lie in the variable's matrices.
        unsafe {
            TileMoments {
                rows: rows.data().cast::<T>().add(matrix * sizes[0]),
                columns: columns.data().cast::<T>().add(matrix * sizes[1]),
                means: means.data().cast::<f64>().add(matrix),
                sizes: *sizes,
                row: row % sizes[0],
                column: tile.start % sizes[1],
            }
        }
    }

    /// Passes over the next elements of the tile, at most `most`, that lie in one row.
    #[inline(always)]
    fn next(&mut self, most: usize) -> Segment<T> {
        let TileMoments {
            rows,
            columns,
            means,
            sizes,
            row,
            column,
        } = *self;
        let count = most.min(sizes[1] - column);
        self.column += count;
        let is_end = self.column == sizes[1];
        if is_end {
            self.column = 0;
            self.row += 1;
        }
        if self.row == sizes[0] {
            self.row = 0;
            self.rows = rows.wrapping_add(sizes[0]);
            self.columns = columns.wrapping_add(sizes[1]);
            self.means = means.wrapping_add(1);
        }
        Segment {
            count,
            column,
            is_end,
            row: (!rows.is_null()).then(|| rows.wrapping_add(row)),
            columns: columns.wrapping_add(column),
            mean: means,
        }
    }
}

/// Neighbouring elements of one row.
struct Segment<T> {
    count: usize,
    /// The column of the first of them.
    column: usize,
    /// Whether the row ends with them.
    is_end: bool,
    /// The moment of the row; none if there is one for each element.
    row: Option<*mut T>,
    /// The moments of their columns, or of the elements.
    columns: *mut T,
    mean: *const f64,
}

impl<T: Real> Segment<T> {
    /// The factor of the moments of the columns.
    ///
    /// # Safety
    /// The moments were moved, and nobody writes them.
    #[inline(always)]
    unsafe fn of_row(&self) -> T {
        let Some(row) = self.row else {
            return T::from_f64(1.0);
        };
        // SAFETY: there is a moment for each row and a mean for each matrix.
        T::from_f64(unsafe { row.read().to_f64() / self.mean.read() })
    }

    /// The moments of the columns.
    ///
    /// # Safety
    /// As above.
    #[inline(always)]
    unsafe fn of_columns<'k>(&self) -> &'k [T] {
        // SAFETY: there is one for each column.
        unsafe { slice::from_raw_parts(self.columns, self.count) }
    }
}

/// The weights and the gradient of a tile.
///
/// # Safety
/// The tile is of this type.
#[inline(always)]
unsafe fn operands<'t, T>(tile: &'t Tile<'_>) -> (&'t [T], &'t [T]) {
    // SAFETY: a tile's pointers are to as many elements, which nobody writes while they are read.
    unsafe {
        (
            slice::from_raw_parts(tile.weights.cast(), tile.elements),
            slice::from_raw_parts(tile.gradient.cast(), tile.elements),
        )
    }
}

/// The sum of the squares of some numbers, each of which is added to the sum of its column, too.
#[inline(always)]
fn add_row<T: Real>(values: &[T], columns: &mut [f64]) -> f64 {
    let mut lanes: Lanes = [0.0; LANES];
    let (blocks, last) = values.as_chunks::<LANES>();
    let (of_blocks, of_last) = columns.as_chunks_mut::<LANES>();
    for (values, sums) in blocks.iter().zip(of_blocks) {
        for lane in 0..LANES {
            let value = values[lane].to_f64();
            sums[lane] += value * value;
            lanes[lane] += value * value;
        }
    }
    for (lane, (value, sum)) in last.iter().zip(of_last).enumerate() {
        let value = value.to_f64();
        *sum += value * value;
        lanes[lane] += value * value;
    }
    sum_of(lanes)
}

/// The sum of the squares of what `value` makes of the pairs of two slices, which are as long.
#[inline(always)]
fn squares_of<T: Real>(left: &[T], right: &[T], value: impl Fn(T, T) -> T) -> f64 {
    let mut lanes: Lanes = [0.0; LANES];
    let (blocks, last) = left.as_chunks::<LANES>();
    let (others, last_others) = right.as_chunks::<LANES>();
    for (left, right) in blocks.iter().zip(others) {
        for lane in 0..LANES {
            let value = value(left[lane], right[lane]).to_f64();
            lanes[lane] += value * value;
        }
    }
    for (lane, (left, right)) in last.iter().zip(last_others).enumerate() {
        let value = value(*left, *right).to_f64();
        lanes[lane] += value * value;
    }
    sum_of(lanes)
}

/// Adds up the squares of a tile.
pub(super) struct AddSquares<'t, T> {
    pub tile: &'t Tile<'t>,
    pub kept: TileMoments<T>,
    pub share: f64,
    pub of_weights: &'t mut f64,
    pub columns: &'t mut [f64],
    /// The sum of the row that the tile begins in, so far.
    pub row: &'t mut f64,
}

impl<T: Real> Kernel for AddSquares<'_, T> {
    const WIDEST: InstructionSet = InstructionSet::Avx2;

    #[inline(always)]
    fn run(self, _: Instructions) {
        let mut kept = self.kept;
        // SAFETY: the pass that made the tile is of this type.
        let (weights, mut gradient) = unsafe { operands::<T>(self.tile) };
        *self.of_weights += squares_of(weights, weights, |weight, _| weight);
        while !gradient.is_empty() {
            let segment = kept.next(gradient.len());
            let (values, others) = gradient.split_at(segment.count);
            gradient = others;
            let Some(moment) = segment.row else {
                // SAFETY: there is a moment for each element, and the call alone uses them.
                let moments = unsafe { slice::from_raw_parts_mut(segment.columns, segment.count) };
                for (moment, value) in moments.iter_mut().zip(values) {
                    let value = value.to_f64();
                    *moment = moved(*moment, value * value, self.share);
                }
                continue;
            };
            let columns = &mut self.columns[segment.column..][..segment.count];
            *self.row += add_row(values, columns);
            if segment.is_end {
                let mean = *self.row / kept.sizes[1] as f64;
                *self.row = 0.0;
                // SAFETY: the row is this block's.
                unsafe { moment.write(moved(moment.read(), mean, self.share)) };
            }
        }
    }
}

/// Adds up the squares of the steps of a tile.
pub(super) struct MeasureSteps<'t, T> {
    pub tile: &'t Tile<'t>,
    pub kept: TileMoments<T>,
    pub floor: T,
    pub sum: &'t mut f64,
}

impl<T: Real> Kernel for MeasureSteps<'_, T> {
    const WIDEST: InstructionSet = InstructionSet::Avx2;

    #[inline(always)]
    fn run(self, _: Instructions) {
        let mut kept = self.kept;
        let floor = self.floor;
        // SAFETY: the pass that made the tile is of this type.
        let (_, mut gradient) = unsafe { operands::<T>(self.tile) };
        while !gradient.is_empty() {
            let segment = kept.next(gradient.len());
            let (values, others) = gradient.split_at(segment.count);
            gradient = others;
            // SAFETY: the moments were moved.
            let (row, columns) = unsafe { (segment.of_row(), segment.of_columns()) };
            *self.sum += squares_of(values, columns, |value, column| {
                step(value, row * column, floor)
            });
        }
    }
}

/// Updates the weights of a tile.
pub(super) struct TakeSteps<'t, T> {
    pub tile: &'t Tile<'t>,
    pub kept: TileMoments<T>,
    pub floor: T,
    pub factor: T,
    pub rate: T,
}

impl<T: Real> Kernel for TakeSteps<'_, T> {
    const WIDEST: InstructionSet = InstructionSet::Avx2;

    #[inline(always)]
    fn run(self, _: Instructions) {
        let TakeSteps {
            tile,
            mut kept,
            floor,
            factor,
            rate,
        } = self;
        // SAFETY: the pass that made the tile is of this type, and this call alone writes its
        // weights.
        let (mut weights, mut gradient) = unsafe {
            (
                slice::from_raw_parts_mut(tile.weights.cast::<T>(), tile.elements),
                slice::from_raw_parts(tile.gradient.cast::<T>(), tile.elements),
            )
        };
        while !gradient.is_empty() {
            let segment = kept.next(gradient.len());
            let (values, others) = gradient.split_at(segment.count);
            gradient = others;
            let (updated, others) = weights.split_at_mut(segment.count);
            weights = others;
            // SAFETY: the moments were moved.
            let (row, columns) = unsafe { (segment.of_row(), segment.of_columns()) };
            for ((weight, value), column) in updated.iter_mut().zip(values).zip(columns) {
                *weight = factor * *weight - rate * step(*value, row * *column, floor);
            }
        }
    }
}
