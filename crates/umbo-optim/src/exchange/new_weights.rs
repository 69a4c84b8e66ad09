//! New weights: each rank computes those of its part, and all ranks get those of all parts before
//! they agree on the update. So nothing has to be exchanged once variables change.
//!
//! Until then an update may have to be dropped, and there is no memory for a second state. So a
//! rank updates its part twice: first a trial, of which only the new weights are kept; and once all
//! have agreed, weights and state.

#![expect(
    unsafe_code,
    reason = "weights are read from and written to memory that ranks exchange"
)]

use std::sync::atomic::Ordering;

use super::buffers::{AlignedBytes, BLOCK, WORD, copy, take};
use super::shards::{ShardRange, Shards};
use crate::apply::host::with_pass;
use crate::apply::launcher::Launcher;
use crate::apply::update_context::UpdateContext;
use crate::apply::workspace::{ApplyWorkspace, ExchangeMemory, UpdateGroup};
use parking_lot::Mutex;
use umbo_base::error::Result;
use umbo_executor::pieces::Pieces;
use umbo_executor::workers;
use umbo_kernels::float::narrow::narrow;
use umbo_kernels::instruction_set::Instructions;
use umbo_kernels::update::chunks::Chunks;
use umbo_kernels::update::weighted_sum::Contribution;
use umbo_strategy::ranks::Collective;

/// Sent instead of a variable by a rank in whose part all gradients are finite.
const ALL_FINITE: u64 = u64::MAX;

impl Shards {
    /// Completes the scalars of the updates of `items` with what the rule must know about whole
    /// variables.
    pub fn measure(
        &self,
        collective: &mut Collective<'_>,
        items: &mut [UpdateGroup],
        context: UpdateContext<'_>,
        memory: &mut ExchangeMemory,
    ) -> Result<()> {
        let mut sums = self.sums.as_slice();
        for (part, item) in self.items.iter().zip(divided(items)) {
            let own_sums;
            (own_sums, sums) = sums.split_at(Chunks::tiles(part.sharding.own().len()).count());
            with_pass(context, item, &mut Vec::new(), false, |update, pass| {
                update
                    .scalars
                    .sums(&pass.with_tile_sums(own_sums.as_flattened()));
            });
        }
        let totals = self.total_sums(collective, memory)?;
        for (item, sums) in items.iter_mut().filter(|item| item.divided).zip(totals) {
            if let Some(update) = &mut item.update {
                update.scalars = context.rule.measured(update.scalars, sums);
            }
        }
        Ok(())
    }

    /// Computes the new weights of this rank's part, and exchanges those of all parts, and which
    /// gradients are not finite. The new weights of the other parts overwrite gradients that
    /// have been sent.
    pub fn exchange_weights(
        &self,
        collective: &mut Collective<'_>,
        work: &mut ApplyWorkspace,
        context: UpdateContext<'_>,
        launcher: Launcher,
    ) -> Result<()> {
        let ApplyWorkspace {
            items,
            contributions,
            exchange,
            ..
        } = work;
        let ExchangeMemory { send, receive, .. } = exchange;
        let items: Vec<&UpdateGroup> = divided(items).collect();
        let mut landed = Ok(());
        for round in 0..self.rounds {
            self.try_update(round, &items, context, contributions, send);
            let mut all = self.all_gather(collective, round, send, receive)?;
            all.retain(|(rank, ..)| *rank != self.rank);
            landed = landed.and(launcher.scatter(&self.receive_buffers(&all)));
            let mut end = 0;
            for count in self.gathered_counts(round) {
                end += count;
                let word = receive.bytes()[..end]
                    .last_chunk()
                    .copied()
                    .unwrap_or_default();
                let found = u64::from_ne_bytes(word);
                if found == ALL_FINITE {
                    continue;
                }
                if let Some(item) = items.iter().find(|item| item.index as u64 == found) {
                    item.not_finite.store(true, Ordering::Relaxed);
                }
            }
        }
        landed
    }

    /// Writes the new weights of this rank's part in a round to `send`, and then the first variable
    /// whose gradient is not finite.
    fn try_update(
        &self,
        round: usize,
        items: &[&UpdateGroup],
        context: UpdateContext<'_>,
        contributions: &[Mutex<Vec<Contribution<'static>>>],
        send: &mut AlignedBytes,
    ) {
        let own_ranges = self.of(self.rank, round);
        let slots = context.variables.list().of_rule();
        let mut to = send.bytes_mut();
        let mut places = Vec::new();
        let mut pieces = Pieces::default();
        for ShardRange { item, range, .. } in own_ranges {
            let dtype = self.items[*item].dtype;
            places.push(take(&mut to, dtype, range.len()));
            pieces.push(range.len(), BLOCK, (3 + slots) * dtype.size());
        }
        pieces.for_each_range(contributions.len(), &|range| {
            let contributions = &mut *contributions[range.worker()].lock();
            for (at, part) in range.parts() {
                let ShardRange { item, range, .. } = &own_ranges[at];
                with_pass(
                    context,
                    items[*item],
                    contributions,
                    false,
                    |update, pass| {
                        let pass = pass.trying(&places[at], range.start, &part);
                        context.rule.update(&update.scalars, &pass);
                    },
                );
            }
        });
        let found = items
            .iter()
            .find(|item| item.not_finite.load(Ordering::Relaxed));
        let found = found.map_or(ALL_FINITE, |item| item.index as u64);
        to[..WORD].copy_from_slice(&found.to_ne_bytes());
    }
}

/// Copies the new weights of the other ranks' parts, which lie beside this rank's part of the
/// gradient, to the variables.
pub(crate) fn put_weights(items: &[UpdateGroup], context: UpdateContext<'_>) {
    let mut others = Vec::new();
    let mut pieces = Pieces::default();
    for item in divided(items) {
        let (Some(update), Some(landed)) = (&item.update, item.gradient) else {
            continue;
        };
        let variable = &context.sources.variables()[item.index];
        let own_range = item.own(variable);
        for range in [0..own_range.start, own_range.end..landed.elements()] {
            pieces.push(range.len(), BLOCK, 2 * landed.dtype().size());
            others.push((variable, update, landed, range.start));
        }
    }
    pieces.for_each_range(workers::count(), &|range| {
        for (at, part) in range.parts() {
            let (variable, update, landed, first) = &others[at];
            let part = part.range();
            let range = first + part.start..first + part.end;
            let weights = context.operands(update).0;
            // SAFETY: the apply has claimed the variable, and the ranges have different parts of
            // it.
            unsafe {
                let landed = landed.part(&range);
                let to = weights.part(&range);
                match landed.dtype() == to.dtype() {
                    true => copy(landed, &to),
                    // Weights that are rounded already.
                    false => narrow(Instructions::chosen(), landed, &to, 0..range.len(), false),
                }
                let copies = variable.copies_to_write(update.buffer, update.copies);
                for copy in copies.iter().flatten() {
                    let chosen = Instructions::chosen();
                    let from = weights.reading();
                    narrow(chosen, from, copy, range.clone(), false);
                }
            }
        }
    });
}

/// The variables of an apply that are sharded over the ranks.
fn divided(items: &[UpdateGroup]) -> impl Iterator<Item = &UpdateGroup> {
    items.iter().filter(|item| item.divided)
}
