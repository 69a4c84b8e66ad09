//! Steps of whole matrices, of which each rank updates a part.
//!
//! The matrices are dealt out over the ranks. Each rank sends its part of what a step is made of to
//! the rank that has the matrix; that makes the step with the bits of one process, and sends each
//! rank its part. So each rank sends and receives its part of the variables twice.

#![expect(
    unsafe_code,
    reason = "steps are read from and written to memory that ranks exchange"
)]

use std::cmp::Reverse;

use super::buffers::{copy, padded, take};
use super::shards::Shards;
use crate::apply::matrix_steps::{MakeStep, rows_and_columns};
use crate::apply::sources::GradientSources;
use crate::apply::update_context::UpdateContext;
use crate::apply::workspace::ApplyWorkspace;
use crate::rules::MatrixRule;
use umbo_base::error::Result;
use umbo_comm::communicator::{Incoming, Outgoing};
use umbo_kernels::view::SpanMut;
use umbo_strategy::ranks::Collective;

/// How the matrices of an update are dealt out.
pub(super) struct DealtMatrices<'a> {
    shards: &'a Shards,
    /// The rank that makes the step of each item.
    makers: Vec<usize>,
}

impl Shards {
    /// Deals the matrices out: each rank gets about as many operations. All ranks have the same
    /// items, and so get the same result.
    pub(super) fn deal(&self, sources: &GradientSources<'_>) -> DealtMatrices<'_> {
        let costs: Vec<u128> = self
            .items
            .iter()
            .map(|item| {
                let (rows, columns) = rows_and_columns(&sources.variables()[item.index]);
                [rows, columns, rows.min(columns)]
                    .map(|count| count as u128)
                    .iter()
                    .product()
            })
            .collect();
        let mut order: Vec<usize> = (0..costs.len()).collect();
        order.sort_by_key(|&item| Reverse(costs[item]));
        let mut loads = vec![0; self.shard_ranges.len()];
        let mut makers = vec![0; costs.len()];
        for item in order {
            let least = (0..loads.len()).min_by_key(|&rank| loads[rank]);
            makers[item] = least.unwrap_or_default();
            loads[makers[item]] += costs[item];
        }
        DealtMatrices {
            shards: self,
            makers,
        }
    }
}

impl DealtMatrices<'_> {
    /// How many bytes the part of rank `rank` has of each item that rank `maker` makes.
    fn bytes(&self, rank: usize, maker: usize) -> usize {
        let items = self.shards.items.iter().zip(&self.makers);
        items
            .filter(|(_, made_by)| **made_by == maker)
            .map(|(item, _)| padded(item.sharding.of(rank).len() * item.dtype.size()))
            .sum()
    }

    /// The bytes that this rank has of the matrices that each rank makes, and those that each rank
    /// has of the matrices that this rank makes.
    fn counts(&self) -> [Vec<usize>; 2] {
        let this_rank = self.shards.rank;
        let ranks = 0..self.shards.shard_ranges.len();
        [
            ranks
                .clone()
                .map(|maker| self.bytes(this_rank, maker))
                .collect(),
            ranks.map(|rank| self.bytes(rank, this_rank)).collect(),
        ]
    }

    /// Reserves memory for the messages.
    pub(super) fn reserve(&self, work: &mut ApplyWorkspace) -> Result<()> {
        let exchange = &mut work.exchange;
        let most = self.counts().map(|counts| counts.iter().sum::<usize>());
        let most = most[0].max(most[1]);
        for memory in [&mut exchange.send, &mut exchange.receive] {
            memory.resize(most.max(memory.bytes().len()))?;
        }
        Ok(())
    }

    /// Makes the steps: of this rank's parts, whose memory has what they are made of.
    pub(super) fn make(
        &self,
        collective: &mut Collective<'_>,
        work: &mut ApplyWorkspace,
        context: UpdateContext<'_>,
        matrices: &MatrixRule,
    ) -> Result<()> {
        work.look_ahead(context, matrices, |item| item.divided);
        let [parts, made] = self.counts();
        self.pack_parts(work);
        self.send(collective, work, &parts, &made)?;
        self.make_own(work, context, matrices, &made);
        self.send(collective, work, &made, &parts)?;
        self.take_parts(work);
        Ok(())
    }

    fn send(
        &self,
        collective: &mut Collective<'_>,
        work: &mut ApplyWorkspace,
        sent: &[usize],
        received: &[usize],
    ) -> Result<()> {
        let exchange = &mut work.exchange;
        let outgoing = Outgoing::Host(&exchange.send.bytes()[..sent.iter().sum()]);
        let incoming = &mut exchange.receive.bytes_mut()[..received.iter().sum()];
        collective.all_to_all(outgoing, sent, Incoming::Host(incoming), received)
    }

    /// Calls `visit` with the steps of this rank's parts, in the order of the ranks that make them,
    /// and the place of each in `message`.
    fn for_each_part(
        &self,
        work: &ApplyWorkspace,
        mut message: &mut [u8],
        visit: impl Fn(&SpanMut<'_>, &SpanMut<'_>),
    ) {
        let steps = work.items.iter().filter(|item| item.divided);
        let steps: Vec<_> = steps.map(|item| item.step.as_ref()).collect();
        for maker in 0..self.shards.shard_ranges.len() {
            for (step, made_by) in steps.iter().zip(&self.makers) {
                if let (Some(step), true) = (step, *made_by == maker) {
                    visit(step, &take(&mut message, step.dtype(), step.elements()));
                }
            }
        }
    }

    fn pack_parts(&self, work: &mut ApplyWorkspace) {
        let mut send = std::mem::take(&mut work.exchange.send);
        self.for_each_part(work, send.bytes_mut(), |step, place| {
            // SAFETY: the message is this function's, and nobody writes steps now.
            unsafe { copy(step.reading(), place) };
        });
        work.exchange.send = send;
    }

    fn take_parts(&self, work: &mut ApplyWorkspace) {
        let mut receive = std::mem::take(&mut work.exchange.receive);
        self.for_each_part(work, receive.bytes_mut(), |step, place| {
            // SAFETY: the steps belong to this apply, and nobody else uses one now.
            unsafe { copy(place.reading(), step) };
        });
        work.exchange.receive = receive;
    }

    /// Makes the steps of the matrices that this rank has got, of the received parts, and writes
    /// the parts of all ranks to `send`.
    fn make_own(
        &self,
        work: &mut ApplyWorkspace,
        context: UpdateContext<'_>,
        matrices: &MatrixRule,
        counts: &[usize],
    ) {
        let ApplyWorkspace {
            steps, exchange, ..
        } = work;
        let mut ends: Vec<usize> = Vec::with_capacity(counts.len());
        let mut end = 0;
        for count in counts {
            ends.push(end);
            end += count;
        }
        let items = self.shards.items.iter().zip(&self.makers);
        for (item, _) in items.filter(|(_, maker)| **maker == self.shards.rank) {
            let size = item.dtype.size();
            let bytes = item.elements * size;
            let parts = || {
                item.sharding
                    .parts()
                    .map(|part| part.start * size..part.end * size)
            };
            let whole = &mut steps.whole.bytes_mut()[..bytes];
            for (part, start) in parts().zip(&ends) {
                let received = &exchange.receive.bytes()[*start..][..part.len()];
                whole[part].copy_from_slice(received);
            }
            let variable = &context.sources.variables()[item.index];
            let step = SpanMut::of_bytes(whole, item.dtype);
            // SAFETY: the memory is this function's.
            unsafe { steps.iteration.make(matrices, variable, &step) };
            for (part, start) in parts().zip(&mut ends) {
                let whole = &steps.whole.bytes()[part.clone()];
                exchange.send.bytes_mut()[*start..][..part.len()].copy_from_slice(whole);
                *start += padded(part.len());
            }
        }
    }
}
