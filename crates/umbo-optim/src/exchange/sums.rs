//! How a rank adds up its part of dense gradients from the contributions of all ranks.

#![expect(
    unsafe_code,
    reason = "gradients are read from and written to memory that ranks exchange"
)]

use std::array;
use std::sync::atomic::Ordering;

use super::buffers::{AlignedBytes, BLOCK, WORD, copy, padded, take};
use super::shards::{ReceivedShard, ShardRange, Shards};
use super::wire_form::WireForm;
use crate::apply::launcher::Launcher;
use crate::apply::sources::GradientSources;
use crate::apply::workspace::ExchangeMemory;
use umbo_base::error::Result;
use umbo_comm::communicator::{Incoming, Outgoing};
use umbo_executor::pieces::Pieces;
use umbo_executor::workers;
use umbo_kernels::dtype::DType;
use umbo_kernels::instruction_set::Instructions;
use umbo_kernels::update::accumulate::accumulate;
use umbo_kernels::update::chunks::{Chunks, OfTiles, TILE};
use umbo_kernels::update::rules::SUMS;
use umbo_kernels::update::weighted_sum::{Contribution, WeightedSum};
use umbo_kernels::view::{Span, SpanMut};
use umbo_strategy::ranks::Collective;

impl Shards {
    /// Writes what this rank sends in a round to `send`: for each rank and each of its ranges, the
    /// elements of each replica's contribution, or of their sum.
    pub fn pack(&self, round: usize, sources: &GradientSources<'_>, send: &mut AlignedBytes) {
        let mut to = send.bytes_mut();
        let mut contributions = Vec::new();
        for rank in 0..self.shard_ranges.len() {
            for ShardRange { item, range, .. } in self.of(rank, round) {
                let item = &self.items[*item];
                sources.collect_own(item.index, &mut contributions);
                let WireForm::Contributions(dtype) = item.sent else {
                    let accumulated = sources.accumulated(item.index);
                    if accumulated.is_some() || !contributions.is_empty() {
                        let place = take(&mut to, DType::Float64, range.len());
                        let own_parts =
                            contributions
                                .iter()
                                .map(|contribution: &Contribution<'static>| {
                                    let gradient = contribution.gradient.part(range);
                                    Contribution {
                                        gradient,
                                        factor: contribution.factor,
                                    }
                                });
                        let own_parts: Vec<_> = own_parts.collect();
                        // SAFETY: this function has exclusive access to the send memory.
                        unsafe {
                            add_up(&place, accumulated.map(|sum| sum.part(range)), &own_parts)
                        };
                    }
                    continue;
                };
                for contribution in &contributions {
                    let place = take(&mut to, dtype, range.len());
                    // SAFETY: this function has exclusive access to the send memory.
                    unsafe { copy(contribution.gradient.part(range), &place) };
                }
            }
        }
    }

    /// Exchanges the contributions, and adds up those to this rank's part; with `gathers`, also
    /// exchanges the gradients of all parts. If only this rank fails, it still takes part in
    /// the exchange, since the others wait for it.
    pub fn exchange(
        &self,
        collective: &mut Collective<'_>,
        sources: &GradientSources<'_>,
        launcher: Launcher,
        ExchangeMemory { send, receive, .. }: &mut ExchangeMemory,
        gathers: bool,
    ) -> Result<()> {
        let mut done = Ok(());
        for round in 0..self.rounds {
            done = done.and(launcher.pack(self, round, sources, send));
            let (send_counts, receive_counts) = self.counts(round);
            let sent = send_counts.iter().sum();
            let received = receive_counts.iter().sum();
            collective.all_to_all(
                Outgoing::Host(&send.bytes()[..sent]),
                &send_counts,
                Incoming::Host(&mut receive.bytes_mut()[..received]),
                &receive_counts,
            )?;
            let own_ranges = self.of(self.rank, round);
            let mut to = send.bytes_mut();
            let place = |ShardRange { item, range, .. }: &ShardRange| {
                let item = &self.items[*item];
                if gathers {
                    return Some(take(&mut to, item.dtype, range.len()));
                }
                // SAFETY: the old contents were sent, and the exchange has exclusive access to the
                // gradients.
                Some(unsafe {
                    item.receive_buffer
                        .as_ref()?
                        .assume_exclusive()
                        .into_span()
                        .ok()?
                        .part(range)
                })
            };
            let places: Vec<_> = own_ranges.iter().map(place).collect();
            self.add_up(round, sources, receive, &places);
            if gathers {
                let received = self.all_gather(collective, round, send, receive)?;
                done = done.and(launcher.scatter(&self.receive_buffers(&received)));
            }
        }
        done
    }

    /// Received elements, with their destinations.
    pub(super) fn receive_buffers<'a>(
        &'a self,
        received: &[(usize, &ShardRange, Span<'a>)],
    ) -> Vec<ReceivedShard<'a>> {
        let landed = |(_, ShardRange { item, range, .. }, elements): &(_, &ShardRange, _)| {
            let to = self.items[*item].receive_buffer.as_ref()?;
            Some(ReceivedShard {
                elements: *elements,
                to,
                first: range.start,
            })
        };
        received.iter().filter_map(landed).collect()
    }

    /// Sends the elements of this rank's part that are in `send`, and 8 more bytes, to all. Returns
    /// from which rank each range is, and its elements.
    pub(super) fn all_gather<'r>(
        &'r self,
        collective: &mut Collective<'_>,
        round: usize,
        send: &AlignedBytes,
        receive: &'r mut AlignedBytes,
    ) -> Result<Vec<(usize, &'r ShardRange, Span<'r>)>> {
        let counts = self.gathered_counts(round);
        let to = Incoming::Host(&mut receive.bytes_mut()[..counts.iter().sum()]);
        let outgoing = Outgoing::Host(&send.bytes()[..counts[self.rank]]);
        collective.all_gather_into(outgoing, to, &counts)?;
        let mut from = receive.bytes();
        Ok(self.gathered(round, |dtype, elements| {
            let bytes = elements * dtype.size();
            let (place, rest) = from.split_at(padded(bytes));
            from = rest;
            Span::of_bytes(&place[..bytes], dtype)
        }))
    }

    /// The sums over each whole variable, from the sums that the ranks measured over the tiles of
    /// their parts.
    pub fn total_sums(
        &self,
        collective: &mut Collective<'_>,
        ExchangeMemory { send, receive, .. }: &mut ExchangeMemory,
    ) -> Result<Vec<[f64; SUMS]>> {
        let counts = self.sum_counts();
        let own_bytes = counts[self.rank];
        let tiles = send.bytes_mut()[..own_bytes].chunks_exact_mut(SUMS * WORD);
        for (place, sums) in tiles.zip(&self.sums) {
            for (place, sum) in place.chunks_exact_mut(WORD).zip(sums) {
                place.copy_from_slice(&sum.load(Ordering::Relaxed).to_ne_bytes());
            }
        }
        let all: usize = counts.iter().sum();
        collective.all_gather_into(
            Outgoing::Host(&send.bytes()[..own_bytes]),
            Incoming::Host(&mut receive.bytes_mut()[..all]),
            &counts,
        )?;
        let mut totals: Vec<OfTiles<SUMS>> = self
            .items
            .iter()
            .map(|item| OfTiles::new(item.elements))
            .collect();
        let mut tiles = receive.bytes()[..all].chunks_exact(SUMS * WORD);
        for shard_range in self.shard_ranges.iter().flatten() {
            for tile in tiles.by_ref().take(shard_range.range.len().div_ceil(TILE)) {
                let (words, _) = tile.as_chunks::<WORD>();
                totals[shard_range.item].add(array::from_fn(|at| f64::from_ne_bytes(words[at])));
            }
        }
        Ok(totals.into_iter().map(OfTiles::total).collect())
    }

    /// Adds up what all ranks have sent for this rank's part in a round, in rank order, as
    /// gradients.
    fn add_up(
        &self,
        round: usize,
        sources: &GradientSources<'_>,
        receive: &mut AlignedBytes,
        places: &[Option<SpanMut<'_>>],
    ) {
        let mut from = receive.bytes_mut();
        let received = self.received(round, sources, |dtype, elements| {
            take(&mut from, dtype, elements)
        });
        let terms: Vec<Vec<Contribution<'_>>> = received
            .iter()
            .map(|contribution| contributions(contribution))
            .collect();
        let mut pieces = Pieces::default();
        let own_ranges = self.of(self.rank, round);
        for (shard_range, terms) in own_ranges.iter().zip(&terms) {
            let item = &self.items[shard_range.item];
            let bytes = terms.len() * item.wire_size() + item.dtype.size();
            pieces.push(shard_range.range.len(), TILE, bytes);
        }
        pieces.for_each_range(workers::count(), &|range| {
            for (at, part) in range.parts() {
                let ShardRange {
                    item,
                    range,
                    first_tile,
                    ..
                } = &own_ranges[at];
                let mut terms = terms[at].as_slice();
                let item = &self.items[*item];
                let Some(to) = &places[at] else { continue };
                let instructions = Instructions::chosen();
                let elements = range.len();
                let before = match item.sent {
                    WireForm::Contributions(_) => None,
                    WireForm::Sum => {
                        let others = terms.get(1..).unwrap_or_default();
                        terms = &[];
                        let first = received[at].first().map(|(first, _)| first);
                        if let (Some(first), false) = (first, others.is_empty()) {
                            // SAFETY: the ranges have different parts of the received memory, and
                            // the first sum does not overlap the
                            // others.
                            unsafe { accumulate(instructions, first, false, others, part.clone()) };
                        }
                        first.map(SpanMut::reading)
                    }
                };
                let sum = WeightedSum::new(item.dtype, elements, terms, sources.divisor);
                let sum = sum.starting_from(before);
                // SAFETY: this function has exclusive access to the destination, and the ranges
                // write different parts of it.
                unsafe {
                    let chunks = Chunks::tiles(elements);
                    let sums = &self.sums[*first_tile..];
                    sum.measure_squares(instructions, chunks, &part, sums, Some(to), false);
                }
            }
        });
    }
}

/// The received elements as contributions.
fn contributions<'a>(received: &'a [(SpanMut<'_>, f64)]) -> Vec<Contribution<'a>> {
    let contribution = |(gradient, factor): &'a (SpanMut<'_>, f64)| Contribution {
        gradient: gradient.reading(),
        factor: *factor,
    };
    received.iter().map(contribution).collect()
}

/// Writes to `to` the sum, in float64, of `before` and of the contributions.
///
/// # Safety
/// Nobody else reads or writes `to` during the call, and the operands do not overlap it.
unsafe fn add_up(to: &SpanMut<'_>, before: Option<Span<'_>>, terms: &[Contribution<'_>]) {
    if let Some(before) = before {
        // SAFETY: the caller's promise.
        unsafe { copy(before, to) };
    }
    if terms.is_empty() {
        return;
    }
    let mut pieces = Pieces::default();
    pieces.push(to.elements(), BLOCK, size_of::<f64>() * (terms.len() + 1));
    pieces.for_each_range(workers::count(), &|range| {
        for (_, part) in range.parts() {
            // SAFETY: the ranges have different parts, and the caller guarantees the rest.
            unsafe { accumulate(Instructions::chosen(), to, before.is_none(), terms, part) };
        }
    });
}
