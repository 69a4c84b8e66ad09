//! The exchange of gradients that stay on GPUs, by an engine that moves memory of GPUs. It does with kernels, in
//! one round, what [`Shards::exchange`] does in host memory, with the same bits.

#![expect(unsafe_code, reason = "kernels get addresses")]

use super::buffers::padded;
use super::sent::Sent;
use super::shards::{ShardedVariable, Shards};
use crate::cluster::communicator::{Incoming, Outgoing};
use crate::device::cuda::gpu::Gpu;
use crate::device::cuda::memory::DeviceMemory;
use crate::error::Result;
use crate::kernels::cuda::{Address, GpuContribution, GpuPlace, Gradient, on_gpu};
use crate::kernels::dtype::DType;
use crate::kernels::layout::{Layout, Shape};
use crate::optimizer::reserved_tensor::ReservedTensor;
use crate::optimizer::sources::GradientSources;
use crate::strategy::ranks::Collective;

/// Memory of a GPU for one exchange.
pub struct Buffers {
    gpu: &'static Gpu,
    /// First the contributions that this rank sends, then the gradients of its part.
    send: DeviceMemory,
    /// First the contributions that it receives, then the gradients of all parts.
    receive: DeviceMemory,
}

/// The contributions of all ranks to this rank's part of one variable, in rank order.
struct ReceivedOnGpu<'a> {
    item: &'a ShardedVariable,
    elements: usize,
    contributions: Vec<GpuContribution>,
    /// The destination of the gradient.
    to: Address,
}

impl Shards {
    /// Reserves all memory for the exchange, and writes into it what this rank sends.
    pub fn make_ready_on(
        &self,
        gpu: &'static Gpu,
        sources: &GradientSources<'_>,
    ) -> Result<Buffers> {
        let ((send, receive), gradients) = (self.counts(0), self.shard_counts(0));
        let own = gradients[self.rank];
        let send = DeviceMemory::new(gpu, send.iter().sum::<usize>().max(own))?;
        let (received, gradients): (usize, usize) = (receive.iter().sum(), gradients.iter().sum());
        let receive = DeviceMemory::new(gpu, received.max(gradients))?;
        // SAFETY: the memory is fresh. The bytes between the parts are sent, too.
        unsafe { gpu.fill_zeros(send.address(), send.bytes()) }?;
        self.pack_with_kernels(gpu, 0, sources, send.address())?;
        // All ranks learn of a failure at this point.
        gpu.synchronize()?;
        Ok(Buffers { gpu, send, receive })
    }

    /// Exchanges the contributions, adds up those to this rank's part, and copies the gradients of all parts to
    /// their destination on the GPU.
    pub fn exchange_between_gpus(
        &self,
        collective: &mut Collective<'_>,
        sources: &GradientSources<'_>,
        buffers: Buffers,
    ) -> Result<()> {
        let Buffers { gpu, send, mut receive } = buffers;
        if self.rounds == 0 {
            return Ok(());
        }
        let (send_counts, receive_counts) = self.counts(0);
        collective.all_to_all(
            (Outgoing::Gpu(&send), &send_counts),
            (Incoming::Gpu(&mut receive), &receive_counts),
        )?;
        let added = self.add_up_on(gpu, sources, &send, &receive);
        // Also if that has failed: the other ranks wait for this rank here, and learn of the failure at the commit
        // point.
        let counts = self.shard_counts(0);
        collective.all_gather_into(Outgoing::Gpu(&send), Incoming::Gpu(&mut receive), &counts)?;
        added?;
        self.take_gradients(gpu, &receive)
    }

    /// Adds up the contributions of all ranks to this rank's part, in rank order, as gradients.
    fn add_up_on(
        &self,
        gpu: &'static Gpu,
        sources: &GradientSources<'_>,
        send: &DeviceMemory,
        receive: &DeviceMemory,
    ) -> Result<()> {
        let all = self.received_on_gpu(sources, send.address(), receive.address());
        let (mut sums, mut gradients) = (Vec::new(), Vec::new());
        for ReceivedOnGpu { item, elements, contributions, to } in &all {
            let gradient = Gradient {
                dtype: item.dtype,
                elements: *elements as u64,
                gradient_dtype: sources.gradient_dtype(item.dtype),
                contributions,
                accumulated: None,
                divisor: sources.divisor,
            };
            let (Sent::Sum, [first, others @ ..]) = (item.sent, contributions.as_slice()) else {
                gradients.push((gradient, *to));
                continue;
            };
            let sum = Some(first.gradient);
            let float64 =
                Gradient { dtype: DType::Float64, gradient_dtype: DType::Float64, ..gradient };
            let others = Gradient { contributions: others, accumulated: sum, ..float64 };
            sums.push((others, first.gradient));
            gradients.push((Gradient { contributions: &[], accumulated: sum, ..gradient }, *to));
        }
        // SAFETY: the receive and send memory belongs to this exchange alone, and the gradients do not overlap.
        on_gpu(gpu, |launcher| unsafe {
            launcher.accumulate(&sums)?;
            launcher.write_gradients(&gradients)
        })
    }

    /// The operands of each variable of which this rank's part has elements.
    fn received_on_gpu(
        &self,
        sources: &GradientSources<'_>,
        send: Address,
        receive: Address,
    ) -> Vec<ReceivedOnGpu<'_>> {
        let mut to = send;
        let mut all: Vec<ReceivedOnGpu<'_>> = Vec::with_capacity(self.items.len());
        for item in &self.items {
            let elements = item.sharding.of(self.rank).len();
            all.push(ReceivedOnGpu { item, elements, contributions: Vec::new(), to });
            to += padded(elements * item.dtype.size()) as Address;
        }
        let mut start = receive;
        for (from, count) in self.participation.ranks().iter().zip(self.counts(0).1) {
            let mut at = start;
            start += count as Address;
            for of_item in &mut all {
                for factor in of_item.item.factors(from, sources) {
                    of_item.contributions.push(GpuContribution { gradient: at, factor });
                    at += padded(of_item.elements * of_item.item.wire_size()) as Address;
                }
            }
        }
        all.retain(|of_item| of_item.elements > 0);
        all
    }

    /// Copies the gradients of all parts to the place where an update reads them.
    fn take_gradients(&self, gpu: &'static Gpu, gathered: &DeviceMemory) -> Result<()> {
        let mut at = gathered.address();
        let mut copies = Vec::new();
        for rank in 0..self.stretches.len() {
            for item in &self.items {
                let (range, size) = (item.sharding.of(rank), item.dtype.size());
                let from = at;
                at += padded(range.len() * size) as Address;
                let Some(to) = item.landing.as_ref().map(ReservedTensor::address) else { continue };
                if range.is_empty() {
                    continue;
                }
                let layout = Layout::row_major(Shape::new(&[range.len()])?);
                let place = |address| GpuPlace { address, dtype: item.dtype, layout };
                let to = to + (range.start * size) as Address;
                copies.push((place(from), place(to)));
            }
        }
        // SAFETY: the exchange has exclusive access to the gradients; the gathered memory is freed on the stream,
        // after the copies.
        on_gpu(gpu, |launcher| unsafe { launcher.copy(&copies) })
    }
}
