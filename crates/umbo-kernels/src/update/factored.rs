//! Updates by second moments of which a matrix keeps the means of its rows and of its columns only,
//! as Adafactor's.
//!
//! The step of an element depends on all others: on the moments of its row and its column, and on
//! the sizes of the weights and of the steps. So [`UpdatePass::move_moments`] first moves the
//! moments and measures both sizes, by reading gradients and weights twice, and
//! [`FactoredStep::run`] then updates each element.
//!
//! A sum is float64, and the order of its additions depends on the variable's shape alone. A block
//! has whole rows of one matrix; its rows are added in order to sums of the columns, and those of
//! the blocks in order. A row is added up in 16 interleaved lanes, in the parts that tiles of 512
//! elements from the beginning of the block on cut it into.

use std::ops::Range;
use std::slice;

use crate::dtype::DType;
use crate::float::real::{Real, for_real};
use crate::instruction_set::{InstructionSet, Instructions, Kernel, dispatch};
use crate::update::chunks::{LANES, Lanes, sum_of};
use crate::update::pass::UpdatePass;
use crate::update::tiles::Tile;
use crate::view::SpanMut;
use umbo_executor::workers;

/// Elements of a block, unless its rows are longer.
const BLOCK: usize = 64 << 10;

/// The most blocks of a matrix, and the least rows of a block, of each of which the sums of the
/// columns are kept: they take an eighth of a matrix of float32 at most.
const MOST_BLOCKS: usize = 16;

/// The numbers of one update of a variable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FactoredScalars {
    /// The share of the gradient's squares in the new moments: more than 0, and at most 1.
    pub share: f64,
    /// ε₁: the root of the least moment that a gradient is divided by, and the least mean of all
    /// rows. More than 0; `None`: the distance from 1 to the next number of the variable's type.
    pub epsilon: Option<f64>,
    /// ε₂: the least size of the weights from which the length of a step follows.
    pub least_size: f64,
    /// The size from which on steps are scaled down.
    pub threshold: f64,
    /// The length of a step in relation to the weights.
    pub rate: f64,
    /// The factor of the weights before the step.
    pub kept: f64,
}

/// The second moments of one variable.
#[derive(Clone, Copy, Debug)]
pub enum Moments<'a> {
    /// One for each element: the only slot of the pass.
    Full,
    /// The means of the rows and of the columns of matrices of this many rows and columns, which
    /// lie one after the other.
    Factored {
        /// The means of the rows.
        rows: &'a SpanMut<'a>,
        /// The means of the columns.
        columns: &'a SpanMut<'a>,
        /// The numbers of rows and columns.
        sizes: [usize; 2],
    },
}

/// The numbers that the update of each element needs, once all elements were measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FactoredStep {
    /// The factor of the weights before the step.
    kept: f64,
    /// The factor of the step.
    rate: f64,
    /// The least moment that a gradient is divided by.
    floor: f64,
}

/// How a variable is cut into blocks.
#[derive(Clone, Copy, Debug)]
struct Blocks {
    matrices: usize,
    /// Elements of one matrix, and of each of its blocks but the last.
    of_matrix: usize,
    size: usize,
    /// How many sums a block has: one of squares, and those of the columns.
    sums: usize,
}

impl Moments<'_> {
    /// How many numbers of float64 [`UpdatePass::move_moments`] needs for sums, and for means, of a
    /// variable of this shape.
    pub fn numbers(shape: &[usize]) -> [usize; 2] {
        let elements = shape.iter().product();
        let blocks = match *shape {
            [.., rows, columns] => Blocks::of(elements, Some([rows, columns])),
            _ => Blocks::of(elements, None),
        };
        [blocks.count() * blocks.sums, blocks.matrices]
    }

    fn sizes(&self) -> Option<[usize; 2]> {
        match self {
            Moments::Full => None,
            Moments::Factored { sizes, .. } => Some(*sizes),
        }
    }
}

impl Blocks {
    fn of(elements: usize, sizes: Option<[usize; 2]>) -> Blocks {
        let Some([rows, columns]) = sizes else {
            return Blocks {
                matrices: 1,
                of_matrix: elements,
                size: BLOCK,
                sums: 1,
            };
        };
        let together = rows
            .div_ceil(MOST_BLOCKS)
            .max(BLOCK / columns.max(1))
            .max(MOST_BLOCKS);
        let of_matrix = rows * columns;
        Blocks {
            matrices: elements / of_matrix.max(1),
            of_matrix,
            size: together * columns.max(1),
            sums: 1 + columns,
        }
    }

    /// How many blocks a matrix has.
    fn each(&self) -> usize {
        self.of_matrix.div_ceil(self.size)
    }

    fn count(&self) -> usize {
        self.matrices * self.each()
    }

    /// The elements of one of them.
    fn range(&self, block: usize) -> Range<usize> {
        let matrix = block / self.each() * self.of_matrix;
        let start = block % self.each() * self.size;
        matrix + start..matrix + self.of_matrix.min(start + self.size)
    }
}

impl UpdatePass<'_> {
    /// Moves the moments by the gradient, without the L2 term, and measures the steps and weights,
    /// on the workers. `sums` and `means` are memory for as many float64 as [`Moments::numbers`]
    /// says; `means` is read by [`FactoredStep::run`] afterwards. Nothing is allocated. Asserted:
    /// the pass is over all elements of the variable, and the moments are those of its shape.
    ///
    /// # Safety
    /// Nobody else reads or writes moments, sums and means during the call.
    pub unsafe fn move_moments(
        &self,
        scalars: &FactoredScalars,
        moments: &Moments<'_>,
        sums: &SpanMut<'_>,
        means: &SpanMut<'_>,
    ) -> FactoredStep {
        let elements = self.weights().elements();
        if elements == 0 {
            return FactoredStep::default();
        }
        let blocks = Blocks::of(elements, moments.sizes());
        assert!(self.is_whole() && self.range == (0..elements) && self.first == 0);
        assert!(sums.elements() >= blocks.count() * blocks.sums);
        assert!(means.elements() >= blocks.matrices);
        assert_eq!([sums, means].map(SpanMut::dtype), [DType::Float64; 2]);
        if let Moments::Factored { rows, columns, .. } = moments {
            assert_eq!(
                [rows, columns].map(|factors| factors.dtype()),
                [self.dtype(); 2]
            );
            let [of_matrix, of_columns] = moments.sizes().unwrap_or_default();
            assert_eq!(rows.elements(), blocks.matrices * of_matrix);
            assert_eq!(columns.elements(), blocks.matrices * of_columns);
        }
        for_real!(self.dtype(), T => {
            let epsilon = scalars.epsilon.unwrap_or(T::epsilon().to_f64());
            let floor = epsilon * epsilon;
            let call = MomentsCall { pass: self, moments, blocks, sums, means };
            // SAFETY: the caller's promise.
            let [of_weights, of_steps] = unsafe { call.run::<T>(scalars.share, epsilon, floor) };
            let size = |sum: f64| (sum / (elements.max(1) as f64)).sqrt();
            let length = size(of_weights).max(scalars.least_size) * scalars.rate;
            FactoredStep {
                kept: scalars.kept,
                rate: length / (size(of_steps) / scalars.threshold).max(1.0),
                floor,
            }
        })
    }
}

/// The operands of one call. The caller ensures that they fit each other.
struct MomentsCall<'c> {
    pass: &'c UpdatePass<'c>,
    moments: &'c Moments<'c>,
    blocks: Blocks,
    sums: &'c SpanMut<'c>,
    means: &'c SpanMut<'c>,
}

impl MomentsCall<'_> {
    /// The sums of the squares of all weights and of all steps.
    ///
    /// # Safety
    /// Nobody else reads or writes moments, sums and means.
    unsafe fn run<T: Real>(&self, share: f64, epsilon: f64, floor: f64) -> [f64; 2] {
        let Blocks { matrices, sums, .. } = self.blocks;
        let in_blocks = |body: &(dyn Fn(usize) + Sync)| {
            let bytes = 2 * self.blocks.size * size_of::<T>();
            workers::for_each_task(self.blocks.count(), bytes, &|range| range.for_each(body));
        };
        in_blocks(&|block| {
            // SAFETY: the caller's promise; each block has sums and rows of its own.
            unsafe { self.add_squares::<T>(block, share) }
        });
        let of_weights = self.total();
        if let Moments::Factored { sizes, .. } = self.moments {
            let bytes = sizes[0] * size_of::<T>() + self.blocks.each() * sums * size_of::<f64>();
            workers::for_each_task(matrices, bytes, &|range| {
                for matrix in range {
                    // SAFETY: the caller's promise; each matrix has means and columns of its own.
                    unsafe { self.move_columns::<T>(matrix, *sizes, share, epsilon) }
                }
            });
        }
        in_blocks(&|block| {
            // SAFETY: as above.
            unsafe { self.measure_steps::<T>(block, floor) }
        });
        [of_weights, self.total()]
    }

    /// The sums of a block, the first of which is of squares.
    ///
    /// # Safety
    /// Nobody else reads or writes them.
    #[expect(
        clippy::mut_from_ref,
        reason = "the span is of memory that this call alone uses"
    )]
    unsafe fn sums_of(&self, block: usize) -> &mut [f64] {
        let sums = self.blocks.sums;
        // SAFETY: there are so many sums for each block, and the caller guarantees the rest.
        unsafe {
            let first = self.sums.data().cast::<f64>().add(block * sums);
            slice::from_raw_parts_mut(first, sums)
        }
    }

    /// The first sums of all blocks, added up.
    fn total(&self) -> f64 {
        // SAFETY: no worker is at a block now.
        let of_block = |block| unsafe { self.sums_of(block)[0] };
        (0..self.blocks.count()).fold(0.0, |total, block| total + of_block(block))
    }

    /// Adds up the squares of one block, and moves the moments of its rows, or of its elements.
    ///
    /// # Safety
    /// Nobody else reads or writes these and the sums of the block.
    unsafe fn add_squares<T: Real>(&self, block: usize, share: f64) {
        let range = self.blocks.range(block);
        // SAFETY: the caller's promise.
        let [of_weights, columns @ ..] = (unsafe { self.sums_of(block) }) else {
            unreachable!("a block has a sum");
        };
        *of_weights = 0.0;
        columns.fill(0.0);
        let mut row = 0.0;
        self.pass.only_reading(range).run_tiles(&mut |tile| {
            // SAFETY: the caller's promise.
            let kept = unsafe { Kept::of(self.moments, self.means, tile) };
            dispatch(
                self.pass.instructions(),
                AddSquares::<T> {
                    tile,
                    kept,
                    share,
                    of_weights: &mut *of_weights,
                    columns: &mut *columns,
                    row: &mut row,
                },
            );
        });
    }

    /// Moves the moments of one matrix's columns by the sums of its blocks, and takes the mean of
    /// those of its rows.
    ///
    /// # Safety
    /// Nobody else reads or writes these and the sums of the matrix.
    unsafe fn move_columns<T: Real>(
        &self,
        matrix: usize,
        [rows, columns]: [usize; 2],
        share: f64,
        epsilon: f64,
    ) {
        let Moments::Factored {
            rows: of_rows,
            columns: of_columns,
            ..
        } = self.moments
        else {
            return;
        };
        let each = self.blocks.each();
        // SAFETY: each matrix has so many rows and columns, and the caller guarantees the rest.
        let (of_rows, of_columns, first) = unsafe {
            let of_rows = of_rows.data().cast::<T>().add(matrix * rows);
            let of_columns = of_columns.data().cast::<T>().add(matrix * columns);
            (
                slice::from_raw_parts(of_rows, rows),
                slice::from_raw_parts_mut(of_columns, columns),
                self.sums_of(matrix * each),
            )
        };
        let first = &mut first[1..];
        for block in 1..each {
            // SAFETY: as above; it is another block.
            let others = unsafe { self.sums_of(matrix * each + block) };
            let both = first.iter_mut().zip(&others[1..]);
            both.for_each(|(sum, other)| *sum += other);
        }
        for (moment, sum) in of_columns.iter_mut().zip(first) {
            *moment = moved(*moment, *sum / rows as f64, share);
        }
        // Divided first, since the sum may be too large.
        let add = |mean: f64, moment: &T| mean + moment.to_f64() / rows as f64;
        let mean = of_rows.iter().fold(0.0, add);
        // SAFETY: there is a mean for each matrix, and the caller guarantees the rest.
        unsafe {
            let to = self.means.data().cast::<f64>().add(matrix);
            to.write(mean.max(epsilon));
        }
    }

    /// Adds up the squares of the steps of one block.
    ///
    /// # Safety
    /// Nobody else reads or writes the sums of the block, nor writes the moments.
    unsafe fn measure_steps<T: Real>(&self, block: usize, floor: f64) {
        let range = self.blocks.range(block);
        // SAFETY: the caller's promise.
        let of_steps = unsafe { &mut self.sums_of(block)[0] };
        *of_steps = 0.0;
        self.pass.only_reading(range).run_tiles(&mut |tile| {
            // SAFETY: the caller's promise, and the means are written.
            let kept = unsafe { Kept::of(self.moments, self.means, tile) };
            let floor = T::from_f64(floor);
            let measure = MeasureSteps {
                tile,
                kept,
                floor,
                sum: &mut *of_steps,
            };
            dispatch(self.pass.instructions(), measure);
        });
    }
}

impl FactoredStep {
    /// Updates the weights of the pass, on this thread. The moments and the means are those that
    /// [`UpdatePass::move_moments`] has moved and written. Nothing is allocated.
    ///
    /// # Safety
    /// Nobody writes moments and means during the call.
    pub unsafe fn run(&self, pass: &UpdatePass<'_>, moments: &Moments<'_>, means: &SpanMut<'_>) {
        for_real!(pass.dtype(), T => pass.run_tiles(&mut |tile| {
            let step = TakeSteps::<T> {
                tile,
                // SAFETY: the caller's promise.
                kept: unsafe { Kept::of(moments, means, tile) },
                floor: T::from_f64(self.floor),
                factor: T::from_f64(self.kept),
                rate: T::from_f64(self.rate),
            };
            dispatch(pass.instructions(), step);
        }));
    }
}

/// A moment, moved towards `mean` by this share of the distance. Both are finite afterwards, unless
/// a gradient is not.
#[inline(always)]
fn moved<T: Real>(moment: T, mean: f64, share: f64) -> T {
    let largest = T::largest().to_f64();
    let mean = if mean > largest { largest } else { mean };
    let moment = moment.to_f64();
    T::from_f64(moment + share * (mean - moment))
}

/// The step of an element whose moment is `square`.
#[inline(always)]
fn step<T: Real>(gradient: T, square: T, floor: T) -> T {
    let square = if square > floor { square } else { floor };
    gradient / square.sqrt()
}

/// The moments of the elements of one tile.
#[derive(Clone, Copy)]
struct Kept<T> {
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

impl<T: Real> Kept<T> {
    /// The moments of a tile.
    ///
    /// # Safety
    /// The moments and the means are those of the variable of the tile's pass.
    unsafe fn of(moments: &Moments<'_>, means: &SpanMut<'_>, tile: &Tile<'_>) -> Kept<T> {
        let Moments::Factored {
            rows,
            columns,
            sizes,
        } = moments
        else {
            return Kept {
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
            Kept {
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
        let Kept {
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
struct AddSquares<'t, T> {
    tile: &'t Tile<'t>,
    kept: Kept<T>,
    share: f64,
    of_weights: &'t mut f64,
    columns: &'t mut [f64],
    /// The sum of the row that the tile begins in, so far.
    row: &'t mut f64,
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
struct MeasureSteps<'t, T> {
    tile: &'t Tile<'t>,
    kept: Kept<T>,
    floor: T,
    sum: &'t mut f64,
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
struct TakeSteps<'t, T> {
    tile: &'t Tile<'t>,
    kept: Kept<T>,
    floor: T,
    factor: T,
    rate: T,
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
