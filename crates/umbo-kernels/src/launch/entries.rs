//! The tables in which kernels find variables: where each variable lies, from what its gradient is
//! made, and what is done with the gradient.

use crate::dtype::DType;
use crate::float::real::{Real, for_real};
use crate::float::{gradient_element, real};
use crate::launch::factored::{DeviceFactoredUpdate, DeviceMoments};
use crate::launch::launcher::{
    Address, KernelLauncher, LaunchWork, Plain, Table, blocks_of, plain, short_name,
};
use crate::launch::operands::{DeviceContribution, DeviceUpdate, Gradient, TableRows};
use crate::launch::place::divisor;
use crate::update::chunks;
use crate::update::rules::{MOST_STATES, RATE, RuleStep, SCALARS};
use crate::update::weighted_sum::{Clipping, Finish, Scale};
use umbo_base::error::{Error, Result};

plain! {
    #[derive(Default)]
    pub(super) struct TableVariable of 120 bytes {
        weights: Address,
        slots: [Address; MOST_STATES],
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
        not_finite: Address,
        first_tile: u64,
    }
}

/// A treatment in the form in which the kernels read it.
#[derive(Clone, Copy, PartialEq)]
#[repr(C)]
struct DeviceTreatment<T> {
    scale: f64,
    rate: f64,
    coefficient: f64,
    divides: u32,
    has_l2: u32,
    factors: [T; 2],
    limit: T,
    l2: T,
    scalars: [T; SCALARS],
}

const _: () =
    assert!(size_of::<DeviceTreatment<f32>>() == 88 && size_of::<DeviceTreatment<f64>>() == 144);

// SAFETY: numbers whose sizes add up to that of the whole, as asserted. `Real` has only these two
// types.
unsafe impl<T: Real> Plain for DeviceTreatment<T> {}

impl<T: Real> DeviceTreatment<T> {
    fn new(
        divisor: f64,
        clipping: Clipping,
        l2: f64,
        step: Option<&RuleStep>,
    ) -> DeviceTreatment<T> {
        let Finish {
            scale,
            factors,
            limit,
        } = Finish::new(divisor, clipping);
        let scalars = step.map_or([0.0; SCALARS], |step| step.scalars);
        let (scale, divides) = match scale {
            Scale::Multiply(reciprocal) => (reciprocal, 0),
            Scale::Divide(divisor) => (divisor, 1),
        };
        DeviceTreatment {
            scale,
            rate: scalars[RATE],
            coefficient: step.map_or(1.0, |step| step.coefficient),
            divides,
            has_l2: u32::from(l2 != 0.0),
            factors,
            limit,
            l2: T::from_f64(l2),
            scalars: scalars.map(T::from_f64),
        }
    }
}

/// The types of variables.
pub(super) const TYPES: [DType; 2] = [DType::Float32, DType::Float64];

/// Elements of a tile of a measurement.
pub(super) const TILE: u64 = chunks::TILE as u64;

/// One variable of a launch, as it is entered into the table.
#[derive(Clone, Copy)]
pub(super) struct TableEntry<'a> {
    gradient: Gradient<'a>,
    clipping: Clipping,
    l2: f64,
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
        TableEntry {
            gradient,
            clipping: Clipping::NONE,
            l2: 0.0,
            step: None,
            rows: None,
            variable,
        }
    }

    pub(super) fn of_update(update: &DeviceUpdate<'a>) -> TableEntry<'a> {
        let mut entry = TableEntry::new(update.gradient, update.weights);
        let variable = &mut entry.variable;
        variable.slots[..update.slots.len()].copy_from_slice(update.slots);
        variable.not_finite = update.not_finite.unwrap_or(0);
        if let Some(rows) = update.rows {
            variable.width = rows.elements;
            (variable.width_factor, variable.width_shift) = divisor(rows.elements);
        }
        TableEntry {
            clipping: update.clipping,
            l2: update.l2,
            step: update.step,
            rows: update.rows,
            ..entry
        }
    }

    /// An update by factored moments; those of rows and columns are in a table of their own.
    pub(super) fn of_factored(update: &DeviceFactoredUpdate<'a>) -> TableEntry<'a> {
        let mut entry = TableEntry::new(update.gradient, update.weights);
        let variable = &mut entry.variable;
        variable.not_finite = update.not_finite.unwrap_or(0);
        match update.moments {
            DeviceMoments::Full(moments) => variable.slots[0] = moments,
            DeviceMoments::Factored { sizes, .. } => {
                variable.width = sizes[1];
                (variable.width_factor, variable.width_shift) = divisor(sizes[1]);
            }
        }
        entry.clipping = update.clipping;
        entry
    }

    fn treatment<T: Real>(&self) -> DeviceTreatment<T> {
        DeviceTreatment::new(
            self.gradient.divisor,
            self.clipping,
            self.l2,
            self.step.as_ref(),
        )
    }
}

/// The place where the arrays of an uploaded table are.
pub(super) struct TableArrays {
    table: Address,
    pub(super) variables: Address,
    contributions: Address,
    treatments: Address,
    work: LaunchWork,
    /// The tiles of all variables together.
    pub(super) tiles: u64,
    pub(super) count: u32,
}

impl TableArrays {
    /// The first arguments of kernels over the variables.
    pub(super) fn arguments(&self) -> [u64; 3] {
        [self.variables, self.contributions, self.treatments]
    }
}

impl KernelLauncher<'_> {
    /// Queues the kernel of this name for float32 variables, and the one for float64 variables.
    ///
    /// # Safety
    /// As for [`KernelLauncher::update`].
    pub(super) unsafe fn queue_entries<'a>(
        &self,
        kernel: &str,
        entries: impl Iterator<Item = TableEntry<'a>> + Clone,
    ) -> Result<()> {
        for dtype in TYPES {
            if let Some(arrays) = self.enter(dtype, entries.clone(), None)? {
                // SAFETY: the caller's promise.
                unsafe { self.over_variables(kernel, dtype, &arrays, &[])? };
            }
        }
        Ok(())
    }

    /// # Safety
    /// As for [`KernelLauncher::update`]. The kernel takes `after` behind the chunks.
    pub(super) unsafe fn over_variables(
        &self,
        kernel: &str,
        dtype: DType,
        arrays: &TableArrays,
        after: &[u64],
    ) -> Result<()> {
        let kernel = format!("umbo_{kernel}_{}", short_name(dtype));
        let before = arrays.arguments();
        // SAFETY: the caller's promise.
        unsafe { self.over(&kernel, &arrays.work, arrays.table, &before, after) }
    }

    /// Uploads the numbers of the rows, and returns where they begin.
    fn upload_rows<'a>(&self, all: impl Iterator<Item = TableRows<'a>> + Clone) -> Result<Address> {
        let count: usize = all.clone().map(|rows| rows.numbers.len()).sum();
        if count == 0 {
            return Ok(0);
        }
        let mut table = Table::default();
        table.begin::<u64>(count)?;
        for number in all.flat_map(|rows| rows.numbers) {
            table.push(*number as u64);
        }
        self.queue.upload(table.bytes())
    }

    /// Enters the variables of a type into the table and uploads it. Returns `None` if there are
    /// none. If `size` is given, the variables are cut into chunks of `size` elements.
    pub(super) fn enter<'a>(
        &self,
        dtype: DType,
        entries: impl Iterator<Item = TableEntry<'a>> + Clone,
        size: Option<u64>,
    ) -> Result<Option<TableArrays>> {
        let entries = entries.filter(move |entry| entry.gradient.dtype == dtype);
        for_real!(dtype, T => self.enter_all::<T>(entries, size))
    }

    fn enter_all<'a, T: Real>(
        &self,
        entries: impl Iterator<Item = TableEntry<'a>> + Clone,
        size: Option<u64>,
    ) -> Result<Option<TableArrays>> {
        let count = entries.clone().count();
        if count == 0 {
            return Ok(None);
        }
        let numbers = self.upload_rows(entries.clone().filter_map(|entry| entry.rows))?;
        let mut table = Table::default();
        let elements = entries.clone().map(|entry| entry.gradient.elements);
        let work = match size {
            Some(size) => table.cut_by(size, elements)?,
            None => table.cut(self.enough_chunks, elements)?,
        };
        let all = entries
            .clone()
            .map(|entry| entry.gradient.contributions.len());
        let contributions = table.begin::<DeviceContribution>(all.sum())?;
        for contribution in entries
            .clone()
            .flat_map(|entry| entry.gradient.contributions)
        {
            table.push(*contribution);
        }
        let treatments = table.begin::<DeviceTreatment<T>>(count)?;
        let kinds = push_treatments(
            &mut table,
            entries.clone().map(|entry| entry.treatment::<T>()),
        );
        let variables = table.begin::<TableVariable>(count)?;
        let mut first_contribution = 0;
        let mut tiles = 0;
        let mut next_row = 0;
        for (entry, treatment) in entries.zip(kinds) {
            let count = entry.rows.map_or(0, |rows| rows.numbers.len());
            let rows = if entry.rows.is_some() {
                numbers + 8 * next_row
            } else {
                0
            };
            table.push(TableVariable {
                treatment,
                first_contribution,
                first_tile: tiles,
                rows,
                ..entry.variable
            });
            next_row += count as u64;
            first_contribution += entry.gradient.contributions.len() as u64;
            tiles += entry.gradient.elements.div_ceil(TILE);
        }
        let table = self.queue.upload(table.bytes())?;
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

/// Adds the treatments of variables to a table, each run of equal ones once, because variables with
/// the same treatment mostly follow each other. Returns the position of each variable's treatment.
fn push_treatments<T: Real>(
    table: &mut Table,
    treatments: impl Iterator<Item = DeviceTreatment<T>>,
) -> Vec<u32> {
    let mut last = None;
    let mut positions = Vec::new();
    for treatment in treatments {
        let before = positions.last().copied().unwrap_or(u32::MAX);
        let is_new = last.replace(treatment) != Some(treatment);
        if is_new {
            table.push(treatment);
        }
        positions.push(before.wrapping_add(is_new.into()));
    }
    positions
}

/// Refuses a gradient whose types do not fit.
pub(super) fn check_gradient(gradient: &Gradient<'_>) -> Result<()> {
    let Gradient {
        dtype,
        gradient_dtype,
        contributions,
        ..
    } = *gradient;
    if !real::is_supported(dtype) || !gradient_element::is_supported(dtype, gradient_dtype) {
        let problem = format!(
            "{gradient_dtype} for a variable of {dtype}; there are float32 and float64 variables, \
             whose gradients have their type or, for float32, one of 16 bits"
        );
        return Err(Error::invalid("gradient", problem));
    }
    if u32::try_from(contributions.len()).is_err() {
        return Err(invalid!(
            "gradient",
            "more contributions than can be counted"
        ));
    }
    Ok(())
}
