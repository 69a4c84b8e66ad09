//! New weights: once all ranks have agreed on an update, each rank makes that of its part, and all ranks get the
//! weights of all parts.

#![expect(unsafe_code, reason = "weights are read from and written to memory that ranks exchange")]

use std::sync::atomic::Ordering;

use super::buffers::{BLOCK, WORD, bytes_of, copy, take};
use super::shards::{ShardRange, Shards};
use crate::error::Result;
use crate::executor::pieces::Pieces;
use crate::executor::workers;
use crate::kernels::float::narrow::narrow;
use crate::kernels::instruction_set::Instructions;
use crate::kernels::update::chunks::Chunks;
use crate::kernels::view::SpanMut;
use crate::optimizer::host::with_pass;
use crate::optimizer::means::Means;
use crate::optimizer::workspace::{ApplyItem, ExchangeMemory};
use crate::strategy::ranks::Collective;

impl Shards {
    /// Completes the scalars of the updates of `items` with what the rule must know about whole variables.
    pub fn measure(
        &self,
        collective: &mut Collective<'_>,
        items: &mut [ApplyItem],
        means: Means<'_>,
        memory: &mut ExchangeMemory,
    ) -> Result<()> {
        let mut sums = self.sums.as_slice();
        for (part, item) in self.items.iter().zip(divided(items)) {
            let own;
            (own, sums) = sums.split_at(Chunks::tiles(part.sharding.own().len()).count());
            with_pass(means, item, &mut Vec::new(), false, |update, pass| {
                update.scalars.sums(&pass.with_tile_sums(own.as_flattened()));
            });
        }
        let totals = self.total_sums(collective, memory)?;
        for (item, sums) in items.iter_mut().filter(|item| item.divided).zip(totals) {
            if let Some(update) = &mut item.update {
                update.scalars = means.rule.measured(update.scalars, sums);
            }
        }
        Ok(())
    }

    /// Exchanges the weights of all parts, and which gradients are not finite. This rank has updated its part.
    pub fn exchange_weights(
        &self,
        collective: &mut Collective<'_>,
        items: &[ApplyItem],
        means: Means<'_>,
        ExchangeMemory { send, receive, .. }: &mut ExchangeMemory,
    ) -> Result<()> {
        let items: Vec<&ApplyItem> = divided(items).collect();
        let weights = |item: usize| -> Option<&SpanMut<'_>> {
            Some(means.operands(items[item].update.as_ref()?).0)
        };
        for round in 0..self.rounds {
            let mut to = send.bytes_mut();
            for ShardRange { item, range, .. } in self.of(self.rank, round) {
                let place = take(&mut to, range.len() * self.items[*item].dtype.size());
                let Some(weights) = weights(*item) else { continue };
                place.copy_from_slice(bytes_of(weights.reading(), range));
            }
            let found = items.iter().find(|item| item.not_finite.load(Ordering::Relaxed));
            let found = found.map_or(u64::MAX, |item| item.index as u64);
            take(&mut to, WORD).copy_from_slice(&found.to_ne_bytes());
            let mut others = self.all_gather(collective, round, (send, receive))?;
            others.retain(|(rank, ..)| *rank != self.rank);
            let mut pieces = Pieces::default();
            for (_, _, elements) in &others {
                pieces.push(elements.elements(), BLOCK, 2 * elements.dtype().size());
            }
            pieces.for_each_share(workers::count(), &|share| {
                for (at, part) in share.parts() {
                    let ((_, ShardRange { item, range, .. }, elements), part) =
                        (&others[at], part.range());
                    let (Some(update), Some(weights)) = (&items[*item].update, weights(*item))
                    else {
                        continue;
                    };
                    let variable = &means.sources.variables()[items[*item].index];
                    let range = range.start + part.start..range.start + part.end;
                    // SAFETY: the apply has claimed the variable, and the shares have different parts of it.
                    unsafe {
                        copy(elements.part(&part), &weights.part(&range));
                        let copies = variable.copies_to_write(update.buffer, update.copies);
                        for copy in copies.iter().flatten() {
                            let (chosen, from) = (Instructions::chosen(), weights.reading());
                            narrow(chosen, from, copy, range.clone(), false);
                        }
                    }
                }
            });
            let mut end = 0;
            for count in self.weight_counts(round) {
                end += count;
                let word = receive.bytes()[..end].last_chunk().copied().unwrap_or_default();
                let found = u64::from_ne_bytes(word);
                if let Some(item) = items.iter().find(|item| item.index as u64 == found) {
                    item.not_finite.store(true, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }
}

/// The variables of an apply that are sharded over the ranks.
fn divided(items: &[ApplyItem]) -> impl Iterator<Item = &ApplyItem> {
    items.iter().filter(|item| item.divided)
}
