//! Products of matrices, computed by the workers.
//!
//! Each element of a product is a sum over the inner dimension: in order within blocks of
//! [`DEPTH`], and then over the blocks in order. So the bits depend neither on the workers nor on
//! the instruction set, nor on the other rows and columns.
//!
//! A worker computes one block of the result after the other. It copies the parts of both factors
//! that a block needs into memory of its own, in the order in which the innermost loop reads them,
//! with zeros behind the last row and column.

use std::array;
use std::ops::Range;

use parking_lot::Mutex;

use crate::instruction_set::{InstructionSet, Instructions, Kernel, dispatch};
use crate::matrix::register_tile::{COLUMNS, ROWS, RegisterTile, sums};
use umbo_base::error::{Result, memory};
use umbo_executor::pieces::Pieces;
use umbo_executor::workers;

/// The number of products that are added up before their sum enters the result.
pub const DEPTH: usize = 256;
/// The rows of a block of the result, whose part of the left factor fits into a core's cache.
const BLOCK_ROWS: usize = 32 * ROWS;
/// The columns of a block of the result.
const BLOCK_COLUMNS: usize = 32 * COLUMNS;
/// The elements of a row that are copied before those of the next row: a cache line.
const STRIP: usize = 16;

/// A matrix: its elements, and how to walk them.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    elements: &'a [f32],
    rows: usize,
    columns: usize,
    /// The distance from one element to the one below it, and to the one at its right.
    steps: (usize, usize),
}

impl<'a> Matrix<'a> {
    /// The matrix with these rows, one behind the other. Asserted: there are as many elements.
    pub fn new(elements: &'a [f32], rows: usize, columns: usize) -> Matrix<'a> {
        assert_eq!(rows.checked_mul(columns), Some(elements.len()));
        Matrix {
            elements,
            rows,
            columns,
            steps: (columns, 1),
        }
    }

    /// The matrix with the columns of this one as rows. Nothing is copied.
    pub fn transposed(self) -> Matrix<'a> {
        Matrix {
            elements: self.elements,
            rows: self.columns,
            columns: self.rows,
            steps: (self.steps.1, self.steps.0),
        }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The element at a row and a column. Asserted: they exist.
    #[inline(always)]
    pub fn at(&self, row: usize, column: usize) -> f32 {
        assert!(row < self.rows && column < self.columns);
        self.elements[row * self.steps.0 + column * self.steps.1]
    }

    /// `count` elements of a row, from a column on. Inlined.
    #[inline(always)]
    fn along_row(&self, row: usize, first: usize, count: usize) -> impl Iterator<Item = &'a f32> {
        let start = row * self.steps.0 + first * self.steps.1;
        let elements = self.elements.get(start..).unwrap_or_default();
        elements.iter().step_by(self.steps.1.max(1)).take(count)
    }
}

/// A product, and what is added to it: `factor` × `left` × `right` + `base`.
#[derive(Clone, Copy, Debug)]
pub struct Product<'a> {
    /// The left factor.
    pub left: Matrix<'a>,
    /// The right factor, with as many rows as the left one has columns.
    pub right: Matrix<'a>,
    /// The factor of the product.
    pub factor: f32,
    /// A matrix of the result's rows and columns, and its factor.
    pub base: Option<(f32, Matrix<'a>)>,
}

/// The memory of products, into which the workers copy parts of the factors.
#[derive(Debug, Default)]
pub struct Products {
    pieces: Pieces,
    /// One for each worker.
    packed: Vec<Mutex<PackedParts>>,
}

/// Parts of both factors.
#[derive(Debug, Default)]
struct PackedParts {
    /// For each [`ROWS`] rows the elements of one column after the other.
    left: Vec<[f32; ROWS]>,
    /// For each [`COLUMNS`] columns the elements of one row after the other.
    right: Vec<[f32; COLUMNS]>,
}

impl Products {
    /// Reserves memory for as many workers as there are now, so that a product allocates nothing.
    ///
    /// Fails with RESOURCE_EXHAUSTED, and can then be called again.
    pub fn reserve(&mut self) -> Result<()> {
        let missing = workers::count().saturating_sub(self.packed.len());
        memory::reserve(&mut self.packed, missing, "workers' parts of matrices")?;
        for _ in 0..missing {
            let name = "elements of a worker's parts of matrices";
            let left = memory::filled(BLOCK_ROWS / ROWS * DEPTH, [0.0; ROWS], name)?;
            let right = memory::filled(BLOCK_COLUMNS / COLUMNS * DEPTH, [0.0; COLUMNS], name)?;
            self.packed.push(Mutex::new(PackedParts { left, right }));
        }
        // One piece is all that a product has.
        self.pieces.clear();
        self.pieces.push(1, 1, 1);
        Ok(())
    }

    /// Writes a product to `to`, one row behind the other. Allocates nothing.
    ///
    /// Asserted: memory is reserved, and the matrices' rows and columns fit together.
    pub fn write(&mut self, instructions: Instructions, product: &Product<'_>, to: &mut [f32]) {
        let Product { left, right, .. } = product;
        assert_eq!(left.columns, right.rows);
        assert_eq!(left.rows.checked_mul(right.columns), Some(to.len()));
        if let Some((_, base)) = product.base {
            assert_eq!((base.rows, base.columns), (left.rows, right.columns));
        }
        assert!(!self.packed.is_empty());
        let across = right.columns.div_ceil(BLOCK_COLUMNS);
        let blocks = left.rows.div_ceil(BLOCK_ROWS) * across;
        // Work is shared by what it costs: a float that is moved takes as long as some products.
        let cost = left.columns.saturating_mul(BLOCK_ROWS * BLOCK_COLUMNS) / 4;
        self.pieces.clear();
        self.pieces.push(blocks, 1, cost);
        let to = Target(to.as_mut_ptr());
        let to = &to;
        let packed = &self.packed;
        self.pieces.for_each_range(packed.len(), &|range| {
            let packed = &mut *packed[range.worker()].lock();
            for (_, part) in range.parts() {
                for block in part.range() {
                    let rows = block / across * BLOCK_ROWS;
                    let columns = block % across * BLOCK_COLUMNS;
                    let block = ProductBlock {
                        product,
                        rows: rows..left.rows.min(rows + BLOCK_ROWS),
                        columns: columns..right.columns.min(columns + BLOCK_COLUMNS),
                        packed,
                        to,
                    };
                    dispatch(instructions, block);
                }
            }
        });
    }
}

/// The first element of a result, of which each worker writes blocks of its own.
struct Target(*mut f32);

// SAFETY: blocks do not overlap, and nobody else has the result meanwhile.
unsafe impl Sync for Target {}

/// One block of a result. The code that creates it ensures that nobody else has the block.
struct ProductBlock<'a> {
    product: &'a Product<'a>,
    rows: Range<usize>,
    columns: Range<usize>,
    packed: &'a mut PackedParts,
    to: &'a Target,
}

impl Kernel for ProductBlock<'_> {
    const WIDEST: InstructionSet = InstructionSet::Avx2;

    #[inline(always)]
    fn run(mut self, instructions: Instructions) {
        let depth = self.product.left.columns;
        // Without an inner dimension there is one block, whose sums are 0.
        for first in (0..depth.max(1)).step_by(DEPTH) {
            let count = DEPTH.min(depth - first);
            self.pack(first, count);
            for (panel, columns) in self.columns.clone().step_by(COLUMNS).enumerate() {
                let right = &self.packed.right[panel * count..][..count];
                for (panel, rows) in self.rows.clone().step_by(ROWS).enumerate() {
                    let left = &self.packed.left[panel * count..][..count];
                    let tile = sums(instructions, left, right);
                    self.store(first == 0, (rows, columns), &tile);
                }
            }
        }
    }
}

impl ProductBlock<'_> {
    /// Copies the parts of the factors for `count` products from `first` on.
    #[inline(always)]
    fn pack(&mut self, first: usize, count: usize) {
        let Product { left, right, .. } = self.product;
        pack(left, &self.rows, first, count, &mut self.packed.left);
        let right = right.transposed();
        pack(&right, &self.columns, first, count, &mut self.packed.right);
    }

    /// Writes the sums of a tile, whose first row and column are given, or adds them.
    #[inline(always)]
    fn store(&self, is_first: bool, (first, column): (usize, usize), tile: &RegisterTile) {
        let Product { factor, base, .. } = *self.product;
        let all = self.product.right.columns;
        let count = COLUMNS.min(self.columns.end - column);
        for (row, sums) in (first..self.rows.end).zip(tile) {
            // SAFETY: the row and the columns are in the block, which nobody else has.
            let to =
                unsafe { std::slice::from_raw_parts_mut(self.to.0.add(row * all + column), count) };
            match base {
                _ if !is_first => {
                    for (to, sum) in to.iter_mut().zip(sums) {
                        *to += factor * sum;
                    }
                }
                Some((weight, base)) => {
                    let base = base.along_row(row, column, count);
                    for ((to, sum), base) in to.iter_mut().zip(sums).zip(base) {
                        *to = factor * sum + weight * base;
                    }
                }
                None => {
                    for (to, sum) in to.iter_mut().zip(sums) {
                        *to = factor * sum;
                    }
                }
            }
        }
    }
}

/// Copies `count` columns of some rows of a matrix, from the column `first` on: for each `N` rows
/// the elements of one column after the other. Inlined.
#[inline(always)]
fn pack<const N: usize>(
    matrix: &Matrix<'_>,
    rows: &Range<usize>,
    first: usize,
    count: usize,
    packed: &mut [[f32; N]],
) {
    for (panel, row) in rows.clone().step_by(N).enumerate() {
        let packed = &mut packed[panel * count..][..count];
        let present = N.min(rows.end - row);
        if present < N {
            packed.fill([0.0; N]);
        }
        if matrix.steps.0 == 1 && present == N {
            for (column, packed) in (first..).zip(packed) {
                let start = column * matrix.steps.1 + row;
                packed.copy_from_slice(&matrix.elements[start..start + N]);
            }
            continue;
        }
        if matrix.steps.1 == 1 && present == N {
            let lanes = array::from_fn(|lane| {
                let start = (row + lane) * matrix.steps.0 + first;
                &matrix.elements[start..start + count]
            });
            pack_rows(&lanes, packed);
            continue;
        }
        for lane in 0..present {
            let elements = matrix.along_row(row + lane, first, count);
            for (packed, element) in packed.iter_mut().zip(elements) {
                packed[lane] = *element;
            }
        }
    }
}

/// Copies rows, as [`pack`] does, a strip of each after the other: so that the copies of a strip
/// are written while they are in the nearest cache. Inlined.
#[inline(always)]
fn pack_rows<const N: usize>(rows: &[&[f32]; N], packed: &mut [[f32; N]]) {
    let done = packed.len() - packed.len() % STRIP;
    let (blocks, rest) = packed.as_chunks_mut::<STRIP>();
    for (at, block) in blocks.iter_mut().enumerate() {
        for (lane, row) in rows.iter().enumerate() {
            let (strips, _) = row.as_chunks::<STRIP>();
            for (packed, element) in block.iter_mut().zip(&strips[at]) {
                packed[lane] = *element;
            }
        }
    }
    for (at, packed) in rest.iter_mut().enumerate() {
        *packed = array::from_fn(|lane| rows[lane][done + at]);
    }
}
