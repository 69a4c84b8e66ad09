//! How dense gradients are exchanged: which part each rank adds up, and which range is sent in
//! which round.
//!
//! The exchange runs in rounds, so that it takes little memory however large the variables are. Its
//! results overwrite the gradients of this process's first replica: each range is written after its
//! contents have been sent.

#![expect(
    unsafe_code,
    reason = "what landed is used as long as the gradients are claimed"
)]

use std::ops::Range;

use super::buffers::{AlignedBytes, WORD, padded};
use super::participation::{Participation, RankParticipation};
use super::wire_form::WireForm;
use crate::apply::sources::GradientSources;
use umbo_base::error::{Result, memory};
use umbo_kernels::dtype::DType;
use umbo_kernels::float::real;
use umbo_kernels::update::chunks::{ChunkSums, TILE};
use umbo_kernels::update::rules::SUMS;
use umbo_kernels::view::Span;
use umbo_strategy::ranks::Ranks;
use umbo_tensor::Tensor;
use umbo_tensor::values::sharding::{Loads, VariableSharding};

/// About how many bytes a rank sends, and receives, in one round.
pub(crate) const ROUND: usize = 16 << 20;

/// How dense gradients are sharded over the ranks.
pub(crate) struct Shards {
    pub(super) participation: Participation,
    pub(super) rank: usize,
    pub(crate) items: Vec<ShardedVariable>,
    /// The ranges of each rank's part, in order; a round has some of them.
    pub(super) shard_ranges: Vec<Vec<ShardRange>>,
    pub(super) rounds: usize,
    /// The sums of the tiles of this rank's part.
    pub(super) sums: Vec<ChunkSums<SUMS>>,
}

/// Elements of one variable that are exchanged in one round.
pub(super) struct ShardRange {
    round: usize,
    /// The index of the item.
    pub item: usize,
    /// The range of the variable's elements.
    pub range: Range<usize>,
    /// The first of its tiles among all of the rank's part.
    pub first_tile: usize,
}

/// One variable.
pub(crate) struct ShardedVariable {
    pub(super) index: usize,
    /// The element type of the gradient, and of new weights when they are exchanged.
    pub(super) dtype: DType,
    pub(super) sent: WireForm,
    /// The division of its elements over the ranks.
    pub(super) sharding: VariableSharding,
    pub(super) elements: usize,
    /// The destination of this rank's part of the gradient, or of the gradients of all parts.
    pub(super) receive_buffer: Option<Tensor>,
}

/// Elements received from a rank, from element `first` of a variable on, and their destination.
pub(crate) struct ReceivedShard<'a> {
    pub elements: Span<'a>,
    pub to: &'a Tensor,
    pub first: usize,
}

/// The ranges of each rank's part. Each round of one rank has at most `most` elements, which is
/// more than a tile. Ranges end at tile boundaries.
fn shard_ranges(items: &[ShardedVariable], ranks: usize, most: usize) -> Vec<Vec<ShardRange>> {
    let mut all: Vec<RankRanges> = Vec::new();
    all.resize_with(ranks, || RankRanges {
        left: most,
        ..RankRanges::default()
    });
    for (item, sharded) in items.iter().enumerate() {
        for (rank, part) in sharded.sharding.parts_with_elements() {
            all[rank].add(item, part, most);
        }
    }
    all.into_iter().map(|of_rank| of_rank.ranges).collect()
}

/// The ranges of a rank's part, while they are made.
#[derive(Default)]
struct RankRanges {
    ranges: Vec<ShardRange>,
    round: usize,
    /// How many more elements the round may have.
    left: usize,
    tiles: usize,
}

impl RankRanges {
    /// Adds the rank's part of an item.
    fn add(&mut self, item: usize, mut rest: Range<usize>, most: usize) {
        while !rest.is_empty() {
            if self.left < rest.len().min(TILE) {
                self.round += 1;
                self.left = most;
            }
            let count = if rest.len() <= self.left {
                rest.len()
            } else {
                self.left / TILE * TILE
            };
            let range = rest.start..rest.start + count;
            rest.start = range.end;
            self.left -= count;
            self.ranges.push(ShardRange {
                round: self.round,
                item,
                range,
                first_tile: self.tiles,
            });
            self.tiles += count.div_ceil(TILE);
        }
    }
}

impl Shards {
    /// The shards of those variables in `selected` that are not row-sparse. A rank sends and
    /// receives about `round` bytes in one round.
    pub fn new(
        ranks: &Ranks,
        participation: &Participation,
        sources: &GradientSources<'_>,
        selected: &[usize],
        round: usize,
    ) -> Shards {
        let rank = ranks.rank();
        let size = ranks.size();
        let variables = sources.variables();
        // Variables that each rank updates as a whole are summed in shards, too.
        let mut loads = Loads::new(size);
        let dense = selected
            .iter()
            .filter(|&&index| !sources.is_row_sparse(index));
        let items = dense.map(|&index| {
            let of_variable = variables[index].dtype();
            let dtype = real::computing(of_variable);
            let elements = variables[index].shape().elements();
            let sharding = variables[index].sharding().cloned();
            let sharding = sharding.unwrap_or_else(|| loads.divide(rank, elements, dtype.size()));
            let sent = WireForm::of_dense(ranks, sources, sources.gradient_dtype(of_variable));
            ShardedVariable {
                index,
                dtype,
                sent,
                sharding,
                elements,
                receive_buffer: None,
            }
        });
        let items: Vec<ShardedVariable> = items.collect();
        let bytes = |item: &ShardedVariable| {
            let sent = participation
                .distinct()
                .map(|from| item.sent_by(from) * item.wire_size());
            size * sent.max().unwrap_or(0).max(item.dtype.size())
        };
        let most = round / items.iter().map(bytes).max().unwrap_or(1) / TILE;
        let most = most.max(1) * TILE;
        let shard_ranges = shard_ranges(&items, size, most);
        let last = shard_ranges.iter().filter_map(|of_rank| of_rank.last());
        Shards {
            participation: participation.clone(),
            rank,
            rounds: last.map(|last| last.round + 1).max().unwrap_or(0),
            items,
            shard_ranges,
            sums: Vec::new(),
        }
    }

    /// The ranges of rank `rank`'s part in round `round`.
    pub(super) fn of(&self, rank: usize, round: usize) -> &[ShardRange] {
        let all = &self.shard_ranges[rank];
        let start = all.partition_point(|shard_range| shard_range.round < round);
        &all[start..all.partition_point(|shard_range| shard_range.round <= round)]
    }

    /// How many bytes rank `from` sends to rank `to` in a round.
    fn sent(&self, from: usize, to: usize, round: usize) -> usize {
        let from = &self.participation.ranks()[from];
        let bytes = |shard_range: &ShardRange| {
            let item = &self.items[shard_range.item];
            item.sent_by(from) * padded(shard_range.range.len() * item.wire_size())
        };
        self.of(to, round).iter().map(bytes).sum()
    }

    /// The number of bytes this rank sends to each, and receives from each, in a round.
    pub(super) fn counts(&self, round: usize) -> (Vec<usize>, Vec<usize>) {
        let ranks = 0..self.shard_ranges.len();
        let send = ranks
            .clone()
            .map(|to| self.sent(self.rank, to, round))
            .collect();
        (
            send,
            ranks
                .map(|from| self.sent(from, self.rank, round))
                .collect(),
        )
    }

    /// The number of bytes each rank sends to all in a round: its part, in a variable's elements,
    /// and 8 more.
    pub(super) fn gathered_counts(&self, round: usize) -> Vec<usize> {
        let bytes = |shard_range: &ShardRange| {
            padded(shard_range.range.len() * self.items[shard_range.item].dtype.size())
        };
        let ranks = 0..self.shard_ranges.len();
        ranks
            .map(|rank| self.of(rank, round).iter().map(bytes).sum::<usize>() + WORD)
            .collect()
    }

    /// The contributions of others that this rank receives in a round: for each range of its part
    /// the contributions of all ranks, in rank order, and their factors. `next` makes the place
    /// of the next elements.
    pub(super) fn received<P>(
        &self,
        round: usize,
        sources: &GradientSources<'_>,
        mut next: impl FnMut(DType, usize) -> P,
    ) -> Vec<Vec<(P, f64)>> {
        let own_ranges = self.of(self.rank, round);
        let mut all: Vec<Vec<(P, f64)>> = Vec::new();
        all.resize_with(own_ranges.len(), Vec::new);
        for from in self.participation.ranks() {
            for (shard_range, places) in own_ranges.iter().zip(&mut all) {
                let item = &self.items[shard_range.item];
                for factor in item.factors(from, sources) {
                    places.push((next(item.sent.dtype(), shard_range.range.len()), factor));
                }
            }
        }
        all
    }

    /// The ranges that all ranks gather in a round: each range, and which rank has sent it. `next`
    /// makes the place of the next elements.
    pub(super) fn gathered<P>(
        &self,
        round: usize,
        mut next: impl FnMut(DType, usize) -> P,
    ) -> Vec<(usize, &ShardRange, P)> {
        let mut all = Vec::new();
        for rank in 0..self.shard_ranges.len() {
            for range in self.of(rank, round) {
                all.push((
                    rank,
                    range,
                    next(self.items[range.item].dtype, range.range.len()),
                ));
            }
            next(DType::UInt64, 1);
        }
        all
    }

    /// The number of bytes the sums of the tiles of each rank's part have.
    pub(super) fn sum_counts(&self) -> Vec<usize> {
        let tiles = |shard_range: &ShardRange| shard_range.range.len().div_ceil(TILE);
        let of_ranks = self.shard_ranges.iter();
        of_ranks
            .map(|ranges| ranges.iter().map(tiles).sum::<usize>() * SUMS * WORD)
            .collect()
    }

    /// Sets the destination of each variable's gradient to what `receive_buffer` returns.
    pub fn set_receive_buffers(
        &mut self,
        mut receive_buffer: impl FnMut(usize) -> Result<Tensor>,
    ) -> Result<()> {
        self.items.iter_mut().try_for_each(|item| {
            item.receive_buffer = Some(receive_buffer(item.index)?);
            Ok(())
        })
    }

    /// Reserves all memory for the exchange of gradients and of weights, which cannot fail for lack
    /// of memory afterwards.
    pub fn reserve(&mut self, send: &mut AlignedBytes, receive: &mut AlignedBytes) -> Result<()> {
        let sums = self.sum_counts();
        let mut sent = sums[self.rank];
        let mut received = sums.iter().sum();
        for round in 0..self.rounds {
            let (send, receive) = self.counts(round);
            let weights = self.gathered_counts(round);
            sent = send.iter().sum::<usize>().max(weights[self.rank]).max(sent);
            received = receive
                .iter()
                .sum::<usize>()
                .max(weights.iter().sum())
                .max(received);
        }
        send.resize(sent)?;
        receive.resize(received)?;
        let tiles = sums[self.rank] / (SUMS * WORD);
        memory::reserve(&mut self.sums, tiles, "sums of gradients' squares")?;
        self.sums.resize_with(tiles, Default::default);
        Ok(())
    }
}

impl ShardedVariable {
    /// The received gradient, in host memory, for as long as the overwritten gradients are claimed.
    pub fn gradient(&self) -> Option<Span<'static>> {
        // SAFETY: the apply that has claimed the gradients keeps them, and the received elements in
        // them.
        self.receive_buffer
            .as_ref()?
            .span()
            .ok()
            .map(|gradient| unsafe { gradient.held() })
    }

    pub(super) fn wire_size(&self) -> usize {
        self.sent.dtype().size()
    }

    /// How many contributions, or sums, rank `from` sends.
    fn sent_by(&self, from: &RankParticipation) -> usize {
        match self.sent {
            WireForm::Sum => usize::from(from.wrote(self.index)),
            WireForm::Contributions(_) => from.writers(self.index).count(),
        }
    }

    /// The factors of what rank `from` sends, in its order.
    pub(super) fn factors(
        &self,
        from: &RankParticipation,
        sources: &GradientSources<'_>,
    ) -> Vec<f64> {
        match self.sent {
            WireForm::Sum => from.wrote(self.index).then_some(1.0).into_iter().collect(),
            WireForm::Contributions(_) => from
                .writers(self.index)
                .map(|writer| sources.factor(writer.weight))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(sharding: VariableSharding, elements: usize) -> ShardedVariable {
        ShardedVariable {
            index: 0,
            dtype: DType::Float32,
            sent: WireForm::Sum,
            sharding,
            elements,
            receive_buffer: None,
        }
    }

    /// The ranges of a rank, of up to three variables of up to four tiles, in rounds of up to three
    /// tiles and a part of one: each element of its parts once, in order.
    #[test]
    fn rounds_have_every_element_once_at_all_small_widths() {
        let sizes: Vec<usize> = (0..4)
            .flat_map(|tiles| [0, 1, TILE - 1].map(|rest| tiles * TILE + rest))
            .collect();
        let mut lists: Vec<Vec<usize>> = Vec::new();
        for &one in &sizes {
            for &other in &sizes {
                lists.push(vec![one, other]);
                lists.extend([0, 1, TILE + 1].map(|last| vec![one, other, last]));
            }
        }
        let most = [TILE + 1, 2 * TILE - 1, 2 * TILE, 2 * TILE + 1, 3 * TILE];
        for (list, ranks) in lists
            .iter()
            .flat_map(|list| [1, 2, 3].map(|ranks| (list, ranks)))
        {
            let mut loads = Loads::new(ranks);
            let divide = |&elements: &usize| variable(loads.divide(0, elements, 4), elements);
            let items: Vec<ShardedVariable> = list.iter().map(divide).collect();
            for most in most {
                let ranges = shard_ranges(&items, ranks, most);
                for (rank, ranges) in ranges.iter().enumerate() {
                    check_rounds(&items, rank, ranges, most);
                }
            }
        }
    }

    fn check_rounds(items: &[ShardedVariable], rank: usize, ranges: &[ShardRange], most: usize) {
        let mut ends: Vec<usize> = items.iter().map(|it| it.sharding.of(rank).start).collect();
        let (mut round, mut in_round, mut tiles, mut item) = (0, 0, 0, 0);
        for range in ranges {
            assert!(range.round == round || range.round == round + 1);
            in_round = range.range.len() + if range.round == round { in_round } else { 0 };
            round = range.round;
            assert!(in_round <= most && range.item >= item && !range.range.is_empty());
            item = range.item;
            assert_eq!(range.range.start, ends[item]);
            assert!(range.range.start.is_multiple_of(TILE));
            ends[item] = range.range.end;
            assert_eq!(range.first_tile, tiles);
            tiles += range.range.len().div_ceil(TILE);
        }
        let expected = items.iter().map(|it| it.sharding.of(rank).end);
        assert!(ends.into_iter().eq(expected));
    }
}
