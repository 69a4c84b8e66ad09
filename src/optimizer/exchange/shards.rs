//! How dense gradients go from rank to rank: which part each rank adds up, and what is sent in which round.
//!
//! What is exchanged goes in rounds, so that it takes little memory however large the variables are. What
//! comes of it lies where the gradients of this process's first replica lie: each range of these is written
//! when what it held has been sent.

#![expect(unsafe_code, reason = "what landed is used as long as the gradients are claimed")]

use std::ops::Range;
use std::sync::Arc;

use super::buffers::{WORD, Words, padded};
use super::divisions::divisions;
use super::participation::{OfRank, Participation};
use super::sent::Sent;
use crate::error::{Result, memory};
use crate::kernels::dtype::DType;
use crate::kernels::update::chunks::{ChunkSums, TILE};
use crate::kernels::update::rules::SUMS;
use crate::kernels::view::Span;
use crate::optimizer::room::Room;
use crate::optimizer::sources::Sources;
use crate::strategy::ranks::Ranks;
use crate::tensor::Tensor;
use crate::values::division::Division;

/// A rank sends, and receives, about as many bytes in one round.
pub(in crate::optimizer) const ROUND: usize = 16 << 20;

/// How dense gradients are divided, which each rank adds up its part of.
pub(in crate::optimizer) struct Shards {
    pub(super) announced: Arc<Participation>,
    pub(super) rank: usize,
    pub(in crate::optimizer) items: Vec<Item>,
    /// What is of each rank's part in which round.
    pub(super) stretches: Vec<Vec<Stretch>>,
    pub(super) rounds: usize,
    /// Of the tiles of this rank's part.
    pub(super) sums: Vec<ChunkSums<SUMS>>,
}

/// Elements of one variable that are exchanged in one round.
pub(super) struct Stretch {
    round: usize,
    /// Which of the items.
    pub item: usize,
    /// Which of the variable's elements.
    pub range: Range<usize>,
    /// The first of its tiles among all of the rank's part.
    pub first_tile: usize,
}

/// One variable.
pub(in crate::optimizer) struct Item {
    pub(super) index: usize,
    /// Of the variable.
    pub(super) dtype: DType,
    pub(super) sent: Sent,
    /// Which of its elements are in the part of each rank.
    pub(super) division: Division,
    pub(super) elements: usize,
    /// Where this rank's part of the gradient goes, and of the other parts the gradients or the new weights.
    pub(super) landing: Option<Room>,
}

/// Elements that have come from a rank, from element `first` of a variable on, and where they go.
pub(in crate::optimizer) struct Received<'a> {
    pub elements: Span<'a>,
    pub to: &'a Room,
    pub first: usize,
}

/// In the rounds of one rank there are at most `most` elements, more than a tile. Cuts are at tiles.
fn stretches(items: &[Item], rank: usize, most: usize) -> Vec<Stretch> {
    let (mut all, mut round, mut left, mut first_tile) = (Vec::new(), 0, most, 0);
    for (item, of) in items.iter().enumerate() {
        let mut rest = of.division.of(rank);
        while !rest.is_empty() {
            if left < rest.len().min(TILE) {
                (round, left) = (round + 1, most);
            }
            let count = if rest.len() <= left { rest.len() } else { left / TILE * TILE };
            let range = rest.start..rest.start + count;
            (rest.start, left) = (range.end, left - count);
            all.push(Stretch { round, item, range, first_tile });
            first_tile += count.div_ceil(TILE);
        }
    }
    all
}

impl Shards {
    /// Of those of the variables `selected` that are not row-sparse. A rank sends and receives about as many
    /// bytes as `round` in one round.
    pub fn new(
        ranks: &Ranks,
        announced: &Arc<Participation>,
        sources: &Sources<'_>,
        selected: &[usize],
        round: usize,
    ) -> Shards {
        let (rank, size) = (ranks.rank(), ranks.size());
        let variables = sources.variables();
        let mut is_selected = vec![false; variables.len()];
        selected.iter().for_each(|&index| is_selected[index] = true);
        let is_row_sparse = |index| sources.is_row_sparse(index);
        let divisions = divisions(ranks, variables, is_row_sparse, |index| is_selected[index]);
        let items = divisions.map(|(index, division)| {
            let (dtype, elements) = (variables[index].dtype(), variables[index].shape().elements());
            let sent = Sent::of_dense(ranks, sources, sources.gradient_dtype(dtype));
            Item { index, dtype, sent, division, elements, landing: None }
        });
        let items: Vec<Item> = items.filter(|item| is_selected[item.index]).collect();
        let bytes = |item: &Item| {
            let sent = announced.ranks().iter().map(|from| item.sent_by(from) * item.wire_size());
            size * sent.max().unwrap_or(0).max(item.dtype.size())
        };
        let most = round / items.iter().map(bytes).max().unwrap_or(1) / TILE;
        let most = most.max(1) * TILE;
        let stretches: Vec<_> = (0..size).map(|rank| stretches(&items, rank, most)).collect();
        let last = stretches.iter().filter_map(|of_rank| of_rank.last());
        Shards {
            announced: Arc::clone(announced),
            rank,
            rounds: last.map(|last| last.round + 1).max().unwrap_or(0),
            items,
            stretches,
            sums: Vec::new(),
        }
    }

    /// What is of the part of rank `rank` in round `round`.
    pub(super) fn of(&self, rank: usize, round: usize) -> &[Stretch] {
        let all = &self.stretches[rank];
        let start = all.partition_point(|stretch| stretch.round < round);
        &all[start..all.partition_point(|stretch| stretch.round <= round)]
    }

    /// How many bytes rank `from` sends to rank `to` in a round.
    fn sent(&self, from: usize, to: usize, round: usize) -> usize {
        let from = &self.announced.ranks()[from];
        let bytes = |stretch: &Stretch| {
            let item = &self.items[stretch.item];
            item.sent_by(from) * padded(stretch.range.len() * item.wire_size())
        };
        self.of(to, round).iter().map(bytes).sum()
    }

    /// How many bytes this rank sends to each, and receives from each, in a round.
    pub(super) fn counts(&self, round: usize) -> (Vec<usize>, Vec<usize>) {
        let ranks = 0..self.stretches.len();
        let send = ranks.clone().map(|to| self.sent(self.rank, to, round)).collect();
        (send, ranks.map(|from| self.sent(from, self.rank, round)).collect())
    }

    /// How many bytes the elements of each rank's part have in a round, as many as a variable's elements
    /// have.
    pub(super) fn shard_counts(&self, round: usize) -> Vec<usize> {
        let bytes =
            |stretch: &Stretch| padded(stretch.range.len() * self.items[stretch.item].dtype.size());
        let ranks = 0..self.stretches.len();
        ranks.map(|rank| self.of(rank, round).iter().map(bytes).sum()).collect()
    }

    /// The same, with a word behind each rank's.
    pub(super) fn weight_counts(&self, round: usize) -> Vec<usize> {
        self.shard_counts(round).into_iter().map(|bytes| bytes + WORD).collect()
    }

    /// How many bytes the sums of the tiles of each rank's part have.
    pub(super) fn sum_counts(&self) -> Vec<usize> {
        let tiles = |stretch: &Stretch| stretch.range.len().div_ceil(TILE);
        let of_ranks = self.stretches.iter();
        of_ranks.map(|of| of.iter().map(tiles).sum::<usize>() * SUMS * WORD).collect()
    }

    /// Has the gradient of each variable, and then its new weights, go where `landing` says.
    pub fn land(&mut self, mut landing: impl FnMut(usize) -> Result<Tensor>) -> Result<()> {
        self.items.iter_mut().try_for_each(|item| {
            item.landing = Some(Room::of(landing(item.index)?)?);
            Ok(())
        })
    }

    /// Has all the memory that the exchange takes, of gradients and then of weights, which from then on
    /// cannot fail for lack of it.
    pub fn reserve(&mut self, send: &mut Words, receive: &mut Words) -> Result<()> {
        let sums = self.sum_counts();
        let (mut sent, mut received) = (sums[self.rank], sums.iter().sum());
        for round in 0..self.rounds {
            let ((send, receive), weights) = (self.counts(round), self.weight_counts(round));
            sent = send.iter().sum::<usize>().max(weights[self.rank]).max(sent);
            received = receive.iter().sum::<usize>().max(weights.iter().sum()).max(received);
        }
        send.resize(sent)?;
        receive.resize(received)?;
        let tiles = sums[self.rank] / (SUMS * WORD);
        memory::room(&mut self.sums, tiles, "sums of gradients' squares")?;
        self.sums.resize_with(tiles, Default::default);
        Ok(())
    }
}

impl Item {
    /// All of what landed, in host memory, for as long as the gradients that it landed at are claimed.
    pub fn gradient(&self) -> Option<Span<'static>> {
        // SAFETY: whoever has claimed the gradients keeps them, and what landed with them.
        self.landing.as_ref()?.reading().map(|gradient| unsafe { gradient.held() })
    }

    /// This rank's part of the gradient, or of the gradients of all parts, in host memory.
    pub(super) fn landing(&self, range: &Range<usize>) -> Option<Span<'_>> {
        Some(self.landing.as_ref()?.reading()?.part(range))
    }

    /// Elements of the variable, counted from where this rank's part begins.
    pub(super) fn within(&self, range: &Range<usize>) -> Range<usize> {
        let start = self.division.own().start;
        range.start - start..range.end - start
    }

    pub(super) fn wire_size(&self) -> usize {
        self.sent.dtype().size()
    }

    /// How many contributions, or sums, rank `from` sends.
    fn sent_by(&self, from: &OfRank) -> usize {
        match self.sent {
            Sent::Sum => usize::from(from.wrote(self.index)),
            Sent::Contributions(_) => from.writers(self.index).count(),
        }
    }

    /// The factors of what rank `from` sends, in its order.
    pub(super) fn factors(&self, from: &OfRank, sources: &Sources<'_>) -> Vec<f64> {
        match self.sent {
            Sent::Sum => from.wrote(self.index).then_some(1.0).into_iter().collect(),
            Sent::Contributions(_) => {
                from.writers(self.index).map(|of| sources.factor(of.weight)).collect()
            }
        }
    }
}
