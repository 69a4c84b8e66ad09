//! Dense gradients, of which each rank adds up its part.
//!
//! What is exchanged goes in rounds, so that it takes little memory however large the variables are. What
//! comes of it lies where the gradients of this process's first replica lie: each range of these is written
//! when what it held has been sent.

#![expect(
    unsafe_code,
    reason = "gradients are read from and written to memory that ranks exchange"
)]

pub mod between_gpus;
mod on_gpu;

use std::array;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::buffers::{WORD, Words, bytes_of, copy, padded, span, span_mut, take};
use super::divisions::divisions;
use super::participation::{OfRank, Participation};
use super::sent::Sent;
use crate::error::{Result, memory};
use crate::executor::pieces::Pieces;
use crate::executor::workers;
use crate::kernels::dtype::DType;
use crate::kernels::instruction_set::Instructions;
use crate::kernels::update::accumulate::accumulate;
use crate::kernels::update::measure::{ChunkSums, Chunks, OfTiles, Squares, TILE};
use crate::kernels::update::rules::SUMS;
use crate::kernels::update::weighted_sum::{Contribution, WeightedSum};
use crate::kernels::view::{Span, SpanMut};
use crate::optimizer::launcher::Launcher;
use crate::optimizer::sources::Sources;
use crate::strategy::ranks::{Meeting, Ranks};
use crate::values::division::Division;

/// A rank sends, and receives, about as many bytes in one round.
pub(in crate::optimizer) const ROUND: usize = 16 << 20;

/// Workers share the sums of gradients at multiples of so many elements.
const BLOCK: usize = 64;

/// How dense gradients are divided, which each rank adds up its part of.
pub(in crate::optimizer) struct Shards {
    announced: Arc<Participation>,
    pub(super) rank: usize,
    pub(super) items: Vec<Item>,
    /// What is of each rank's part in which round.
    stretches: Vec<Vec<Stretch>>,
    pub(super) rounds: usize,
    pub(super) pieces: Pieces,
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
    first_tile: usize,
}

/// One variable.
pub(in crate::optimizer) struct Item {
    pub(super) index: usize,
    /// Of the variable.
    pub(super) dtype: DType,
    sent: Sent,
    /// Which of its elements are in the part of each rank.
    pub(super) division: Division,
    pub(super) elements: usize,
    /// Where this rank's part of the gradient goes, and of the other parts the gradients or the new weights.
    pub(super) landing: Option<SpanMut<'static>>,
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
            pieces: Pieces::default(),
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
    fn counts(&self, round: usize) -> (Vec<usize>, Vec<usize>) {
        let ranks = 0..self.stretches.len();
        let send = ranks.clone().map(|to| self.sent(self.rank, to, round)).collect();
        (send, ranks.map(|from| self.sent(from, self.rank, round)).collect())
    }

    /// How many bytes the elements of each rank's part have in a round, as many as a variable's elements
    /// have.
    fn shard_counts(&self, round: usize) -> Vec<usize> {
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
    fn sum_counts(&self) -> Vec<usize> {
        let tiles = |stretch: &Stretch| stretch.range.len().div_ceil(TILE);
        let of_ranks = self.stretches.iter();
        of_ranks.map(|of| of.iter().map(tiles).sum::<usize>() * SUMS * WORD).collect()
    }

    /// Has the gradient of each variable, and then its new weights, go where `landing` says.
    pub fn land(
        &mut self,
        mut landing: impl FnMut(usize) -> Result<Option<SpanMut<'static>>>,
    ) -> Result<()> {
        self.items.iter_mut().try_for_each(|item| {
            item.landing = landing(item.index)?;
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

    /// Writes what this rank sends in a round to `send`: for each rank, for each stretch, its elements of
    /// each replica's contribution, or of their sum.
    pub fn pack(&self, round: usize, sources: &Sources<'_>, send: &mut Words) {
        let mut to = send.bytes_mut();
        let mut contributions = Vec::new();
        for rank in 0..self.stretches.len() {
            for Stretch { item, range, .. } in self.of(rank, round) {
                let item = &self.items[*item];
                sources.collect_own(item.index, &mut contributions);
                let Sent::Contributions(dtype) = item.sent else {
                    let accumulated = sources.accumulated(item.index);
                    if accumulated.is_some() || !contributions.is_empty() {
                        let place = take(&mut to, range.len() * size_of::<f64>());
                        let own = contributions.iter().map(|of: &Contribution<'static>| {
                            let gradient = of.gradient.part(range);
                            Contribution { gradient, factor: of.factor }
                        });
                        let (place, own) =
                            (span_mut(place, DType::Float64), own.collect::<Vec<_>>());
                        // SAFETY: what is sent is this function's to write.
                        unsafe { add_up(&place, accumulated.map(|sum| sum.part(range)), &own) };
                    }
                    continue;
                };
                for contribution in &contributions {
                    let place = take(&mut to, range.len() * dtype.size());
                    place.copy_from_slice(bytes_of(contribution.gradient, range));
                }
            }
        }
    }

    /// Exchanges the contributions, and adds up those to this rank's part; the gradients of the others with
    /// `gathers`, too. A failure of this rank alone does not keep it from what the others wait for.
    pub fn exchange(
        &mut self,
        meeting: &mut Meeting<'_>,
        sources: &Sources<'_>,
        (send, receive): (&mut Words, &mut Words),
        gathers: bool,
    ) -> Result<()> {
        let launcher = sources.launcher()?;
        let mut packed = Ok(());
        for round in 0..self.rounds {
            packed =
                packed.and(self.all_to_all(meeting, sources, launcher, (send, receive), round)?);
            self.add_up(round, sources, receive);
            if gathers {
                let mut to = send.bytes_mut();
                for Stretch { item, range, .. } in self.of(self.rank, round) {
                    let item = &self.items[*item];
                    let place = take(&mut to, range.len() * item.dtype.size());
                    if let Some(landing) = &item.landing {
                        place.copy_from_slice(bytes_of(landing.reading(), range));
                    }
                }
                self.all_gather(meeting, round, send, receive)?;
            }
        }
        packed
    }

    /// Receives the contributions of all ranks to this one's part in a round. The inner result is that of
    /// what this rank sends.
    fn all_to_all(
        &self,
        meeting: &mut Meeting<'_>,
        sources: &Sources<'_>,
        launcher: &'static dyn Launcher,
        (send, receive): (&mut Words, &mut Words),
        round: usize,
    ) -> Result<Result<()>> {
        let packed = launcher.pack(self, round, sources, send);
        let (send_counts, receive_counts) = self.counts(round);
        let (sent, received) = (send_counts.iter().sum(), receive_counts.iter().sum());
        meeting.all_to_all(
            (&send.bytes()[..sent], &send_counts),
            (&mut receive.bytes_mut()[..received], &receive_counts),
        )?;
        Ok(packed)
    }

    /// Sends the elements of this rank's part that are in `send`, and a word, to all others, and puts those
    /// of their parts where they land.
    pub(super) fn all_gather(
        &mut self,
        meeting: &mut Meeting<'_>,
        round: usize,
        send: &Words,
        receive: &mut Words,
    ) -> Result<()> {
        let counts = self.weight_counts(round);
        let to = &mut receive.bytes_mut()[..counts.iter().sum()];
        meeting.all_gather_into(&send.bytes()[..counts[self.rank]], to, &counts)?;
        let mut came = Vec::new();
        let mut from = receive.bytes();
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.clear();
        for (rank, count) in counts.into_iter().enumerate() {
            let (of_rank, rest) = from.split_at(count);
            from = rest;
            let mut start = 0;
            for stretch in self.of(rank, round).iter().filter(|_| rank != self.rank) {
                let dtype = self.items[stretch.item].dtype;
                let bytes = stretch.range.len() * dtype.size();
                came.push((stretch, span(&of_rank[start..start + bytes], dtype)));
                start += padded(bytes);
                pieces.push(stretch.range.len(), BLOCK, 2 * dtype.size());
            }
        }
        pieces.for_each_share(workers::count(), &|share| {
            for (at, part) in share.parts() {
                let ((stretch, came), part) = (&came[at], part.range());
                let Some(landing) = &self.items[stretch.item].landing else { continue };
                let first = stretch.range.start;
                let to = first + part.start..first + part.end;
                // SAFETY: what is there was sent and is read no more, and the shares have different parts.
                unsafe { copy(came.part(&part), &landing.part(&to)) };
            }
        });
        self.pieces = pieces;
        Ok(())
    }

    /// The sums over each whole variable, of what the ranks have measured of the tiles of their parts.
    pub fn total_sums(
        &mut self,
        meeting: &mut Meeting<'_>,
        send: &mut Words,
        receive: &mut Words,
    ) -> Result<Vec<[f64; SUMS]>> {
        let counts = self.sum_counts();
        let own = counts[self.rank];
        let tiles = send.bytes_mut()[..own].chunks_exact_mut(SUMS * WORD);
        for (place, sums) in tiles.zip(&self.sums) {
            for (place, sum) in place.chunks_exact_mut(WORD).zip(sums) {
                place.copy_from_slice(&sum.load(Ordering::Relaxed).to_ne_bytes());
            }
        }
        let all: usize = counts.iter().sum();
        meeting.all_gather_into(&send.bytes()[..own], &mut receive.bytes_mut()[..all], &counts)?;
        let mut totals: Vec<OfTiles<SUMS>> =
            self.items.iter().map(|item| OfTiles::new(item.elements)).collect();
        let mut tiles = receive.bytes()[..all].chunks_exact(SUMS * WORD);
        for stretch in self.stretches.iter().flatten() {
            for tile in tiles.by_ref().take(stretch.range.len().div_ceil(TILE)) {
                let (words, _) = tile.as_chunks::<WORD>();
                totals[stretch.item].add(array::from_fn(|at| f64::from_ne_bytes(words[at])));
            }
        }
        Ok(totals.into_iter().map(OfTiles::total).collect())
    }

    /// What this rank has received in a round: of each stretch of its part the contributions, in rank order,
    /// and their factors.
    fn received<'r>(
        &self,
        round: usize,
        sources: &Sources<'_>,
        mut received: &'r mut [u8],
    ) -> Vec<Vec<(SpanMut<'r>, f64)>> {
        let own = self.of(self.rank, round);
        let mut all: Vec<Vec<(SpanMut<'r>, f64)>> = Vec::new();
        all.resize_with(own.len(), Vec::new);
        for from in self.announced.ranks() {
            for (stretch, places) in own.iter().zip(&mut all) {
                let item = &self.items[stretch.item];
                for factor in item.factors(from, sources) {
                    let place = take(&mut received, stretch.range.len() * item.wire_size());
                    places.push((span_mut(place, item.sent.dtype()), factor));
                }
            }
        }
        all
    }

    /// Has the memory for [`Shards::accumulate`].
    pub(super) fn reserve_next(
        &mut self,
        sources: &mut Sources<'_>,
        send: &mut Words,
        receive: &mut Words,
    ) -> Result<()> {
        for item in &self.items {
            sources.accumulation.reserve_shard(item.index, item.division.own().len())?;
        }
        self.reserve(send, receive)
    }

    /// Exchanges the contributions of one run, and makes the next sums of this rank's part: those that are
    /// accumulated, and to them what all replicas have contributed, in their order.
    pub(super) fn accumulate(
        &self,
        meeting: &mut Meeting<'_>,
        sources: &Sources<'_>,
        (send, receive): (&mut Words, &mut Words),
    ) -> Result<()> {
        let launcher = sources.launcher()?;
        let mut packed = Ok(());
        for round in 0..self.rounds {
            packed =
                packed.and(self.all_to_all(meeting, sources, launcher, (send, receive), round)?);
            let received = self.received(round, sources, receive.bytes_mut());
            for (stretch, received) in self.of(self.rank, round).iter().zip(&received) {
                let item = &self.items[stretch.item];
                let range = item.within(&stretch.range);
                let before = sources.accumulated(item.index).map(|sum| sum.part(&range));
                let Some(next) = sources.accumulation.next(item.index) else { continue };
                // SAFETY: who has the accumulation, as `sources` has, is alone with it.
                unsafe { add_up(&next.part(&range), before, &contributions(received)) };
            }
        }
        packed
    }

    /// The first variable of which a gradient made of the next sums is not finite.
    pub(super) fn not_finite(&self, sources: &Sources<'_>) -> Option<usize> {
        let is_not_finite = |item: &&Item| {
            let Some(next) = sources.accumulation.next(item.index) else { return false };
            let elements = next.elements();
            let chunks = Chunks::of(elements);
            let mut sums = Vec::new();
            sums.resize_with(chunks.count(), Default::default);
            let gradient = WeightedSum::new(item.dtype, elements, &[], sources.divisor)
                .starting_from(Some(next.reading()));
            let mut pieces = Pieces::default();
            pieces.push(elements, chunks.size, size_of::<f64>());
            pieces.for_each_share(1, &|share| {
                for (_, part) in share.parts() {
                    // SAFETY: nothing is kept, so nothing is written.
                    unsafe {
                        let instructions = Instructions::chosen();
                        gradient.measure_squares(instructions, (chunks, &part), &sums, None, false);
                    }
                }
            });
            !Squares::of_chunks(&sums).finite
        };
        self.items.iter().find(is_not_finite).map(|item| item.index)
    }

    /// Adds up what all ranks have sent for this rank's part in a round, in rank order, as gradients.
    fn add_up(&mut self, round: usize, sources: &Sources<'_>, receive: &mut Words) {
        let received = self.received(round, sources, receive.bytes_mut());
        let terms: Vec<Vec<Contribution<'_>>> =
            received.iter().map(|of| contributions(of)).collect();
        let mut pieces = std::mem::take(&mut self.pieces);
        let own = self.of(self.rank, round);
        pieces.clear();
        for (stretch, terms) in own.iter().zip(&terms) {
            let item = &self.items[stretch.item];
            let bytes = terms.len() * item.wire_size() + item.dtype.size();
            pieces.push(stretch.range.len(), TILE, bytes);
        }
        pieces.for_each_share(workers::count(), &|share| {
            for (at, part) in share.parts() {
                let (Stretch { item, range, first_tile, .. }, mut terms) =
                    (&own[at], terms[at].as_slice());
                let item = &self.items[*item];
                let Some(landing) = &item.landing else { continue };
                let (instructions, elements) = (Instructions::chosen(), range.len());
                let before = match item.sent {
                    Sent::Contributions(_) => {
                        let range = item.within(range);
                        sources.accumulated(item.index).map(|sum| sum.part(&range))
                    }
                    Sent::Sum => {
                        let others = terms.get(1..).unwrap_or_default();
                        terms = &[];
                        let first = received[at].first().map(|(first, _)| first);
                        if let (Some(first), false) = (first, others.is_empty()) {
                            // SAFETY: the shares have different parts of what was received, and the first sum
                            // is none of the others.
                            unsafe { accumulate(instructions, first, false, others, part.clone()) };
                        }
                        first.map(SpanMut::reading)
                    }
                };
                let sum = WeightedSum::new(item.dtype, elements, terms, sources.divisor);
                let sum = sum.starting_from(before);
                // SAFETY: what this part held was sent, and the shares have different parts of it.
                unsafe {
                    let (part, to) = ((Chunks::tiles(elements), &part), landing.part(range));
                    let sums = &self.sums[*first_tile..];
                    sum.measure_squares(instructions, part, sums, Some(&to), false);
                }
            }
        });
        self.pieces = pieces;
    }
}

/// What was received as contributions.
fn contributions<'a>(received: &'a [(SpanMut<'_>, f64)]) -> Vec<Contribution<'a>> {
    let contribution = |(gradient, factor): &'a (SpanMut<'_>, f64)| Contribution {
        gradient: gradient.reading(),
        factor: *factor,
    };
    received.iter().map(contribution).collect()
}

impl Item {
    /// Elements of the variable, counted from where this rank's part begins.
    fn within(&self, range: &Range<usize>) -> Range<usize> {
        let start = self.division.own().start;
        range.start - start..range.end - start
    }

    fn wire_size(&self) -> usize {
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
    fn factors(&self, from: &OfRank, sources: &Sources<'_>) -> Vec<f64> {
        match self.sent {
            Sent::Sum => from.wrote(self.index).then_some(1.0).into_iter().collect(),
            Sent::Contributions(_) => {
                from.writers(self.index).map(|of| sources.factor(of.weight)).collect()
            }
        }
    }
}

/// `to` becomes the sum, float64, of what was there `before` and of the contributions.
///
/// # Safety
/// Nobody else reads or writes `to` meanwhile, and the others have nothing in common with it.
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
    pieces.for_each_share(workers::count(), &|share| {
        for (_, part) in share.parts() {
            // SAFETY: the shares have different parts, and the caller vouches for the rest.
            unsafe { accumulate(Instructions::chosen(), to, before.is_none(), terms, part) };
        }
    });
}
