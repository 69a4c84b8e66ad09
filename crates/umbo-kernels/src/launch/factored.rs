//! Updates by factored moments. A variable takes several kernels, since each step depends on all
//! moments, and on the sizes of all weights and steps. The bits are those of
//! [`move_moments`](crate::update::pass::UpdatePass::move_moments) and of the updates after it.

use crate::dtype::DType;
use crate::float::real::{Real, for_real};
use crate::launch::entries::{TYPES, TableArrays, TableEntry, check_gradient};
use crate::launch::launcher::{
    Address, KernelLauncher, LaunchWork, Table, blocks_of, plain, short_name,
};
use crate::launch::operands::Gradient;
use crate::launch::place::divisor;
use crate::update::factored::{Blocks, FactoredScalars};
use crate::update::pass::TILE;
use crate::update::weighted_sum::Clipping;
use umbo_base::error::Result;

const _: () = assert!(TILE == 512, "as in the kernels' source");

/// Lines that a block of threads adds up.
const LINES_OF_BLOCK: u64 = 16;

/// Columns that a block of threads adds up: one for each thread.
const COLUMNS_OF_BLOCK: u64 = 256;

/// The size of a number of float64.
const WIDE: u64 = size_of::<f64>() as u64;

/// The second moments of a variable on a device.
#[derive(Clone, Copy, Debug)]
pub enum DeviceMoments {
    /// One for each element.
    Full(Address),
    /// The means of the rows and of the columns of matrices, which lie one after the other.
    Factored {
        /// The means of the rows.
        rows: Address,
        /// The means of the columns.
        columns: Address,
        /// The numbers of rows and columns of a matrix.
        sizes: [u64; 2],
    },
}

/// The update of one variable by factored moments.
#[derive(Clone, Copy, Debug)]
pub struct DeviceFactoredUpdate<'a> {
    /// The gradient.
    pub gradient: Gradient<'a>,
    /// How the gradient is clipped.
    pub clipping: Clipping,
    /// The numbers of the update.
    pub scalars: FactoredScalars,
    /// Contiguous elements.
    pub weights: Address,
    /// Contiguous tensors of the variable's type.
    pub moments: DeviceMoments,
    /// A 32-bit number that becomes 1 if an element of the gradient is not finite. Else it is not
    /// changed.
    pub not_finite: Option<Address>,
}

plain! {
    #[derive(Default)]
    struct TableFactored of 176 bytes {
        rows: Address,
        columns: Address,
        row_factors: Address,
        column_sums: Address,
        part_sums: Address,
        results: Address,
        row_count: u64,
        column_count: u64,
        matrices: u64,
        rows_factor: u64,
        rows_shift: u32,
        unused: u32,
        blocks: u64,
        of_block: u64,
        parts: u64,
        common: u64,
        share: f64,
        epsilon1: f64,
        floor: f64,
        epsilon2: f64,
        clip_threshold: f64,
        rate: f64,
        kept: f64,
    }
}

/// How the kernels go through a variable's elements.
#[derive(Clone, Copy)]
struct FactoredShape {
    /// The numbers of rows and columns; `None` if each element has a moment.
    sizes: Option<[u64; 2]>,
    matrices: u64,
    /// The blocks of a matrix, and the elements of each but the last.
    blocks: u64,
    of_block: u64,
}

impl FactoredShape {
    fn of(update: &DeviceFactoredUpdate<'_>) -> FactoredShape {
        let sizes = match update.moments {
            DeviceMoments::Full(_) => None,
            DeviceMoments::Factored { sizes, .. } => Some(sizes),
        };
        let in_host = sizes.map(|sizes| sizes.map(|size| size as usize));
        let blocks = Blocks::of(update.gradient.elements as usize, in_host);
        FactoredShape {
            sizes,
            matrices: blocks.matrices as u64,
            blocks: blocks.each() as u64,
            of_block: blocks.size.min(blocks.of_matrix) as u64,
        }
    }

    fn all_blocks(&self) -> u64 {
        self.matrices * self.blocks
    }

    /// The tiles of all blocks, as if none were shorter.
    fn tiles(&self) -> u64 {
        self.all_blocks() * self.of_block.div_ceil(TILE as u64)
    }

    /// The rows of all blocks, as if none were shorter; none if the moments are not factored.
    fn rows(&self) -> u64 {
        let of_block = |[_, columns]: [u64; 2]| self.of_block / columns;
        self.all_blocks() * self.sizes.map_or(0, of_block)
    }

    /// The columns of all blocks.
    fn columns(&self) -> u64 {
        self.all_blocks() * self.sizes.map_or(0, |[_, columns]| columns)
    }

    /// The elements of what is added up by itself: a row, or a tile.
    fn line(&self) -> u64 {
        self.sizes.map_or(TILE as u64, |[_, columns]| columns)
    }

    /// The least common multiple of the elements of a line and of a tile.
    fn common(&self) -> u64 {
        let line = self.line();
        let shared = line.trailing_zeros().min(TILE.trailing_zeros());
        line.saturating_mul(TILE as u64 >> shared)
    }

    /// The parts of a block: they begin where a line or a tile begins.
    fn parts(&self) -> u64 {
        let last = self.of_block - 1;
        let beginnings = |size: u64| last / size + 1;
        beginnings(self.line()) + beginnings(TILE as u64) - beginnings(self.common())
    }

    /// The numbers of float64 that its sums, row factors and results take.
    fn scratch(&self) -> u64 {
        let rows = self.sizes.map_or(0, |[rows, _]| self.matrices * rows);
        self.columns() + self.all_blocks() * self.parts() + rows + 2
    }
}

impl TableFactored {
    /// That of an update whose sums, row factors and results lie from `scratch` on.
    fn new<T: Real>(
        update: &DeviceFactoredUpdate<'_>,
        shape: &FactoredShape,
        scratch: Address,
    ) -> TableFactored {
        let FactoredScalars {
            share,
            epsilon1,
            epsilon2,
            clip_threshold,
            rate,
            kept,
        } = update.scalars;
        let epsilon1 = epsilon1.unwrap_or(T::epsilon().to_f64());
        let results = scratch;
        let column_sums = results + 2 * WIDE;
        let part_sums = column_sums + shape.columns() * WIDE;
        let row_factors = part_sums + shape.all_blocks() * shape.parts() * WIDE;
        let [row_count, column_count] = shape.sizes.unwrap_or([1, update.gradient.elements]);
        let (rows_factor, rows_shift) = divisor(row_count);
        let (rows, columns) = match update.moments {
            DeviceMoments::Full(_) => (0, 0),
            DeviceMoments::Factored { rows, columns, .. } => (rows, columns),
        };
        TableFactored {
            rows,
            columns,
            row_factors,
            column_sums,
            part_sums,
            results,
            row_count,
            column_count,
            matrices: shape.matrices,
            rows_factor,
            rows_shift,
            unused: 0,
            blocks: shape.blocks,
            of_block: shape.of_block,
            parts: shape.parts(),
            common: shape.common(),
            share,
            epsilon1,
            floor: epsilon1 * epsilon1,
            epsilon2,
            clip_threshold,
            rate,
            kept,
        }
    }
}

/// How each kernel divides its work.
struct FactoredWork {
    tiles: LaunchWork,
    rows: LaunchWork,
    columns: LaunchWork,
    matrices: LaunchWork,
    lines: LaunchWork,
    elements: LaunchWork,
}

impl KernelLauncher<'_> {
    /// Queues updates by factored moments: the same number of kernels for each element type among
    /// them, whatever their number.
    ///
    /// Fails with INVALID_ARGUMENT, with nothing queued, if types or sizes do not fit.
    ///
    /// # Safety
    /// As for [`KernelLauncher::update`].
    pub unsafe fn update_factored(&self, updates: &[DeviceFactoredUpdate<'_>]) -> Result<()> {
        updates.iter().try_for_each(check)?;
        for dtype in TYPES {
            let of_type = |update: &&DeviceFactoredUpdate<'_>| {
                update.gradient.dtype == dtype && update.gradient.elements > 0
            };
            let updates: Vec<_> = updates.iter().filter(of_type).collect();
            let entries = updates.iter().map(|update| TableEntry::of_factored(update));
            let Some(arrays) = self.enter(dtype, entries, None)? else {
                continue;
            };
            // SAFETY: the caller's promise.
            for_real!(dtype, T => unsafe { self.queue_factored::<T>(&updates, &arrays) })?;
        }
        Ok(())
    }

    /// # Safety
    /// As for [`KernelLauncher::update`]; the arrays are those of the updates.
    unsafe fn queue_factored<T: Real>(
        &self,
        updates: &[&DeviceFactoredUpdate<'_>],
        arrays: &TableArrays,
    ) -> Result<()> {
        let shapes: Vec<FactoredShape> = updates
            .iter()
            .map(|update| FactoredShape::of(update))
            .collect();
        let numbers: u64 = shapes.iter().map(FactoredShape::scratch).sum();
        let bytes = usize::try_from(numbers.saturating_mul(WIDE)).unwrap_or(usize::MAX);
        let mut scratch = self.queue.scratch(bytes)?;
        let mut table = Table::default();
        let work = self.factored_work(&mut table, updates, &shapes)?;
        let at = table.begin::<TableFactored>(updates.len())?;
        for (update, shape) in updates.iter().zip(&shapes) {
            table.push(TableFactored::new::<T>(update, shape, scratch));
            scratch += shape.scratch() * WIDE;
        }
        let table = self.queue.upload(table.bytes())?;
        let factored = table + at;
        let [variables, contributions, treatments] = arrays.arguments();
        let over = |name: &str, work: &LaunchWork| {
            let kernel = kernel_of(name, T::DTYPE);
            let before = [variables, contributions, treatments, factored];
            // SAFETY: the caller's promise, and the arguments are the kernels'.
            unsafe { self.over(&kernel, work, table, &before, &[]) }
        };
        let add_up = |of_steps: bool| {
            let arguments = [variables, factored, of_steps.into()];
            let blocks = blocks_of(updates.len() as u64, 1)?;
            // SAFETY: as above.
            unsafe {
                self.queue
                    .launch("umbo_factored_totals", blocks, &arguments)
            }
        };
        over("weights", &work.tiles)?;
        add_up(false)?;
        over("rows", &work.rows)?;
        over("columns", &work.columns)?;
        let kernel = kernel_of("matrices", T::DTYPE);
        // SAFETY: as above.
        unsafe { self.over(&kernel, &work.matrices, table, &[factored], &[]) }?;
        over("steps", &work.lines)?;
        add_up(true)?;
        over("take", &work.elements)
    }

    /// Enters into `table` how each kernel divides its work.
    fn factored_work(
        &self,
        table: &mut Table,
        updates: &[&DeviceFactoredUpdate<'_>],
        shapes: &[FactoredShape],
    ) -> Result<FactoredWork> {
        let mut cut = |size: u64, count: &dyn Fn(&FactoredShape) -> u64| {
            table.cut_by(size, shapes.iter().map(count))
        };
        let is_factored = |shape: &FactoredShape| u64::from(shape.sizes.is_some());
        Ok(FactoredWork {
            tiles: cut(LINES_OF_BLOCK, &FactoredShape::tiles)?,
            rows: cut(LINES_OF_BLOCK, &FactoredShape::rows)?,
            columns: cut(COLUMNS_OF_BLOCK, &FactoredShape::columns)?,
            matrices: cut(1, &|shape| shape.matrices * is_factored(shape))?,
            lines: cut(LINES_OF_BLOCK, &|shape| match shape.sizes {
                None => shape.tiles(),
                Some(_) => shape.rows(),
            })?,
            elements: table.cut(
                self.enough_chunks,
                updates.iter().map(|update| update.gradient.elements),
            )?,
        })
    }
}

fn kernel_of(name: &str, dtype: DType) -> String {
    format!("umbo_factored_{name}_{}", short_name(dtype))
}

fn check(update: &DeviceFactoredUpdate<'_>) -> Result<()> {
    check_gradient(&update.gradient)?;
    let elements = update.gradient.elements;
    let DeviceMoments::Factored { sizes, .. } = update.moments else {
        return Ok(());
    };
    let of_matrix = sizes[0].checked_mul(sizes[1]);
    if of_matrix.is_some_and(|size| elements == 0 || (size > 0 && elements.is_multiple_of(size))) {
        return Ok(());
    }
    Err(invalid!(
        "moments",
        "those of matrices of {} rows and {} columns; the variable has {elements} elements, which \
         must be whole matrices",
        sizes[0],
        sizes[1]
    ))
}
