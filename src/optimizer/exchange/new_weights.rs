//! New weights: each rank computes the weights of its part, and all ranks get the weights of all parts.
//!
//! A result that a rank computes before the ranks have agreed may have to be dropped. So it computes only weights:
//! it copies the state tile by tile, updates the copy and drops it. Once the ranks have agreed, the same update
//! runs again, with the state. So no second state is ever held, and all ranks got the bits of that update. The
//! weights of the other ranks' parts overwrite gradients that have been sent, and are copied to the variables once
//! the ranks have agreed.

#![expect(unsafe_code, reason = "weights are read from and written to memory that ranks exchange")]

use std::array;
use std::sync::atomic::Ordering;

use super::buffers::{AlignedBytes, TRIAL, TrialMemory, WORD, copy, span_mut, take};
use super::shards::{ShardRange, Shards};
use crate::error::Result;
use crate::executor::pieces::Pieces;
use crate::executor::workers;
use crate::kernels::float::narrow::narrow;
use crate::kernels::instruction_set::Instructions;
use crate::kernels::update::chunks::Chunks;
use crate::kernels::update::tiles::MOST_SLOTS;
use crate::kernels::update::weighted_sum::Contribution;
use crate::kernels::view::{Span, SpanMut};
use crate::optimizer::launcher::ApplyLauncher;
use crate::optimizer::means::Means;
use crate::optimizer::sources::GradientSources;
use crate::optimizer::variable_states::Variables;
use crate::optimizer::workspace;
use crate::strategy::ranks::Collective;

/// Workers share updates at multiples of so many elements.
const BLOCK: usize = 64;

/// A gradient that is already summed, as the only contribution.
fn alone(gradient: Span<'_>) -> [Contribution<'_>; 1] {
    [Contribution { gradient, factor: 1.0 }]
}

impl Shards {
    /// Completes the scalars of the updates of `items`, which are of this rank's parts, with what the rule must
    /// know about whole variables.
    pub(super) fn measure(
        &self,
        collective: &mut Collective<'_>,
        items: &mut [workspace::ApplyItem],
        means: Means<'_>,
        (send, receive): (&mut AlignedBytes, &mut AlignedBytes),
    ) -> Result<()> {
        let mut sums = self.sums.as_slice();
        for (part, item) in self.items.iter().zip(divided(items)) {
            let own;
            (own, sums) = sums.split_at(Chunks::tiles(part.sharding.own().len()).count());
            let range = part.sharding.own();
            let (Some(update), Some(gradient)) = (&item.update, part.landing(&range)) else {
                continue;
            };
            let (weights, slots) = means.operands(update);
            // SAFETY: nothing is written, and the apply has claimed the variable.
            unsafe {
                let weights = weights.part(&range);
                let gradient = alone(gradient);
                let pass = means.pass(update, &weights, slots, &gradient, range.start);
                update.scalars.sums(&pass.with_tile_sums(own.as_flattened()));
            }
        }
        let totals = self.total_sums(collective, send, receive)?;
        for (item, sums) in items.iter_mut().filter(|item| item.divided).zip(totals) {
            if let Some(update) = &mut item.update {
                update.scalars = means.rule.measured(update.scalars, sums);
            }
        }
        Ok(())
    }

    /// Computes the future weights of this rank's part, and exchanges those of all parts, and which gradients are
    /// not finite.
    pub(super) fn exchange_weights(
        &self,
        collective: &mut Collective<'_>,
        items: &[workspace::ApplyItem],
        means: Means<'_>,
        launcher: &'static dyn ApplyLauncher,
        (send, receive, scratch): (&mut AlignedBytes, &mut AlignedBytes, &TrialMemory),
    ) -> Result<()> {
        let mut landed = Ok(());
        for round in 0..self.rounds {
            self.try_update(round, items, means, send, scratch);
            let received = self.all_gather(collective, round, (send, receive), false)?;
            landed = landed.and(launcher.land(&received));
            let mut end = 0;
            for count in self.weight_counts(round) {
                end += count;
                let word = receive.bytes()[..end].last_chunk().copied().unwrap_or_default();
                let found = u64::from_ne_bytes(word);
                if let Some(item) = divided(items).find(|item| item.index as u64 == found) {
                    item.not_finite.store(true, Ordering::Relaxed);
                }
            }
        }
        landed
    }

    /// Writes the future weights of this rank's part in a round to `send`, followed by the first variable whose
    /// gradient is not finite.
    fn try_update(
        &self,
        round: usize,
        items: &[workspace::ApplyItem],
        means: Means<'_>,
        send: &mut AlignedBytes,
        scratch: &TrialMemory,
    ) {
        let mut pieces = Pieces::default();
        let (own, slots) = (self.of(self.rank, round), means.rule.slots().len());
        let items: Vec<&workspace::ApplyItem> = divided(items).collect();
        let mut to = send.bytes_mut();
        let mut places = Vec::with_capacity(own.len());
        for ShardRange { item, range, .. } in own {
            let dtype = self.items[*item].dtype;
            places.push(span_mut(take(&mut to, range.len() * dtype.size()), dtype));
            pieces.push(range.len(), BLOCK, (3 + slots) * dtype.size());
        }
        pieces.for_each_share(scratch.0.len(), &|share| {
            let copies = &mut *scratch.0[share.number()].lock();
            for (at, of_share) in share.parts() {
                let (stretch, place) = (&own[at], &places[at]);
                let (part, item) = (&self.items[stretch.item], items[stretch.item]);
                let Some(update) = &item.update else { continue };
                let of_share = of_share.range();
                for start in of_share.clone().step_by(TRIAL) {
                    let range = start..of_share.end.min(start + TRIAL);
                    // Positions in the variable, and in this rank's part of its state.
                    let first = stretch.range.start + start;
                    let of_variable = first..first + range.len();
                    let first_slot = first - part.sharding.own().start;
                    let of_slots = first_slot..first_slot + range.len();
                    let Some(gradient) = part.landing(&of_variable) else { continue };
                    let (whole, kept) = means.operands(update);
                    let mut rooms = copies.bytes_mut().chunks_exact_mut(TRIAL * WORD);
                    // SAFETY: the shares write different parts of the send memory, and have their own trial
                    // memory; weights and slots are only read, and the apply has claimed the variable.
                    unsafe {
                        let weights = place.part(&range);
                        copy(whole.reading().part(&of_variable), &weights);
                        let slots: [SpanMut<'_>; MOST_SLOTS] = array::from_fn(|slot| {
                            let room = rooms.next().unwrap_or_default();
                            let room =
                                span_mut(&mut room[..range.len() * part.dtype.size()], part.dtype);
                            if let Some(kept) = kept.get(slot) {
                                copy(kept.reading().part(&of_slots), &room);
                            }
                            room
                        });
                        let gradient = alone(gradient);
                        let slots = &slots[..kept.len()];
                        let pass = means.pass(update, &weights, slots, &gradient, first);
                        means.rule.update(&update.scalars, &pass.noting(&item.not_finite));
                    }
                }
            }
        });
        let found = items.iter().find(|item| item.not_finite.load(Ordering::Relaxed));
        let found = found.map_or(u64::MAX, |item| item.index as u64);
        take(&mut to, WORD).copy_from_slice(&found.to_ne_bytes());
    }

    /// Copies the weights of the other ranks' parts, which have been received, to the variables.
    pub fn put_weights(
        &self,
        items: &[workspace::ApplyItem],
        variables: &Variables,
        sources: &GradientSources<'_>,
    ) {
        let (mut others, mut pieces) =
            (Vec::with_capacity(2 * self.items.len()), Pieces::default());
        for (part, item) in self.items.iter().zip(divided(items)) {
            let Some(update) = &item.update else { continue };
            let own = part.sharding.own();
            for range in [0..own.start, own.end..part.elements] {
                pieces.push(range.len(), BLOCK, 2 * part.dtype.size());
                others.push((part, update, range));
            }
        }
        pieces.for_each_share(workers::count(), &|share| {
            for (at, of_share) in share.parts() {
                let (part, update, ref range) = others[at];
                let (of_share, variable) = (of_share.range(), &sources.variables()[part.index]);
                let range = range.start + of_share.start..range.start + of_share.end;
                let Some(landed) = part.landing(&range) else { continue };
                let weights = variables.weights(update.position, update.buffer);
                // SAFETY: the apply has claimed the variable, and the shares have different parts of it.
                unsafe {
                    copy(landed, &weights.part(&range));
                    let copies = variable.copies_to_write(update.buffer, update.copies);
                    for copy in copies.iter().flatten() {
                        let (chosen, from) = (Instructions::chosen(), weights.reading());
                        narrow(chosen, from, copy, range.clone(), false);
                    }
                }
            }
        });
    }
}

/// The variables of an apply that are sharded over the ranks.
fn divided(items: &[workspace::ApplyItem]) -> impl Iterator<Item = &workspace::ApplyItem> {
    items.iter().filter(|item| item.divided)
}
