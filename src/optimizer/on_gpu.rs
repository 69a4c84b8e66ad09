//! The launcher of variables on a GPU: its kernels produce the same bits as the workers.
//!
//! The replicas' contributions are on the variables' GPU by then. The host merges rows, and their sums are copied
//! to the GPU. An apply waits for its kernels, so that its caller knows whether the GPU has succeeded.

#![expect(unsafe_code, reason = "kernels get addresses")]

use std::sync::atomic::Ordering;

use crate::device::cuda::gpu::Gpu;
use crate::error::{Error, Result};
use crate::kernels::cuda::{
    Address, Extent, GpuUpdate, Gradient, MeasuredEntry, TableRows, on_gpu,
};
use crate::kernels::update::measure::Squares;
use crate::kernels::update::rules::RuleStep;
use crate::optimizer::custom_kernels::{address_of, custom_kernel};
use crate::optimizer::exchange::buffers::AlignedBytes;
use crate::optimizer::exchange::shards::{ReceivedShard, Shards};
use crate::optimizer::gpu_operands::{GpuMemory, GpuOperands};
use crate::optimizer::launcher::{ApplyLauncher, Keep};
use crate::optimizer::means::Means;
use crate::optimizer::reserved_tensor::ReservedTensor;
use crate::optimizer::rule::Scalars;
use crate::optimizer::sources::GradientSources;
use crate::optimizer::workspace::{ApplyItem, ApplyWork};
use crate::tensor::{DType, Shape, Tensor};
use crate::values::variable::Variable;

impl ApplyWork {
    /// Reserves the memory for a sum or an update, which then cannot fail for lack of it. `measures` says whether
    /// the rule measures weights and updates.
    fn make_ready(
        &mut self,
        gpu: &'static Gpu,
        sources: &GradientSources<'_>,
        measures: bool,
    ) -> Result<()> {
        let indices: Vec<usize> = self
            .items
            .iter()
            .filter(|item| item.launches(sources))
            .map(|item| item.index)
            .collect();
        let operands = GpuOperands::new(sources, gpu, indices.iter().copied())?;
        let flags = Tensor::zeros(DType::Int32, Shape::new(&[indices.len()])?, gpu.id())?;
        let rows = indices.iter().filter_map(|&index| sources.rows(index));
        let extent = Extent {
            variables: indices.len(),
            contributions: operands.contributions(),
            elements: indices.iter().map(|&index| sources.elements(index)).sum(),
            rows: rows.map(|merged| merged.rows().len()).sum(),
            measures,
        };
        let reserved = on_gpu(gpu, |launcher| launcher.reserve(extent))?;
        self.ready = Some(GpuMemory { operands, flags, computed: Vec::new(), reserved });
        Ok(())
    }

    fn take_ready(&mut self) -> Result<GpuMemory> {
        let ready = self.ready.take();
        ready.ok_or_else(|| Error::Internal("an apply was not made ready for its GPU".into()))
    }
}

impl ApplyLauncher for Gpu {
    fn measure(
        &'static self,
        work: &mut ApplyWork,
        sources: &mut GradientSources<'_>,
        _: Keep,
        inspect: &mut dyn FnMut(usize, Squares),
    ) -> Result<()> {
        let indices = || work.items.iter().map(|item| item.index);
        let operands = GpuOperands::new(sources, self, indices())?;
        let all: Vec<MeasuredEntry<'_>> = indices()
            .enumerate()
            .map(|(at, index)| MeasuredEntry {
                gradient: operands.gradient(sources, at, index),
                kept: None,
            })
            .collect();
        let results =
            Tensor::uninitialized(DType::Float64, Shape::new(&[all.len(), 2])?, self.id())?;
        // SAFETY: the apply has claimed the operands of the gradients, which live until the results have arrived.
        on_gpu(self, |launcher| unsafe { launcher.measure(&all, results.place().address) })?;
        let results = results.to_vec::<f64>()?;
        let squares = results.chunks_exact(2).map(|pair| {
            // The second is 0 unless an element is not finite.
            Squares { sum: pair[0], finite: pair[1] == 0.0 }
        });
        indices().zip(squares).for_each(|(index, squares)| inspect(index, squares));
        Ok(())
    }

    fn reserve_sum(
        &'static self,
        work: &mut ApplyWork,
        sources: &GradientSources<'_>,
    ) -> Result<()> {
        work.make_ready(self, sources, false)
    }

    fn sum(&'static self, work: &mut ApplyWork, sources: &GradientSources<'_>) -> Result<()> {
        let GpuMemory { operands, reserved: _reserved, .. } = work.take_ready()?;
        let dense = work.items.iter().filter(|item| item.launches(sources));
        let sums = dense.enumerate().filter_map(|(at, item)| {
            let sum = sources.accumulation.next(item.index).map(ReservedTensor::address)?;
            let mut gradient = operands.gradient(sources, at, item.index);
            gradient.accumulated = (!item.fresh).then_some(sum);
            Some((gradient, sum))
        });
        let sums: Vec<(Gradient<'_>, Address)> = sums.collect();
        // SAFETY: only this apply, which owns the accumulation, writes the sums.
        on_gpu(self, |launcher| unsafe { launcher.accumulate(&sums) })?;
        self.synchronize()
    }

    fn reserve_update(&'static self, work: &mut ApplyWork, means: Means<'_>) -> Result<()> {
        let Means { sources, rule, .. } = means;
        let (mut is_custom, mut measures) = (false, false);
        for (index, update) in ApplyItem::prepared(&work.items) {
            match update.scalars.step {
                Some(step) => measures |= step.kind.measures(),
                None => {
                    is_custom =
                        custom_kernel(rule, &update.scalars, index, sources).map(|_| true)?
                }
            }
        }
        work.make_ready(self, sources, measures)?;
        if is_custom {
            work.compute_on_gpu(self, means)?;
        }
        Ok(())
    }

    fn update(&'static self, work: &mut ApplyWork, means: Means<'_>) -> Result<()> {
        let Means { variables, sources, clipping, .. } = means;
        let GpuMemory { operands, flags, computed, reserved: _reserved } = work.take_ready()?;
        let prepared: Vec<_> = ApplyItem::prepared(&work.items).collect();
        let first_flag = flags.place().address;
        let slots: Vec<Vec<Address>> =
            prepared.iter().map(|(_, update)| variables.slot_addresses(update.position)).collect();
        for &(index, update) in &prepared {
            let variable = &sources.variables()[index];
            variable.begin_update(update.buffer, sources.rows(index).is_none());
        }
        let is_custom = !computed.is_empty();
        if is_custom {
            let places = prepared.iter().zip(slots.clone()).map(|(&(index, update), slots)| {
                let width = sources.rows(index).map_or(1, |merged| merged.row_elements() as u64);
                let weights = address_of(&sources.variables()[index], update.buffer);
                (weights, slots, width)
            });
            ApplyWork::put_computed(self, &computed, places)?;
        }
        let mut updates = Vec::with_capacity(prepared.len());
        for (at, &(index, update)) in prepared.iter().enumerate().filter(|_| !is_custom) {
            let (variable, rows) = (&sources.variables()[index], sources.rows(index));
            updates.push(GpuUpdate {
                gradient: operands.gradient(sources, at, index),
                clipping,
                l2: update.l2,
                step: step_of(&update.scalars, variable)?,
                weights: address_of(variable, update.buffer),
                slots: &slots[at],
                copies: [None, None],
                rows: rows.map(|merged| TableRows {
                    numbers: merged.rows(),
                    elements: merged.row_elements() as u64,
                    of: variable.shape()[0],
                }),
                not_finite: Some(first_flag + 4 * at as u64),
            });
        }
        // SAFETY: this apply has claimed the variables, so that nobody else uses them; all operands live until the
        // flags have arrived.
        on_gpu(self, |launcher| unsafe { launcher.update(&updates) })?;
        let flags = flags.to_vec::<i32>()?;
        let updated = work.items.iter().filter(|item| item.update.is_some());
        for (item, flag) in updated.zip(flags) {
            item.not_finite.store(flag != 0, Ordering::Relaxed);
        }
        Ok(())
    }

    fn pack(
        &'static self,
        shards: &Shards,
        round: usize,
        sources: &GradientSources<'_>,
        send: &mut AlignedBytes,
    ) -> Result<()> {
        shards.pack_on_gpu(self, round, sources, send)
    }

    fn land(&'static self, all: &[ReceivedShard<'_>]) -> Result<()> {
        all.iter().try_for_each(|ReceivedShard { elements, to, first }| {
            let size = elements.dtype().size();
            let to = to.address() + (first * size) as Address;
            // SAFETY: the exchange has exclusive access to the gradients, which have these elements.
            unsafe { self.upload(elements.data(), to, elements.elements() * size) }
        })
    }

    fn gpu(&'static self) -> Option<&'static Gpu> {
        Some(self)
    }

    fn write_gradient(
        &'static self,
        sources: &GradientSources<'_>,
        index: usize,
        to: &Tensor,
    ) -> Result<()> {
        let operands = GpuOperands::new(sources, self, std::iter::once(index))?;
        let all = [(operands.gradient(sources, 0, index), to.place().address)];
        // SAFETY: nobody else has the fresh tensor, and the operands live until the kernel is done.
        on_gpu(self, |launcher| unsafe { launcher.write_gradients(&all) })?;
        self.synchronize()
    }

    fn give_up(&'static self, why: &str) {
        self.card().give_up(why);
    }
}

impl ApplyItem {
    /// Whether kernels work on its variable: to update it, or to add up dense gradients.
    fn launches(&self, sources: &GradientSources<'_>) -> bool {
        self.update.is_some() || sources.rows(self.index).is_none()
    }
}

/// The rule's formula with its scalars, as prepared.
fn step_of(scalars: &Scalars, variable: &Variable) -> Result<RuleStep> {
    scalars.step.ok_or_else(|| {
        Error::Internal(format!("{variable:?}: a rule without steps has computed nothing"))
    })
}
