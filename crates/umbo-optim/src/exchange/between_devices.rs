//! The exchange of gradients that stay on devices, by an engine that moves memory of devices. It
//! does with kernels, in one round, what [`Shards::exchange`] does in host memory, with the same
//! bits.

#![expect(unsafe_code, reason = "kernels get addresses")]

use super::buffers::padded;
use super::shards::{ShardRange, Shards};
use super::wire_form::WireForm;
use crate::apply::sources::GradientSources;
use umbo_base::error::Result;
use umbo_comm::communicator::{Incoming, Outgoing};
use umbo_device::backend::Backend;
use umbo_device::memory::DeviceMemory;
use umbo_kernels::dtype::DType;
use umbo_kernels::launch::{Address, DeviceContribution, DevicePlace, Gradient, on_device};
use umbo_kernels::layout::{Layout, Shape};
use umbo_strategy::ranks::Collective;

/// Memory of a device for one exchange.
pub struct Buffers {
    backend: &'static dyn Backend,
    /// First the contributions that this rank sends, then the gradients of its part.
    send: DeviceMemory,
    /// First the contributions that it receives, then the gradients of all parts.
    receive: DeviceMemory,
}

/// Places in a message on a device that begins at `at`, one after the other.
fn places(mut at: Address) -> impl FnMut(DType, usize) -> Address {
    move |dtype, elements| {
        let place = at;
        at += padded(elements * dtype.size()) as Address;
        place
    }
}

impl Shards {
    /// Reserves all memory for the exchange, and writes into it what this rank sends.
    pub fn make_ready_on(
        &self,
        backend: &'static dyn Backend,
        sources: &GradientSources<'_>,
    ) -> Result<Buffers> {
        let (send, receive) = self.counts(0);
        let gradients = self.gathered_counts(0);
        let own_bytes = gradients[self.rank];
        let send = DeviceMemory::new(backend, send.iter().sum::<usize>().max(own_bytes))?;
        let received: usize = receive.iter().sum();
        let gradients: usize = gradients.iter().sum();
        let receive = DeviceMemory::new(backend, received.max(gradients))?;
        // SAFETY: the memory is fresh. The bytes between the parts are sent, too.
        unsafe { backend.fill_zeros(send.address(), send.bytes()) }?;
        self.pack_with_kernels(backend, 0, sources, send.address())?;
        // All ranks learn of a failure at this point.
        backend.synchronize()?;
        Ok(Buffers {
            backend,
            send,
            receive,
        })
    }

    /// Exchanges the contributions, adds up those to this rank's part, and copies the gradients of
    /// all parts to their destination on the device.
    pub fn exchange_between_devices(
        &self,
        collective: &mut Collective<'_>,
        sources: &GradientSources<'_>,
        buffers: Buffers,
    ) -> Result<()> {
        let Buffers {
            backend,
            send,
            mut receive,
        } = buffers;
        if self.rounds == 0 {
            return Ok(());
        }
        let (send_counts, receive_counts) = self.counts(0);
        collective.all_to_all(
            Outgoing::Device(&send),
            &send_counts,
            Incoming::Device(&mut receive),
            &receive_counts,
        )?;
        let added = self.add_up_on(backend, sources, &send, &receive);
        // Also if that has failed: the other ranks wait for this rank here, and learn of the
        // failure at the commit point.
        let counts = self.gathered_counts(0);
        collective.all_gather_into(
            Outgoing::Device(&send),
            Incoming::Device(&mut receive),
            &counts,
        )?;
        added?;
        self.take_gradients(backend, &receive)
    }

    /// Adds up the contributions of all ranks to this rank's part, in rank order, as gradients.
    fn add_up_on(
        &self,
        backend: &'static dyn Backend,
        sources: &GradientSources<'_>,
        send: &DeviceMemory,
        receive: &DeviceMemory,
    ) -> Result<()> {
        let own_ranges = self.of(self.rank, 0);
        let mut place = places(send.address());
        let contribution = |(gradient, factor)| DeviceContribution { gradient, factor };
        let received = self
            .received(0, sources, places(receive.address()))
            .into_iter();
        let received: Vec<Vec<_>> = received
            .map(|contributions| contributions.into_iter().map(contribution).collect())
            .collect();
        let mut sums = Vec::new();
        let mut gradients = Vec::new();
        for (ShardRange { item, range, .. }, contributions) in own_ranges.iter().zip(&received) {
            let item = &self.items[*item];
            let to = place(item.dtype, range.len());
            let gradient = Gradient {
                dtype: item.dtype,
                elements: range.len() as u64,
                gradient_dtype: sources.gradient_dtype(item.dtype),
                contributions,
                accumulated: None,
                divisor: sources.divisor,
            };
            let (WireForm::Sum, [first, others @ ..]) = (item.sent, contributions.as_slice())
            else {
                gradients.push((gradient, to));
                continue;
            };
            let sum = Some(first.gradient);
            let float64 = Gradient {
                dtype: DType::Float64,
                gradient_dtype: DType::Float64,
                ..gradient
            };
            let others = Gradient {
                contributions: others,
                accumulated: sum,
                ..float64
            };
            sums.push((others, first.gradient));
            gradients.push((
                Gradient {
                    contributions: &[],
                    accumulated: sum,
                    ..gradient
                },
                to,
            ));
        }
        // SAFETY: the receive and send memory belongs to this exchange alone, and the gradients do
        // not overlap.
        on_device(backend, |launcher| unsafe {
            launcher.accumulate(&sums)?;
            launcher.write_gradients(&gradients)
        })
    }

    /// Copies the gradients of all parts to the place where an update reads them.
    fn take_gradients(&self, backend: &'static dyn Backend, gathered: &DeviceMemory) -> Result<()> {
        let mut copies = Vec::new();
        for (_, ShardRange { item, range, .. }, from) in
            self.gathered(0, places(gathered.address()))
        {
            let item = &self.items[*item];
            let Some(to) = item.receive_buffer.as_ref().map(|to| to.place().address) else {
                continue;
            };
            let layout = Layout::row_major(Shape::new(&[range.len()])?);
            let place = |address| DevicePlace {
                address,
                dtype: item.dtype,
                layout,
            };
            let to = to + (range.start * item.dtype.size()) as Address;
            copies.push((place(from), place(to)));
        }
        // SAFETY: the exchange has exclusive access to the gradients; the gathered memory is freed
        // on the stream, after the copies.
        on_device(backend, |launcher| unsafe { launcher.copy(&copies) })
    }
}
