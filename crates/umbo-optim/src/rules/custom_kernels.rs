//! Custom rules for variables on a GPU: the program queues its own kernels.
//!
//! The program's function can fail, and then weights must not have changed. So it is called when an
//! apply is prepared, on copies of weights and state, and the commit copies these back. The
//! gradient is computed by the kernels that all rules share. If only some rows of a table have
//! gradients, only those rows are copied out and back.

#![expect(unsafe_code, reason = "kernels get addresses")]

use crate::apply::device_average::{self, DeviceAverage};
use crate::apply::device_operands::VariableCopies;
use crate::apply::update_context::UpdateContext;
use crate::apply::workspace::PreparedUpdate;
use crate::rules::{CustomKernel, CustomUpdate};
use umbo_base::error::{Error, Result};
use umbo_device::backend::Backend;
use umbo_kernels::launch::{
    Address, DevicePlace, KernelLauncher, PreparedLaunches, RowCopy, on_device, prepared_on_device,
};
use umbo_tensor::values::variable::Variable;
use umbo_tensor::{Shape, Tensor};

impl VariableCopies {
    /// Memory for the copies of variable `index`, with anything in it.
    pub(crate) fn new(
        backend: &'static dyn Backend,
        context: UpdateContext<'_>,
        index: usize,
        update: &PreparedUpdate,
    ) -> Result<VariableCopies> {
        custom_kernel(context, update, index)?;
        let UpdateContext {
            variables, sources, ..
        } = context;
        let variable = &sources.variables()[index];
        variable.check_first_update()?;
        let shape = Shape::new(&[sources.elements(index)])?;
        let fresh = || Tensor::uninitialized(variable.dtype(), shape, backend.id());
        let merged = sources.rows(index);
        let weights = address_of(variable, update.buffer);
        let originals = std::iter::once(weights).chain(variables.slot_addresses(update.position));
        Ok(VariableCopies {
            copies: originals
                .map(|original| Ok((fresh()?, original)))
                .collect::<Result<_>>()?,
            rows: merged
                .map(|merged| merged.indices(backend.id()))
                .transpose()?,
            width: merged.map_or(1, |merged| merged.row_elements() as u64),
            gradient: fresh()?,
        })
    }

    /// The addresses of the weights and of the gradient, for the kernel that writes the latter.
    pub(crate) fn operands(&self) -> (Address, Vec<Address>) {
        (
            self.copies[0].0.place().address,
            vec![self.gradient.place().address],
        )
    }

    /// Queues the copying of weights and state, or that they are copied `back` to the variable.
    ///
    /// # Safety
    /// The apply has claimed the variable.
    unsafe fn copy(&self, launcher: &KernelLauncher<'_>, back: bool) -> Result<()> {
        for (copy, original) in &self.copies {
            let place = copy.place();
            let table = *original;
            // SAFETY: the caller's promise; nobody else has the copy. The original has as many
            // elements, or these rows.
            unsafe {
                let Some(rows) = &self.rows else {
                    let original = DevicePlace {
                        address: table,
                        ..place
                    };
                    launcher.copy(&[if back {
                        (place, original)
                    } else {
                        (original, place)
                    }])?;
                    continue;
                };
                launcher.copy_rows(RowCopy {
                    dtype: place.dtype,
                    numbers: rows.place().address,
                    rows: rows.shape().elements() as u64,
                    width: self.width,
                    table,
                    compact: place.address,
                    back,
                })?;
            }
        }
        Ok(())
    }
}

/// Copies weights and state, for [`compute`].
pub(crate) fn copy_out(backend: &'static dyn Backend, all: &[VariableCopies]) -> Result<()> {
    on_device(backend, |launcher| {
        // SAFETY: the apply has claimed the variables.
        all.iter()
            .try_for_each(|copies| unsafe { copies.copy(launcher, false) })
    })
}

/// Calls the program's function for the prepared updates, whose weights, state and gradients are in
/// the copies. Returns when its kernels are done, with what brings weights and state back and moves
/// `averages`. If it fails, nothing has changed.
pub(crate) fn compute<'u>(
    backend: &'static dyn Backend,
    context: UpdateContext<'_>,
    prepared: impl Iterator<Item = (usize, &'u PreparedUpdate)>,
    all: &[VariableCopies],
    averages: &[DeviceAverage],
) -> Result<PreparedLaunches> {
    for (
        (index, update),
        VariableCopies {
            copies,
            rows,
            gradient,
            ..
        },
    ) in prepared.zip(all)
    {
        let elements = gradient.shape().elements();
        if elements == 0 {
            continue;
        }
        let addresses: Vec<Address> = copies
            .iter()
            .map(|(copy, _)| copy.place().address)
            .collect();
        let CustomKernel { queue, rates, step } = custom_kernel(context, update, index)?;
        let _entered = backend.enter()?;
        queue(&CustomUpdate {
            device: backend.id(),
            stream: backend.queue_handle(),
            dtype: gradient.dtype(),
            elements,
            weights: addresses[0],
            gradient: gradient.place().address,
            slots: &addresses[1..],
            rows: rows
                .as_ref()
                .map(|rows| (rows.place().address, rows.shape().elements())),
            rates,
            step,
        })?;
    }
    // Errors of its kernels are found here, while nothing has changed.
    backend.synchronize()?;
    prepared_on_device(backend, |launcher| {
        // SAFETY: the apply has claimed the variables.
        unsafe {
            all.iter()
                .try_for_each(|copies| copies.copy(launcher, true))?;
            device_average::queue(launcher, averages)
        }
    })
}

/// The address of one of a variable's buffers.
pub(crate) fn address_of(variable: &Variable, buffer: usize) -> Address {
    // SAFETY: only the address is used.
    unsafe { variable.in_buffer(buffer) }.place().address
}

/// The rule's kernel, or the reason why it has none.
fn custom_kernel<'a>(
    UpdateContext { rule, sources, .. }: UpdateContext<'a>,
    update: &PreparedUpdate,
    index: usize,
) -> Result<CustomKernel<'a>> {
    rule.custom_kernel(&update.scalars).ok_or_else(|| {
        let variable = &sources.variables()[index];
        Error::Unimplemented(format!(
            "{variable:?} is on {}, where the rule '{}' cannot update it: its function is the \
             CPU's. Give it one for GPUs (update_on_gpu), make the strategy with parameter_device \
             CPU:0, or take another rule",
            variable.device(),
            rule.name()
        ))
    })
}
