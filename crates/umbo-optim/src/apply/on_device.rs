//! The launcher of variables on a device whose memory the host cannot address: its kernels produce
//! the same bits as the workers.
//!
//! The replicas' contributions are on the variables' device by then. The host merges rows, and
//! their sums are copied to the device. An apply waits for its kernels, so that its caller knows
//! whether the device has succeeded.

#![expect(unsafe_code, reason = "kernels get addresses")]

use std::sync::atomic::Ordering;

use crate::apply::device_average::{self, DeviceAverage};
use crate::apply::device_operands::{DeviceOperands, NotFinite, ReservedMemory, VariableCopies};
use crate::apply::launcher::{ApplyBackend, Keep};
use crate::apply::sources::GradientSources;
use crate::apply::update_context::UpdateContext;
use crate::apply::workspace::{ApplyWorkspace, PreparedUpdate, UpdateGroup};
use crate::exchange::between_devices::Buffers;
use crate::exchange::buffers::AlignedBytes;
use crate::exchange::shards::{ReceivedShard, Shards};
use crate::rules::custom_kernels::{address_of, compute, copy_out};
use umbo_base::error::{Result, memory};
use umbo_device::backend::Backend;
use umbo_kernels::launch::{
    Address, DeviceFactoredUpdate, DeviceUpdate, Gradient, PreparedLaunches, TableRows, on_device,
    prepared_on_device,
};
use umbo_kernels::update::squares::Squares;
use umbo_tensor::{DType, Shape, Tensor};

/// The kernels of a device.
#[derive(Clone, Copy)]
pub(crate) struct DeviceBackend(pub(crate) &'static dyn Backend);

impl ApplyBackend for DeviceBackend {
    fn measure(
        &self,
        work: &mut ApplyWorkspace,
        sources: &mut GradientSources<'_>,
        _: Keep,
    ) -> Result<()> {
        let indices = || work.items.iter().map(|item| item.index);
        let operands = DeviceOperands::new(sources, self.0, indices())?;
        let all = indices()
            .enumerate()
            .map(|(at, index)| operands.gradient(sources, at, index));
        let all: Vec<Gradient<'_>> = all.collect();
        let results =
            Tensor::uninitialized(DType::Float64, Shape::new(&[all.len(), 2])?, self.0.id())?;
        // SAFETY: the apply has claimed the operands of the gradients, which live until the results
        // have arrived.
        on_device(self.0, |launcher| unsafe {
            launcher.measure(&all, results.place().address)
        })?;
        let results = results.to_vec::<f64>()?;
        for (item, pair) in work.items.iter_mut().zip(results.chunks_exact(2)) {
            // The second is 0 unless an element is not finite.
            item.squares = Some(Squares {
                sum: pair[0],
                finite: pair[1] == 0.0,
            });
        }
        Ok(())
    }

    fn reserve_sum(&self, work: &mut ApplyWorkspace, sources: &GradientSources<'_>) -> Result<()> {
        let indices = work.items.iter().map(|item| item.index);
        let dense: Vec<usize> = indices
            .filter(|&index| sources.rows(index).is_none())
            .collect();
        let operands = DeviceOperands::new(sources, self.0, dense.iter().copied())?;
        let sums = dense.iter().enumerate().filter_map(|(at, &index)| {
            let sum = sources.accumulation.memory(index)?;
            Some((operands.gradient(sources, at, index), sum.place().address))
        });
        let sums: Vec<(Gradient<'_>, Address)> = sums.collect();
        // SAFETY: only this apply, which owns the accumulation, writes the sums.
        let launches =
            prepared_on_device(self.0, |launcher| unsafe { launcher.accumulate(&sums) })?;
        work.ready = Some(ReservedMemory {
            launches,
            _operands: operands,
            _copies: Vec::new(),
            flags: None,
        });
        Ok(())
    }

    fn sum(&self, work: &mut ApplyWorkspace, _: &GradientSources<'_>) -> Result<()> {
        let ready = work.take_ready()?;
        // SAFETY: as when it was prepared.
        unsafe { ready.launches.launch() }?;
        self.0.synchronize()
    }

    fn reserve_update(&self, work: &mut ApplyWorkspace, context: UpdateContext<'_>) -> Result<()> {
        let sources = context.sources;
        let prepared: Vec<_> = UpdateGroup::prepared(&work.items).collect();
        let operands =
            DeviceOperands::new(sources, self.0, prepared.iter().map(|(index, _)| *index))?;
        let flags = Tensor::zeros(DType::Int32, Shape::new(&[prepared.len()])?, self.0.id())?;
        let on_host = memory::filled(prepared.len(), [0; 4], "flags of an update")?;
        let first_flag = flags.place().address;
        let updates = Prepared {
            backend: self.0,
            context,
            updates: &prepared,
            operands: &operands,
            first_flag,
        };
        let (launches, copies) = match context.rule.factors() {
            Some(_) => (updates.by_factored_moments()?, Vec::new()),
            None => updates.by_elements()?,
        };
        let flags = Some(NotFinite { flags, on_host });
        work.ready = Some(ReservedMemory {
            launches,
            _operands: operands,
            _copies: copies,
            flags,
        });
        Ok(())
    }

    fn update(&self, work: &mut ApplyWorkspace, context: UpdateContext<'_>) -> Result<()> {
        let ReservedMemory {
            launches,
            flags,
            _operands,
            _copies,
        } = work.take_ready()?;
        let sources = context.sources;
        for (index, update) in UpdateGroup::prepared(&work.items) {
            sources.variables()[index].begin_update(update.buffer, sources.rows(index).is_none());
        }
        // SAFETY: as when it was prepared.
        unsafe { launches.launch() }?;
        let Some(NotFinite { flags, mut on_host }) = flags else {
            return Ok(());
        };
        // SAFETY: there are as many flags on both sides.
        unsafe {
            self.0
                .download_directly(flags.place().address, on_host.as_flattened_mut())
        }?;
        let updated = work.items.iter().filter(|item| item.update.is_some());
        for (item, flag) in updated.zip(on_host) {
            item.not_finite.store(flag != [0; 4], Ordering::Relaxed);
        }
        Ok(())
    }

    fn pack(
        &self,
        shards: &Shards,
        round: usize,
        sources: &GradientSources<'_>,
        send: &mut AlignedBytes,
    ) -> Result<()> {
        shards.pack_from_device(self.0, round, sources, send)
    }

    fn scatter(&self, all: &[ReceivedShard<'_>]) -> Result<()> {
        all.iter().try_for_each(
            |ReceivedShard {
                 elements,
                 to,
                 first,
             }| {
                let size = elements.dtype().size();
                let to = to.place().address + (first * size) as Address;
                // SAFETY: the exchange has exclusive access to the gradients, which have these
                // elements.
                unsafe {
                    self.0
                        .upload(elements.data(), to, elements.elements() * size)
                }
            },
        )
    }

    fn pack_on_device(
        &self,
        shards: &Shards,
        sources: &GradientSources<'_>,
    ) -> Result<Option<Buffers>> {
        shards.make_ready_on(self.0, sources).map(Some)
    }

    fn write_gradient(
        &self,
        sources: &GradientSources<'_>,
        index: usize,
        to: &Tensor,
    ) -> Result<()> {
        let operands = DeviceOperands::new(sources, self.0, std::iter::once(index))?;
        let all = [(operands.gradient(sources, 0, index), to.place().address)];
        // SAFETY: nobody else has the fresh tensor, and the operands live until the kernel is done.
        on_device(self.0, |launcher| unsafe { launcher.write_gradients(&all) })?;
        self.0.synchronize()
    }

    fn give_up(&self, why: &str) {
        self.0.give_up(why);
    }
}

/// The prepared updates of an apply, and what their kernels read and write beside weights and
/// state.
struct Prepared<'a> {
    backend: &'static dyn Backend,
    context: UpdateContext<'a>,
    updates: &'a [(usize, &'a PreparedUpdate)],
    operands: &'a DeviceOperands,
    first_flag: Address,
}

impl Prepared<'_> {
    /// The gradient of the update at a position, and its flag.
    fn inputs(&self, at: usize, index: usize) -> (Gradient<'_>, Address) {
        let gradient = self.operands.gradient(self.context.sources, at, index);
        (gradient, self.first_flag + 4 * at as u64)
    }

    fn averages(&self) -> Vec<DeviceAverage> {
        let updates = self.updates.iter();
        let averages =
            updates.filter_map(|&(index, update)| DeviceAverage::new(self.context, index, update));
        averages.collect()
    }

    /// The kernels of a rule whose update of an element depends on its gradient, and perhaps on
    /// norms; and copies of the variables, which are made if the rule is the program's.
    fn by_elements(&self) -> Result<(PreparedLaunches, Vec<VariableCopies>)> {
        let context = self.context;
        let sources = context.sources;
        // A rule of the program's works on copies, of all variables.
        let of_program = self
            .updates
            .iter()
            .filter(|(_, update)| update.scalars.step.is_none());
        let copies = of_program
            .map(|&(index, update)| VariableCopies::new(self.backend, context, index, update));
        let copies = copies.collect::<Result<Vec<_>>>()?;
        let written = written(context, self.updates, &copies);
        let updates = self.updates.iter().zip(&written).enumerate();
        let updates = updates.map(|(at, (&(index, update), (weights, slots)))| {
            let (gradient, flag) = self.inputs(at, index);
            DeviceUpdate {
                gradient,
                clipping: context.clipping,
                l2: update.l2,
                step: update.scalars.step,
                weights: *weights,
                slots,
                rows: rows_of(sources, index).filter(|_| copies.is_empty()),
                not_finite: Some(flag),
            }
        });
        let updates: Vec<DeviceUpdate<'_>> = updates.collect();
        let averages = self.averages();
        // SAFETY: this apply has claimed the variables, so that nobody else uses them; all operands
        // live until the flags have arrived.
        let launches = unsafe {
            if copies.is_empty() {
                prepared_on_device(self.backend, |launcher| {
                    launcher.update(&updates)?;
                    device_average::queue(launcher, &averages)
                })?
            } else {
                copy_out(self.backend, &copies)?;
                on_device(self.backend, |launcher| launcher.update(&updates))?;
                let updates = self.updates.iter().copied();
                compute(self.backend, context, updates, &copies, &averages)?
            }
        };
        Ok((launches, copies))
    }

    /// The kernels of a rule whose second moments are factored.
    fn by_factored_moments(&self) -> Result<PreparedLaunches> {
        let updates = self.updates.iter().enumerate();
        let updates = updates.filter_map(|(at, &(index, update))| {
            let (gradient, flag) = self.inputs(at, index);
            self.context
                .factored_on_device(index, update, gradient, flag)
        });
        let updates: Vec<DeviceFactoredUpdate<'_>> = updates.collect();
        let averages = self.averages();
        // SAFETY: as for updates by elements.
        prepared_on_device(self.backend, |launcher| unsafe {
            launcher.update_factored(&updates)?;
            device_average::queue(launcher, &averages)
        })
    }
}

/// The memory that the kernels write for each of the prepared updates: weights and state, or, for a
/// custom rule, its gradient.
fn written(
    context: UpdateContext<'_>,
    prepared: &[(usize, &PreparedUpdate)],
    copies: &[VariableCopies],
) -> Vec<(Address, Vec<Address>)> {
    let operands = |(at, &(index, update)): (usize, &(usize, &PreparedUpdate))| {
        if let Some(copies) = copies.get(at) {
            return copies.operands();
        }
        (
            address_of(&context.sources.variables()[index], update.buffer),
            context.variables.slot_addresses(update.position).collect(),
        )
    };
    prepared.iter().enumerate().map(operands).collect()
}

/// The rows of variable `index` that an update changes, if it is row-sparse.
fn rows_of<'a>(sources: &'a GradientSources<'_>, index: usize) -> Option<TableRows<'a>> {
    sources.rows(index).map(|merged| TableRows {
        numbers: merged.rows(),
        elements: merged.row_elements() as u64,
        table_rows: sources.variables()[index].shape()[0],
    })
}
