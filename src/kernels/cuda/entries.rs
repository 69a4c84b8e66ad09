//! The tables by which kernels find variables: where each lies, of what its gradient is made, and what is
//! done to that.

use std::ffi::c_void;

use crate::error::Result;
use crate::kernels::cuda::operands::{GpuContribution, GpuUpdate, Gradient, TableRows};
use crate::kernels::cuda::place::divisor;
use crate::kernels::cuda::queue::{
    Address, KernelLauncher, KernelQueue, LaunchWork, Plain, argument, blocks_of,
};
use crate::kernels::float::real::Real;
use crate::kernels::update::rules::{MOST_STATES, RuleStep, SCALARS};
use crate::kernels::update::weighted_sum::{Clipping, Finish, Scale};

/// As the kernels read it.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct TableVariable {
    weights: Address,
    pub(super) slots: [Address; MOST_STATES],
    copies: [Address; 2],
    accumulated: Address,
    rows: Address,
    width: u64,
    width_factor: u64,
    width_shift: u32,
    treatment: u32,
    elements: u64,
    first_contribution: u64,
    contributions: u32,
    gradient_dtype: u32,
    pub(super) result: Address,
    pub(super) not_finite: Address,
    first_tile: u64,
}

const _: () = assert!(size_of::<TableVariable>() == 136);

// SAFETY: numbers whose sizes add up to that of the whole, as asserted.
unsafe impl Plain for TableVariable {}

/// As the kernels read it.
#[derive(Clone, Copy, PartialEq)]
#[repr(C)]
pub(super) struct GpuTreatment<T> {
    scale: f64,
    rate: f64,
    divides: u32,
    has_l2: u32,
    factors: [T; 2],
    limit: T,
    l2: T,
    scalars: [T; SCALARS],
}

const _: () =
    assert!(size_of::<GpuTreatment<f32>>() == 80 && size_of::<GpuTreatment<f64>>() == 136);

// SAFETY: as above.
unsafe impl Plain for GpuTreatment<f32> {}
// SAFETY: as above.
unsafe impl Plain for GpuTreatment<f64> {}

impl<T: Real> GpuTreatment<T> {
    fn new(divisor: f64, clipping: Clipping, l2: f64, step: Option<&RuleStep>) -> GpuTreatment<T> {
        let Finish { scale, factors, limit } = Finish::new(divisor, clipping);
        let scalars = step.map_or([0.0; SCALARS], |step| step.scalars);
        let (scale, divides) = match scale {
            Scale::Multiply(reciprocal) => (reciprocal, 0),
            Scale::Divide(divisor) => (divisor, 1),
        };
        GpuTreatment {
            scale,
            rate: scalars[SCALARS - 1],
            divides,
            has_l2: u32::from(l2 != 0.0),
            factors,
            limit,
            l2: T::from_f64(l2),
            scalars: scalars.map(T::from_f64),
        }
    }
}

/// Elements of a tile of a measurement.
pub(super) const TILE: u64 = 1024;

/// What a launch is about: one variable as it is entered into the table.
#[derive(Clone, Copy)]
pub(super) struct TableEntry<'a> {
    gradient: Gradient<'a>,
    pub(super) clipping: Clipping,
    pub(super) l2: f64,
    step: Option<RuleStep>,
    rows: Option<TableRows<'a>>,
    pub(super) variable: TableVariable,
}

impl<'a> TableEntry<'a> {
    pub(super) fn new(gradient: Gradient<'a>, weights: Address) -> TableEntry<'a> {
        let variable = TableVariable {
            weights,
            accumulated: gradient.accumulated.unwrap_or(0),
            width: 1,
            elements: gradient.elements,
            contributions: gradient.contributions.len() as u32,
            gradient_dtype: gradient.gradient_dtype as u32,
            ..TableVariable::default()
        };
        TableEntry { gradient, clipping: Clipping::NONE, l2: 0.0, step: None, rows: None, variable }
    }

    pub(super) fn of_update(update: &GpuUpdate<'a>) -> TableEntry<'a> {
        let mut entry = TableEntry::new(update.gradient, update.weights);
        let variable = &mut entry.variable;
        variable.slots[..update.slots.len()].copy_from_slice(update.slots);
        variable.copies = update.copies.map(|copy| copy.unwrap_or(0));
        variable.not_finite = update.not_finite.unwrap_or(0);
        if let Some(rows) = update.rows {
            variable.width = rows.elements;
            (variable.width_factor, variable.width_shift) = divisor(rows.elements);
        }
        TableEntry {
            clipping: update.clipping,
            l2: update.l2,
            step: Some(update.step),
            rows: update.rows,
            ..entry
        }
    }

    fn treatment<T: Real>(&self) -> GpuTreatment<T> {
        GpuTreatment::new(self.gradient.divisor, self.clipping, self.l2, self.step.as_ref())
    }
}

/// Where the arrays of a table are, once it is uploaded.
pub(super) struct TableArrays {
    table: Address,
    pub(super) variables: Address,
    contributions: Address,
    treatments: Address,
    work: LaunchWork,
    /// Of all variables.
    pub(super) tiles: u64,
    pub(super) count: u32,
}

/// How much the tables of one call of a launcher describe, at most.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extent {
    /// How many variables there are.
    pub variables: usize,
    /// How many contributions their gradients have.
    pub contributions: usize,
    /// How many elements their gradients have.
    pub elements: usize,
    /// How many rows are named.
    pub rows: usize,
    /// Whether weights and updates are measured first, as for LAMB.
    pub measures: bool,
}

impl Extent {
    /// As many bytes as the tables and what is written beside them take, each rounded up to `alignment`, or
    /// more.
    pub(super) fn bytes(&self, alignment: usize) -> usize {
        // An apply has one rule, and variables of two types. Measuring and updating take five each at most.
        const TABLES: usize = 10;
        let of_variable = size_of::<TableVariable>() + size_of::<GpuTreatment<f64>>();
        let chunks = LaunchWork::most_chunks(self.elements, self.variables);
        let all = [
            (self.variables, of_variable),
            (self.contributions, size_of::<GpuContribution>()),
            (chunks, LaunchWork::CHUNK_BYTES),
        ];
        let bytes = |(count, size): (usize, usize)| count.saturating_mul(size);
        let table = all.into_iter().map(bytes).fold(0, usize::saturating_add);
        let measured = if self.measures {
            let sums = (self.elements / TILE as usize).saturating_add(self.variables);
            let sums = sums.saturating_mul(2 * size_of::<f64>());
            table.saturating_add(sums).saturating_add(size_of::<f64>() * self.variables)
        } else {
            0
        };
        let rows = self.rows.saturating_mul(size_of::<u64>());
        // Within a table, each of four arrays begins at a multiple of 16.
        let lost = TABLES * (alignment + 4 * 16);
        [table, measured, rows, lost].into_iter().fold(0, usize::saturating_add)
    }
}

impl<Q: KernelQueue> KernelLauncher<Q> {
    /// # Safety
    /// As for [`KernelLauncher::update`].
    pub(super) unsafe fn queue_entries<'a, T: Real>(
        &mut self,
        kernel: &'static str,
        entries: impl Iterator<Item = TableEntry<'a>> + Clone,
    ) -> Result<()>
    where
        GpuTreatment<T>: Plain,
    {
        let Some(arrays) = self.enter::<T>(entries, None)? else { return Ok(()) };
        // SAFETY: the caller's promise.
        unsafe { self.over_variables(kernel, &arrays, &mut []) }
    }

    /// # Safety
    /// As for [`KernelLauncher::update`]; the kernel takes `after` behind the chunks.
    pub(super) unsafe fn over_variables(
        &self,
        kernel: &'static str,
        arrays: &TableArrays,
        after: &mut [*mut c_void],
    ) -> Result<()> {
        let TableArrays { table, mut variables, mut contributions, mut treatments, .. } = *arrays;
        let mut before =
            [argument(&mut variables), argument(&mut contributions), argument(&mut treatments)];
        // SAFETY: the caller's promise.
        unsafe { self.over(kernel, &arrays.work, table, &mut before, after) }
    }

    /// Uploads the numbers of rows, and says where they begin.
    fn upload_rows<'a>(
        &mut self,
        all: impl Iterator<Item = TableRows<'a>> + Clone,
    ) -> Result<Address> {
        let count: usize = all.clone().map(|rows| rows.numbers.len()).sum();
        if count == 0 {
            return Ok(0);
        }
        self.table.clear();
        self.table.begin::<u64>(count)?;
        for number in all.flat_map(|rows| rows.numbers) {
            self.table.push(*number as u64);
        }
        self.queue.upload(self.table.bytes())
    }

    /// Enters variables into the table and uploads it; `None` if there are none. They are cut into
    /// chunks of `size` elements, if it is said.
    pub(super) fn enter<'a, T: Real>(
        &mut self,
        entries: impl Iterator<Item = TableEntry<'a>> + Clone,
        size: Option<u64>,
    ) -> Result<Option<TableArrays>>
    where
        GpuTreatment<T>: Plain,
    {
        let count = entries.clone().count();
        if count == 0 {
            return Ok(None);
        }
        let numbers = self.upload_rows(entries.clone().filter_map(|entry| entry.rows))?;
        let table = &mut self.table;
        table.clear();
        let elements = entries.clone().map(|entry| entry.gradient.elements);
        let work = match size {
            Some(size) => table.cut_by(size, elements)?,
            None => table.cut(self.thresholds, elements)?,
        };
        let all = entries.clone().map(|entry| entry.gradient.contributions.len());
        let contributions = table.begin::<GpuContribution>(all.sum())?;
        for contribution in entries.clone().flat_map(|entry| entry.gradient.contributions) {
            table.push(*contribution);
        }
        // Variables that are treated alike mostly follow each other.
        let treatments = table.begin::<GpuTreatment<T>>(count)?;
        let mut last = None;
        for treatment in entries.clone().map(|entry| entry.treatment::<T>()) {
            if last != Some(treatment) {
                last = Some(treatment);
                table.push(treatment);
            }
        }
        let variables = table.begin::<TableVariable>(count)?;
        let (mut last, mut kinds) = (None, 0);
        let (mut first_contribution, mut tiles, mut next_row) = (0, 0, 0);
        for entry in entries {
            let treatment = entry.treatment::<T>();
            if last != Some(treatment) {
                last = Some(treatment);
                kinds += 1;
            }
            let count = entry.rows.map_or(0, |rows| rows.numbers.len());
            let rows = if entry.rows.is_some() { numbers + 8 * next_row } else { 0 };
            table.push(TableVariable {
                treatment: kinds - 1,
                first_contribution,
                first_tile: tiles,
                rows,
                ..entry.variable
            });
            next_row += count as u64;
            first_contribution += entry.gradient.contributions.len() as u64;
            tiles += entry.gradient.elements.div_ceil(TILE);
        }
        let table = self.queue.upload(self.table.bytes())?;
        Ok(Some(TableArrays {
            table,
            variables: table + variables,
            contributions: table + contributions,
            treatments: table + treatments,
            work,
            tiles,
            count: blocks_of(count as u64, 1)?,
        }))
    }
}
