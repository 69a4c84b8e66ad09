//! The exchange of gradients that stay on GPUs, by an engine that moves memory of GPUs: what
//! [`Shards::exchange`] does with the host's, by kernels, in one round, with the same bits.

#![expect(unsafe_code, reason = "kernels are told of memory")]

use super::buffers::padded;
use super::sent::Sent;
use super::shards::{Item, Shards};
use crate::device::cuda::gpu::Gpu;
use crate::device::cuda::memory::DeviceMemory;
use crate::error::Result;
use crate::kernels::cuda::{Address, Contribution, Gradient, Place, on_gpu};
use crate::kernels::dtype::DType;
use crate::kernels::layout::{Layout, Shape};
use crate::optimizer::reserved_tensor::ReservedTensor;
use crate::optimizer::sources::Sources;
use crate::strategy::ranks::Collective;

/// Memory of a GPU for one exchange.
pub struct Buffers {
    gpu: &'static Gpu,
    /// What this rank sends, then the gradients of its part.
    send: DeviceMemory,
    /// What it receives, then the gradients of all parts.
    receive: DeviceMemory,
}

/// What the ranks have sent of one variable for this rank's part, in rank order.
struct Received<'a> {
    item: &'a Item,
    elements: usize,
    contributions: Vec<Contribution>,
    /// Where the gradient goes.
    to: Address,
}

impl Shards {
    /// Has all memory that the exchange takes, with what this rank sends in it.
    pub fn make_ready_on(&self, gpu: &'static Gpu, sources: &Sources<'_>) -> Result<Buffers> {
        let ((send, receive), gradients) = (self.counts(0), self.shard_counts(0));
        let own = gradients[self.rank];
        let send = DeviceMemory::new(gpu, send.iter().sum::<usize>().max(own))?;
        let (received, gradients): (usize, usize) = (receive.iter().sum(), gradients.iter().sum());
        let receive = DeviceMemory::new(gpu, received.max(gradients))?;
        // SAFETY: the memory is fresh. What lies between the parts is sent, too.
        unsafe { gpu.fill_zeros(send.address(), send.bytes()) }?;
        self.pack_with_kernels(gpu, 0, sources, send.address())?;
        // What fails now is told to all.
        gpu.synchronize()?;
        Ok(Buffers { gpu, send, receive })
    }

    /// Exchanges the contributions, adds up those to this rank's part, and puts the gradients of all
    /// parts where they land on the GPU.
    pub fn exchange_between_gpus(
        &self,
        collective: &mut Collective<'_>,
        sources: &Sources<'_>,
        buffers: Buffers,
    ) -> Result<()> {
        let Buffers { gpu, send, mut receive } = buffers;
        if self.rounds == 0 {
            return Ok(());
        }
        let (send_counts, receive_counts) = self.counts(0);
        collective.all_to_all_on_gpus((&send, &send_counts), (&mut receive, &receive_counts))?;
        let added = self.add_up_on(gpu, sources, &send, &receive);
        // Also if that has failed: the others wait for this rank here, and hear of it at the commit point.
        collective.all_gather_on_gpus(&send, &mut receive, &self.shard_counts(0))?;
        added?;
        self.take_gradients(gpu, &receive)
    }

    /// Adds up what all ranks have sent for this rank's part, in rank order, as gradients.
    fn add_up_on(
        &self,
        gpu: &'static Gpu,
        sources: &Sources<'_>,
        send: &DeviceMemory,
        receive: &DeviceMemory,
    ) -> Result<()> {
        let all = self.received_on_gpu(sources, send.address(), receive.address());
        let (mut sums, mut gradients) = (Vec::new(), Vec::new());
        for Received { item, elements, contributions, to } in &all {
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
        // SAFETY: what was received and what is sent is this exchange's, and nobody else is at it; the
        // gradients lie beside each other.
        on_gpu(gpu, |launcher| unsafe {
            launcher.accumulate(&sums)?;
            launcher.write_gradients(&gradients)
        })
    }

    /// What lies where, of variables of which this rank's part has elements.
    fn received_on_gpu(
        &self,
        sources: &Sources<'_>,
        send: Address,
        receive: Address,
    ) -> Vec<Received<'_>> {
        let mut to = send;
        let mut all: Vec<Received<'_>> = Vec::with_capacity(self.items.len());
        for item in &self.items {
            let elements = item.sharding.of(self.rank).len();
            all.push(Received { item, elements, contributions: Vec::new(), to });
            to += padded(elements * item.dtype.size()) as Address;
        }
        let mut start = receive;
        for (from, count) in self.participation.ranks().iter().zip(self.counts(0).1) {
            let mut at = start;
            start += count as Address;
            for of_item in &mut all {
                for factor in of_item.item.factors(from, sources) {
                    of_item.contributions.push(Contribution { gradient: at, factor });
                    at += padded(of_item.elements * of_item.item.wire_size()) as Address;
                }
            }
        }
        all.retain(|of_item| of_item.elements > 0);
        all
    }

    /// Copies the gradients of all parts to where an update reads them.
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
                let place = |address| Place { address, dtype: item.dtype, layout };
                let to = to + (range.start * size) as Address;
                copies.push((place(from), place(to)));
            }
        }
        // SAFETY: whoever exchanges is alone with the gradients; what was gathered
        // is freed when the stream has come past the copies.
        on_gpu(gpu, |launcher| unsafe { launcher.copy(&copies) })
    }
}
