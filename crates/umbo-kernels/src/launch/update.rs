//! Work on the gradients of variables, which are made from the replicas' contributions: kernels
//! write them, add them to sums, measure them, and update variables by them.

use crate::launch::entries::{TILE, TYPES, TableEntry, check_gradient};
use crate::launch::launcher::{Address, KernelLauncher};
use crate::launch::operands::{DeviceUpdate, Gradient};
use crate::update::rules::RuleKind;
use umbo_base::error::{Error, Result};

/// Elements that a block measures: those of 16 tiles.
const MEASURED_BY_BLOCK: u64 = 16 * TILE;

impl KernelLauncher<'_> {
    /// Queues the writing of gradients to the addresses beside them, in the variables' type.
    ///
    /// Fails with INVALID_ARGUMENT, with nothing queued, if types do not fit.
    ///
    /// # Safety
    /// As for [`KernelLauncher::update`].
    pub unsafe fn write_gradients(&self, all: &[(Gradient<'_>, Address)]) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.queue_gradients("gradient", all) }
    }

    /// Queues the accumulation of gradients: the contributions are added to the elements at which
    /// the sum starts. The new sums are written, in float64, to the addresses beside them,
    /// which may be the addresses at which the sums start. Divisors have no effect.
    ///
    /// Fails with INVALID_ARGUMENT, with nothing queued, if types do not fit.
    ///
    /// # Safety
    /// As for [`KernelLauncher::update`].
    pub unsafe fn accumulate(&self, all: &[(Gradient<'_>, Address)]) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.queue_gradients("accumulate", all) }
    }

    /// # Safety
    /// As for [`KernelLauncher::update`].
    unsafe fn queue_gradients(&self, kernel: &str, all: &[(Gradient<'_>, Address)]) -> Result<()> {
        all.iter()
            .try_for_each(|(gradient, _)| check_gradient(gradient))?;
        let entries = all
            .iter()
            .map(|&(gradient, to)| TableEntry::new(gradient, to));
        // SAFETY: the caller's promise.
        unsafe { self.queue_entries(kernel, entries) }
    }

    /// Queues the measuring of gradients. For each gradient, `results` gets two float64 numbers:
    /// the sum of the squares of all elements, which is infinite also if the true sum is past
    /// the range of float64; and a number that is 0 if all elements are finite, else NaN. The
    /// bits are those of [`Squares`](crate::update::squares::Squares).
    ///
    /// Fails with INVALID_ARGUMENT, with nothing queued, if types do not fit.
    ///
    /// # Safety
    /// As for [`KernelLauncher::update`]; `results` has memory for two numbers for each gradient.
    pub unsafe fn measure(&self, all: &[Gradient<'_>], results: Address) -> Result<()> {
        all.iter().try_for_each(check_gradient)?;
        let entries = all.iter().map(|&gradient| TableEntry::new(gradient, 0));
        // SAFETY: the caller's promise.
        unsafe { self.queue_measure("squares", placed(entries, results, 2), false) }
    }

    /// # Safety
    /// As for [`KernelLauncher::measure`]. The kernel makes two sums. If `quotients`, the quotient
    /// of their roots is written, or a negative number if one of them is 0; else both sums are.
    unsafe fn queue_measure<'a>(
        &self,
        kernel: &str,
        entries: impl Iterator<Item = TableEntry<'a>> + Clone,
        quotients: bool,
    ) -> Result<()> {
        for dtype in TYPES {
            let arrays = self.enter(dtype, entries.clone(), Some(MEASURED_BY_BLOCK))?;
            let Some(arrays) = arrays else { continue };
            let bytes = arrays.tiles.saturating_mul(2 * size_of::<f64>() as u64);
            let sums = self
                .queue
                .scratch(usize::try_from(bytes).unwrap_or(usize::MAX))?;
            // SAFETY: the caller's promise, and the arguments are the kernels'.
            unsafe {
                self.over_variables(kernel, dtype, &arrays, &[sums])?;
                let arguments = [arrays.variables, sums, quotients.into()];
                self.queue.launch("umbo_totals", arrays.count, &arguments)?;
            }
        }
        Ok(())
    }

    /// Queues updates: one kernel for each rule and element type among them, whatever their number,
    /// and two more for each rule that measures. The bits are those of an
    /// [`UpdatePass`](crate::update::pass::UpdatePass).
    ///
    /// Fails with INVALID_ARGUMENT, with nothing queued, if a step's state, types or rows do not
    /// fit.
    ///
    /// # Safety
    /// When the queued work reaches the updates, gradients, sums and numbers of rows may be read,
    /// and weights, state and flags read and written. Nobody else uses them at that time. Each
    /// has the elements that its description names. Each written element belongs to one update
    /// only; flags may be shared.
    pub unsafe fn update(&self, updates: &[DeviceUpdate<'_>]) -> Result<()> {
        updates.iter().try_for_each(check)?;
        let kinds = RuleKind::ALL.iter().map(|kind| Some(*kind));
        for kind in kinds.chain([None]) {
            let of_kind = |update: &&DeviceUpdate<'_>| update.step.map(|step| step.kind) == kind;
            let entries = updates.iter().filter(of_kind).map(TableEntry::of_update);
            let name = kernel_of(kind);
            // SAFETY: the caller's promise.
            unsafe {
                if !kind.is_some_and(RuleKind::measures) || entries.clone().next().is_none() {
                    self.queue_entries(name, entries)?;
                    continue;
                }
                let quotients = self
                    .queue
                    .scratch(size_of::<f64>() * entries.clone().count())?;
                let entries = placed(entries, quotients, 1);
                self.queue_measure(&format!("{name}_squares"), entries.clone(), true)?;
                self.queue_entries(name, entries)?;
            }
        }
        Ok(())
    }
}

/// The entries, each with its place among the results. Each entry has `count` float64 numbers
/// there.
fn placed<'a>(
    entries: impl Iterator<Item = TableEntry<'a>> + Clone,
    results: Address,
    numbers: usize,
) -> impl Iterator<Item = TableEntry<'a>> + Clone {
    let places = (results..).step_by(numbers * size_of::<f64>());
    entries.zip(places).map(|(mut entry, place)| {
        entry.variable.result = place;
        entry
    })
}

/// The name in the kernels of a rule, or of the kernel that only writes the gradient.
fn kernel_of(kind: Option<RuleKind>) -> &'static str {
    kind.map_or("treated", RuleKind::name)
}

fn check(update: &DeviceUpdate<'_>) -> Result<()> {
    check_gradient(&update.gradient)?;
    let kind = update.step.map(|step| step.kind);
    let found = update.slots.len();
    let expected = kind.map_or(1, RuleKind::states);
    if found != expected {
        let name = kernel_of(kind);
        return Err(invalid!("slots", "{found}; {name} has {expected}"));
    }
    let Some(rows) = update.rows else {
        return Ok(());
    };
    let numbers = rows.numbers;
    let sum = &update.gradient;
    let fits = sum.contributions.is_empty()
        && sum.accumulated.is_some()
        && rows.elements.checked_mul(numbers.len() as u64) == Some(sum.elements)
        && !kind.is_some_and(RuleKind::measures);
    if !fits {
        let problem =
            "rows are updated by sums of their own, one for each, and not by a rule that measures";
        return Err(Error::invalid("rows", problem));
    }
    let exist = numbers.last().is_none_or(|&last| last < rows.table_rows);
    if !exist || !numbers.is_sorted_by(|before, after| before < after) {
        let problem = format!(
            "they must ascend, none twice, within the {} of the table",
            rows.table_rows
        );
        return Err(Error::invalid("rows", problem));
    }
    Ok(())
}
