//! Updates of many variables by one kernel for each rule.

use crate::error::{Error, Result};
use crate::kernels::cuda::entries::{GpuTreatment, TableEntry};
use crate::kernels::cuda::gradient::check_gradient;
use crate::kernels::cuda::operands::GpuUpdate;
use crate::kernels::cuda::queue::{KernelLauncher, KernelQueue, Plain};
use crate::kernels::dtype::DType;
use crate::kernels::float::real::Real;
use crate::kernels::update::rules::RuleKind;

impl<Q: KernelQueue> KernelLauncher<Q> {
    /// Queues updates: one kernel for each rule and element type among them, however many there
    /// are; for LAMB two more, which measure. The bits are those of a
    /// [`UpdatePass`](crate::kernels::update::pass::UpdatePass).
    ///
    /// Fails with INVALID_ARGUMENT, with nothing queued, if a step's state, types, copies or rows do
    /// not fit.
    ///
    /// # Safety
    /// Gradients, sums and numbers of rows may be read, and weights, state, copies and flags read and
    /// written, when the work that is queued here comes to it, by nobody else at the same time. Each
    /// has the elements that its description names. No element that is written is another's, but
    /// flags may be shared.
    pub unsafe fn update(&mut self, updates: &[GpuUpdate<'_>]) -> Result<()> {
        updates.iter().try_for_each(check)?;
        for dtype in [DType::Float32, DType::Float64] {
            for &kind in RuleKind::ALL {
                let of_kind = |update: &&GpuUpdate<'_>| {
                    update.gradient.dtype == dtype && update.step.kind == kind
                };
                let entries = updates.iter().filter(of_kind).map(TableEntry::of_update);
                // SAFETY: the caller's promise.
                unsafe {
                    match (dtype, kind) {
                        (DType::Float32, RuleKind::Lamb) => self.queue_lamb::<f32>(entries)?,
                        (_, RuleKind::Lamb) => self.queue_lamb::<f64>(entries)?,
                        (DType::Float32, _) => {
                            self.queue_entries::<f32>(kind.kernel(dtype), entries)?;
                        }
                        _ => self.queue_entries::<f64>(kind.kernel(dtype), entries)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// # Safety
    /// As for [`KernelLauncher::update`].
    unsafe fn queue_lamb<'a, T: Real>(
        &mut self,
        entries: impl Iterator<Item = TableEntry<'a>> + Clone,
    ) -> Result<()>
    where
        GpuTreatment<T>: Plain,
    {
        let count = entries.clone().count();
        if count == 0 {
            return Ok(());
        }
        let quotients = self.queue.scratch(size_of::<f64>() * count)?;
        let places = (quotients..).step_by(size_of::<f64>());
        let entries = entries.zip(places).map(|(mut entry, place)| {
            entry.variable.result = place;
            entry
        });
        let (squares, update) = match T::DTYPE {
            DType::Float32 => ("umbo_lamb_squares_f32", "umbo_lamb_f32"),
            _ => ("umbo_lamb_squares_f64", "umbo_lamb_f64"),
        };
        // SAFETY: the caller's promise.
        unsafe {
            self.queue_measure::<T>(squares, entries.clone(), true)?;
            self.queue_entries::<T>(update, entries)
        }
    }
}

fn check(update: &GpuUpdate<'_>) -> Result<()> {
    check_gradient(&update.gradient)?;
    let kind = update.step.kind;
    if update.slots.len() != kind.states() {
        let (found, expected) = (update.slots.len(), kind.states());
        return Err(Error::invalid("slots", format!("{found}; {kind:?} has {expected}")));
    }
    if update.gradient.dtype != DType::Float32 && update.copies.iter().any(Option::is_some) {
        let problem = format!("of a {} variable; float32 ones have them", update.gradient.dtype);
        return Err(Error::invalid("copies", problem));
    }
    let Some(rows) = update.rows else { return Ok(()) };
    let (numbers, sum) = (rows.numbers, &update.gradient);
    let fits = sum.contributions.is_empty()
        && sum.accumulated.is_some()
        && rows.elements.checked_mul(numbers.len() as u64) == Some(sum.elements)
        && kind != RuleKind::Lamb;
    if !fits {
        let problem = "rows are updated by sums of their own, one for each, and not by LAMB";
        return Err(Error::invalid("rows", problem));
    }
    let exist = numbers.last().is_none_or(|&last| last < rows.of);
    if !exist || !numbers.is_sorted_by(|before, after| before < after) {
        let problem = format!("they must ascend, none twice, within the {} of the table", rows.of);
        return Err(Error::invalid("rows", problem));
    }
    Ok(())
}
