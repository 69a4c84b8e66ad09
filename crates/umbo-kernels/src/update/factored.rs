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
use crate::instruction_set::dispatch;
use crate::update::pass::UpdatePass;
use crate::update::tiles::Tile;
use crate::view::SpanMut;
use umbo_executor::workers;

use tiles::{AddSquares, MeasureSteps, TakeSteps, TileMoments, moved};

mod tiles;

/// Elements of a block, unless its rows are longer.
const BLOCK: usize = 64 << 10;

/// The most blocks of a matrix, and the least rows of a block, of each of which the sums of the
/// columns are kept: they take an eighth of a matrix of float32 at most.
const MOST_BLOCKS: usize = 16;

/// The numbers of one update of a variable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FactoredScalars {
    /// The share of the gradient's squares in the new moments: 0 to 1.
    pub share: f64,
    /// ε₁: the root of the least moment that a gradient is divided by, and the least mean of all
    /// rows. More than 0; `None`: the distance from 1 to the next number of the variable's type.
    pub epsilon1: Option<f64>,
    /// ε₂: the least size of the weights from which the length of a step follows.
    pub epsilon2: f64,
    /// d: the size from which on steps are scaled down.
    pub clip_threshold: f64,
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
pub(crate) struct Blocks {
    pub(crate) matrices: usize,
    /// Elements of one matrix, and of each of its blocks but the last.
    pub(crate) of_matrix: usize,
    pub(crate) size: usize,
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
    pub(crate) fn of(elements: usize, sizes: Option<[usize; 2]>) -> Blocks {
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
    pub(crate) fn each(&self) -> usize {
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
        if let Moments::Factored {
            rows,
            columns,
            sizes,
        } = moments
        {
            for (factors, each) in [rows, columns].into_iter().zip(sizes) {
                assert_eq!(
                    (factors.dtype(), factors.elements()),
                    (self.dtype(), blocks.matrices * each)
                );
            }
        }
        for_real!(self.dtype(), T => {
            let epsilon = scalars.epsilon1.unwrap_or(T::epsilon().to_f64());
            let floor = epsilon * epsilon;
            let call = MomentsCall { pass: self, moments, blocks, sums, means };
            // SAFETY: the caller's promise.
            let [of_weights, of_steps] = unsafe { call.run::<T>(scalars.share, epsilon, floor) };
            let size = |sum: f64| (sum / elements as f64).sqrt();
            let length = size(of_weights).max(scalars.epsilon2) * scalars.rate;
            FactoredStep {
                kept: scalars.kept,
                rate: length / (size(of_steps) / scalars.clip_threshold).max(1.0),
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

    /// Calls `read` with the tiles of some elements, whose weights have the type of the moments.
    fn read_tiles(&self, elements: Range<usize>, read: &mut dyn FnMut(&Tile<'_>)) {
        let pass = self.pass.only_reading(elements);
        match pass.rounding {
            None => pass.run_tiles(read),
            Some(_) => pass.read_widened(read),
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
        self.read_tiles(range, &mut |tile| {
            // SAFETY: the caller's promise.
            let kept = unsafe { TileMoments::of(self.moments, self.means, tile) };
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
        // `max` would take epsilon instead of NaN.
        let mean = if epsilon > mean { epsilon } else { mean };
        // SAFETY: there is a mean for each matrix, and the caller guarantees the rest.
        unsafe {
            let to = self.means.data().cast::<f64>().add(matrix);
            to.write(mean);
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
        self.read_tiles(range, &mut |tile| {
            // SAFETY: the caller's promise, and the means are written.
            let kept = unsafe { TileMoments::of(self.moments, self.means, tile) };
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
        for_real!(pass.dtype(), T => {
            let update: &mut dyn FnMut(&Tile<'_>) = &mut |tile| {
                let step = TakeSteps::<T> {
                    tile,
                    // SAFETY: the caller's promise.
                    kept: unsafe { TileMoments::of(moments, means, tile) },
                    floor: T::from_f64(self.floor),
                    factor: T::from_f64(self.kept),
                    rate: T::from_f64(self.rate),
                };
                dispatch(pass.instructions(), step);
            };
            match pass.rounding {
                None => pass.run_tiles(update),
                Some(_) => pass.run_buffered(update),
            }
        });
    }
}
