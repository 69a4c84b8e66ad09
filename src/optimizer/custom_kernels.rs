//! Custom rules for variables on a GPU: the program queues its own kernels.
//!
//! The program's function can fail, and then weights must not have changed. So it is called when an apply is
//! prepared, on copies of weights and state. The commit copies these back, and needs no memory that could be
//! refused. The gradient is computed by the kernels that all rules share. If only some rows of a table have
//! gradients, only those rows are copied out and back.

#![expect(unsafe_code, reason = "kernels get addresses")]

use crate::device::cuda::gpu::Gpu;
use crate::error::{Error, Result, memory};
use crate::kernels::cuda::{Address, RowCopy, Treated, on_gpu};
use crate::optimizer::gpu_operands::{Computed, GpuMemory};
use crate::optimizer::means::Means;
use crate::optimizer::rule::{CustomKernel, CustomUpdate, Scalars, UpdateRule};
use crate::optimizer::sources::GradientSources;
use crate::optimizer::variable_states::Variables;
use crate::optimizer::workspace::{ApplyItem, ApplyWork};
use crate::tensor::{DType, Shape, Tensor};
use crate::values::variable::Variable;

impl ApplyWork {
    /// Calls the program's function for the prepared updates, whose memory is reserved. Returns when its kernels
    /// are done. If it fails, nothing has changed.
    pub(super) fn compute_on_gpu(&mut self, gpu: &'static Gpu, means: Means<'_>) -> Result<()> {
        let Means { variables, sources, rule, clipping } = means;
        let Some(ready) = &mut self.ready else {
            return Err(Error::Internal("an apply was not made ready for its GPU".into()));
        };
        let GpuMemory { operands, flags, computed, .. } = ready;
        let first_flag = flags.place().address;
        let prepared = || ApplyItem::prepared(&self.items).enumerate();
        let (mut gradients, mut treated) = (Vec::new(), Vec::new());
        for (at, (index, update)) in prepared() {
            let variable = &sources.variables()[index];
            if variable.updates_ahead() > 1 {
                return Err(Error::precondition(format!(
                    "{variable:?}: another optimizer's apply to it waits for the same commit point; a \
                     rule of the program's computes from what the GPU holds now. Apply them in steps of \
                     their own"
                )));
            }
            let copies =
                Computed::new(gpu, variables, sources, index, update.position, update.buffer)?;
            let gradient = fresh(variable.dtype(), sources.elements(index), gpu)?;
            treated.push(Treated {
                gradient: operands.gradient(sources, at, index),
                clipping,
                l2: update.l2,
                weights: copies.weights.place().address,
                to: gradient.place().address,
                not_finite: Some(first_flag + 4 * at as u64),
            });
            computed.push(copies);
            gradients.push(gradient);
        }
        // SAFETY: the copies belong to this apply, which has claimed the operands of the gradients, and all of
        // them live until the stream has been synchronized.
        on_gpu(gpu, |launcher| unsafe { launcher.treat_gradients(&treated) })?;
        for (at, (index, update)) in prepared() {
            let (Computed { weights, slots, rows }, gradient) = (&computed[at], &gradients[at]);
            let elements = sources.elements(index);
            if elements == 0 {
                continue;
            }
            let slots: Vec<Address> = slots.iter().map(|slot| slot.place().address).collect();
            let CustomKernel { queue, rates, step } =
                custom_kernel(rule, &update.scalars, index, sources)?;
            let numbers = rows.as_ref().map(|rows| (rows.place().address, rows.shape().elements()));
            let _entered = gpu.card().enter()?;
            queue(&CustomUpdate {
                device: gpu.id(),
                stream: gpu.stream().cast(),
                dtype: weights.dtype(),
                elements,
                weights: weights.place().address,
                gradient: gradient.place().address,
                slots: &slots,
                rows: numbers,
                rates,
                step,
            })?;
        }
        // Errors of its kernels are found here, while nothing has changed.
        gpu.synchronize()
    }

    /// Copies the computed weights and state to the variable. Other rules do that in their update.
    pub(super) fn put_computed(
        gpu: &'static Gpu,
        computed: &[Computed],
        places: impl Iterator<Item = (Address, Vec<Address>, u64)>,
    ) -> Result<()> {
        for (Computed { weights, slots, rows }, (to, slots_to, width)) in
            computed.iter().zip(places)
        {
            let tensors = std::iter::once(weights).chain(slots);
            for (tensor, to) in tensors.zip(std::iter::once(to).chain(slots_to)) {
                // SAFETY: the apply has claimed the destination, which has as many elements, or these rows; the
                // source belongs to the apply, and is freed on the stream.
                unsafe {
                    match rows {
                        None => gpu.copy(tensor.place().address, to, tensor.bytes())?,
                        Some(rows) => {
                            let copy = row_copy(tensor, rows, to, width, true);
                            on_gpu(gpu, |launcher| launcher.copy_rows(copy))?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

impl Computed {
    /// Copies of the weights and the state of variable `index`, or of its rows that have gradients.
    fn new(
        gpu: &'static Gpu,
        variables: &Variables,
        sources: &GradientSources<'_>,
        index: usize,
        position: usize,
        buffer: usize,
    ) -> Result<Computed> {
        let variable = &sources.variables()[index];
        let (dtype, elements) = (variable.dtype(), sources.elements(index));
        let merged = sources.rows(index);
        let rows = merged.map(|merged| numbers(merged.rows(), gpu)).transpose()?;
        let width = merged.map_or(1, |merged| merged.row_elements() as u64);
        let copied = |from: Address| {
            let copy = fresh(dtype, elements, gpu)?;
            // SAFETY: the apply has claimed the source, and nobody else has the fresh tensor.
            unsafe {
                match &rows {
                    None => gpu.copy(from, copy.place().address, copy.bytes())?,
                    Some(rows) => {
                        let copy = row_copy(&copy, rows, from, width, false);
                        on_gpu(gpu, |launcher| launcher.copy_rows(copy))?;
                    }
                }
            }
            Ok::<_, Error>(copy)
        };
        let weights = copied(address_of(variable, buffer))?;
        let slots = variables.slot_addresses(position).into_iter().map(copied);
        let slots = slots.collect::<Result<Vec<_>>>()?;
        Ok(Computed { weights, slots, rows })
    }
}

/// The address of one of a variable's buffers.
pub(super) fn address_of(variable: &Variable, buffer: usize) -> Address {
    // SAFETY: only the address is used.
    unsafe { variable.in_buffer(buffer) }.place().address
}

/// The rule's kernel, or the reason why it has none.
pub(super) fn custom_kernel<'a>(
    rule: &'a dyn UpdateRule,
    scalars: &Scalars,
    index: usize,
    sources: &GradientSources<'_>,
) -> Result<CustomKernel<'a>> {
    rule.custom_kernel(scalars).ok_or_else(|| {
        let variable = &sources.variables()[index];
        Error::Unimplemented(format!(
            "{variable:?} is on {}, where the rule '{}' cannot update it: its function is the CPU's. Give \
             it one for GPUs (update_on_gpu), make the strategy with parameter_device CPU:0, or take \
             another rule",
            variable.device(),
            rule.name()
        ))
    })
}

fn fresh(dtype: DType, elements: usize, gpu: &Gpu) -> Result<Tensor> {
    Tensor::uninitialized(dtype, Shape::new(&[elements])?, gpu.id())
}

fn numbers(rows: &[usize], gpu: &Gpu) -> Result<Tensor> {
    let numbers = memory::collect(rows.iter().map(|&row| Ok(row as i64)), "row numbers")?;
    Tensor::from_slice(&numbers, Shape::new(&[rows.len()])?, gpu.id())
}

fn row_copy(compact: &Tensor, rows: &Tensor, table: Address, width: u64, back: bool) -> RowCopy {
    RowCopy {
        dtype: compact.dtype(),
        numbers: rows.place().address,
        rows: rows.shape().elements() as u64,
        width,
        table,
        compact: compact.place().address,
        back,
    }
}
