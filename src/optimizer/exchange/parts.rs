//! Dense gradients, of which each rank adds up its part.

#![expect(
    unsafe_code,
    reason = "gradients are read from and written to memory that ranks exchange"
)]

pub mod between_gpus;
mod on_gpu;

use std::array;
use std::ops::Range;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::announcement::{Announcement, OfRank};
use super::buffers::Words;
use super::divisions::divisions;
use super::next::Next;
use crate::error::{Result, memory};
use crate::executor::pieces::Pieces;
use crate::executor::workers;
use crate::kernels::dtype::DType;
use crate::kernels::instruction_set::Instructions;
use crate::kernels::layout::{Layout, Shape};
use crate::kernels::update::accumulate::accumulate;
use crate::kernels::update::measure::{ChunkSums, Chunks, OfTiles};
use crate::kernels::update::rules::SUMS;
use crate::kernels::update::weighted_sum::{Contribution, WeightedSum};
use crate::kernels::view::{Span, SpanMut, View, ViewMut};
use crate::optimizer::sources::Sources;
use crate::optimizer::workspace::Work;
use crate::strategy::ranks::{Meeting, Ranks};
use crate::values::division::Division;

/// Elements of one contribution, or of the sum of several, at multiples of so many bytes.
pub(super) const WORD: usize = size_of::<u64>();

/// Workers share the sums of gradients at multiples of so many elements.
const BLOCK: usize = 64;

/// How dense gradients are divided, which each rank adds up its part of.
pub(in crate::optimizer) struct Parts {
    announced: Arc<Announcement>,
    pub(super) rank: usize,
    pub(super) items: Vec<Item>,
    /// For each rank, in bytes.
    send_counts: Vec<usize>,
    receive_counts: Vec<usize>,
    /// Of the gradients of the ranks' parts.
    gradient_counts: Vec<usize>,
    /// Of the weights of the ranks' parts, with a word behind them.
    pub(super) weight_counts: Vec<usize>,
    /// Of the sums of their tiles.
    sum_counts: Vec<usize>,
    pub(super) pieces: Pieces,
    /// Of the tiles of this rank's part.
    pub(super) sums: Vec<ChunkSums<SUMS>>,
}

/// This rank's part of one variable, and where its sums are.
pub(super) struct Place {
    pub index: usize,
    /// Of the variable.
    pub dtype: DType,
    /// Which of its elements.
    pub range: Range<usize>,
    pub bytes: Range<usize>,
}

/// One variable.
pub(in crate::optimizer) struct Item {
    pub(super) index: usize,
    /// Of the variable, and of what replicas contribute to it.
    pub(super) dtype: DType,
    wire: DType,
    /// Whether a rank's contributions are sent as their sum.
    is_sum: bool,
    /// Which of its elements are in the part of each rank.
    pub(super) division: Division,
    pub(super) elements: usize,
    /// The gradients of all parts are kept, and not this rank's alone.
    is_kept_whole: bool,
}

impl Parts {
    /// Of the variables that are selected for an update, and that are not row-sparse. `divides` is whether
    /// each rank updates its part of them.
    pub fn new(
        ranks: &Ranks,
        announced: &Arc<Announcement>,
        sources: &Sources<'_>,
        work: &Work,
        divides: bool,
    ) -> Parts {
        let (rank, size) = (ranks.rank(), ranks.size());
        let variables = sources.variables();
        let mut is_selected = vec![false; variables.len()];
        work.items.iter().for_each(|item| is_selected[item.index] = true);
        let is_fixed = ranks.has_chosen_replicas();
        let most_replicas = ranks.replicas().iter().copied().max().unwrap_or(1);
        let divisions = divisions(ranks, sources, |index| is_selected[index]);
        let items = divisions.map(|(index, division)| {
            let variable = &variables[index];
            let (dtype, elements) = (variable.dtype(), variable.shape().elements());
            let wire = sources.gradient_dtype(dtype);
            let accumulates = sources.accumulation.runs > 0;
            let is_large = most_replicas * wire.size() > size_of::<f64>();
            let is_sum = !is_fixed && (accumulates || is_large);
            Item { index, dtype, wire, is_sum, division, elements, is_kept_whole: !divides }
        });
        let items: Vec<Item> = items.filter(|item| is_selected[item.index]).collect();
        let sent = |from: &OfRank, to: usize| items.iter().map(|item| item.bytes(from, to)).sum();
        let of_ranks = announced.ranks();
        let weights = |rank: usize| items.iter().map(|item| item.weight_bytes(rank)).sum::<usize>();
        let tiles = |rank: usize| items.iter().map(|item| item.tiles(rank)).sum::<usize>();
        Parts {
            announced: Arc::clone(announced),
            rank,
            gradient_counts: (0..size).map(weights).collect(),
            send_counts: (0..size).map(|to| sent(&of_ranks[rank], to)).collect(),
            receive_counts: of_ranks.iter().map(|from| sent(from, rank)).collect(),
            weight_counts: (0..size).map(|rank| weights(rank) + WORD).collect(),
            sum_counts: (0..size).map(|rank| tiles(rank) * SUMS * WORD).collect(),
            items,
            pieces: Pieces::default(),
            sums: Vec::new(),
        }
    }

    /// Has all the memory that the exchange takes, of gradients and then of weights, which from then on
    /// cannot fail for lack of it.
    pub fn reserve(
        &mut self,
        sources: &mut Sources<'_>,
        send: &mut Words,
        receive: &mut Words,
    ) -> Result<()> {
        let variables = sources.variables();
        for item in &self.items {
            let part = item.kept(self.rank);
            let elements = if item.is_kept_whole { item.elements } else { part.end };
            let variable = &variables[item.index];
            sources.accumulation.reserve_gradient(item.index, variable, elements)?;
        }
        let all = |counts: &[usize]| counts.iter().sum::<usize>();
        let own = self.weight_counts[self.rank].max(self.sum_counts[self.rank]);
        send.resize(all(&self.send_counts).max(own))?;
        let weights = all(&self.weight_counts).max(all(&self.sum_counts));
        receive.resize(all(&self.receive_counts).max(weights))?;
        let tiles = self.sum_counts[self.rank] / (SUMS * WORD);
        memory::room(&mut self.sums, tiles, "sums of gradients' squares")?;
        self.sums.resize_with(tiles, Default::default);
        Ok(())
    }

    /// Writes what this rank sends to `send`: for each rank, for each variable, its elements of each
    /// replica's contribution, or of their sum.
    pub fn pack(&self, sources: &Sources<'_>, send: &mut Words) {
        let mut to = send.bytes_mut();
        let mut contributions = Vec::new();
        for rank in 0..self.send_counts.len() {
            for item in &self.items {
                let range = &item.division.of(rank);
                sources.collect_own(item.index, &mut contributions);
                if item.is_sum {
                    let accumulated = sources.accumulated(item.index);
                    if accumulated.is_some() || !contributions.is_empty() {
                        let place = take(&mut to, range.len() * size_of::<f64>());
                        let accumulated = accumulated.map(|sum| bytes_of(sum, range));
                        let own = contributions.iter().map(|of: &Contribution<'static>| {
                            (bytes_of(of.gradient, range), of.gradient.dtype(), of.factor)
                        });
                        add_up(place, accumulated, own);
                    }
                    continue;
                }
                for contribution in &contributions {
                    let place = take(&mut to, range.len() * item.wire.size());
                    place.copy_from_slice(bytes_of(contribution.gradient, range));
                }
            }
        }
    }

    /// Exchanges the contributions, and adds up those to this rank's part, which [`Sources`] has from
    /// then on.
    pub fn exchange(
        &mut self,
        meeting: &mut Meeting<'_>,
        sources: &Sources<'_>,
        send: &mut Words,
        receive: &mut Words,
    ) -> Result<()> {
        let (sent, got) = (self.send_counts.iter().sum(), self.receive_counts.iter().sum());
        if self.is_empty() {
            return Ok(());
        }
        meeting.all_to_all(
            (&send.bytes()[..sent], &self.send_counts),
            (&mut receive.bytes_mut()[..got], &self.receive_counts),
        )?;
        self.add_up_own(sources, receive);
        Ok(())
    }

    /// Puts the gradients of all parts where [`Sources`] has them.
    pub fn gather_gradients(
        &self,
        meeting: &mut Meeting<'_>,
        sources: &Sources<'_>,
        send: &mut Words,
        receive: &mut Words,
    ) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let (own, all) = (self.weight_counts[self.rank], self.weight_counts.iter().sum());
        let mut to = &mut send.bytes_mut()[..own];
        for item in &self.items {
            let range = item.kept(self.rank);
            let place = take(&mut to, range.len() * item.dtype.size());
            if let Some(memory) = sources.accumulation.gradient(item.index) {
                place.copy_from_slice(bytes_of(memory.reading, &range));
            }
        }
        let place = &mut receive.bytes_mut()[..all];
        meeting.all_gather_into(&send.bytes()[..own], place, &self.weight_counts)?;
        let mut from = receive.bytes();
        for rank in 0..self.weight_counts.len() {
            for item in &self.items {
                let range = item.division.of(rank);
                let (came, rest) = from.split_at(item.weight_bytes(rank));
                from = rest;
                let Some(memory) = sources.accumulation.gradient(item.index) else { continue };
                if rank != self.rank {
                    let came = span(&came[..range.len() * item.dtype.size()], item.dtype);
                    // SAFETY: who has the accumulation, as `sources` has, is alone with the gradients,
                    // and reads none now.
                    unsafe { copy(came, &memory.writing.part(&range)) };
                }
            }
            from = &from[WORD..];
        }
        Ok(())
    }

    /// Whether no variable has an element.
    pub fn is_empty(&self) -> bool {
        self.items.iter().all(|item| item.elements == 0)
    }

    /// The sums over each whole variable, of what the ranks have measured of the tiles of their parts.
    pub fn total_sums(
        &mut self,
        meeting: &mut Meeting<'_>,
        send: &mut Words,
        receive: &mut Words,
    ) -> Result<Vec<[f64; SUMS]>> {
        let own = self.sum_counts[self.rank];
        let tiles = send.bytes_mut()[..own].chunks_exact_mut(SUMS * WORD);
        for (place, sums) in tiles.zip(&self.sums) {
            for (place, sum) in place.chunks_exact_mut(WORD).zip(sums) {
                place.copy_from_slice(&sum.load(Ordering::Relaxed).to_ne_bytes());
            }
        }
        let all: usize = self.sum_counts.iter().sum();
        let to = &mut receive.bytes_mut()[..all];
        meeting.all_gather_into(&send.bytes()[..own], to, &self.sum_counts)?;
        let mut totals: Vec<OfTiles<SUMS>> =
            self.items.iter().map(|item| OfTiles::new(item.elements)).collect();
        let mut tiles = receive.bytes()[..all].chunks_exact(SUMS * WORD);
        for rank in 0..self.sum_counts.len() {
            for (item, total) in self.items.iter().zip(&mut totals) {
                for tile in tiles.by_ref().take(item.tiles(rank)) {
                    let (words, _) = tile.as_chunks::<WORD>();
                    total.add(array::from_fn(|at| f64::from_ne_bytes(words[at])));
                }
            }
        }
        Ok(totals.into_iter().map(OfTiles::total).collect())
    }

    /// Where the contributions to each item are in what this rank receives, in rank order, and the factors
    /// of them.
    fn places(&self, sources: &Sources<'_>) -> Vec<Vec<(Range<usize>, f64)>> {
        let Parts { ref announced, rank, ref items, ref receive_counts, .. } = *self;
        let mut of_items: Vec<Vec<(Range<usize>, f64)>> = vec![Vec::new(); items.len()];
        let mut start = 0;
        for (from, count) in announced.ranks().iter().zip(receive_counts) {
            let mut at = start;
            start += count;
            for (item, places) in items.iter().zip(&mut of_items) {
                for factor in item.factors(from, sources) {
                    let bytes = item.division.of(rank).len() * item.wire_size();
                    places.push((at..at + bytes, factor));
                    at += padded(bytes);
                }
            }
        }
        of_items
    }

    /// Has the memory for [`Parts::accumulate`].
    pub(super) fn reserve_next(
        &self,
        sources: &mut Sources<'_>,
        send: &mut Words,
        receive: &mut Words,
        next: &mut Next,
    ) -> Result<()> {
        let variables = sources.variables();
        for item in &self.items {
            sources.accumulation.reserve_on_host(item.index, &variables[item.index])?;
        }
        send.resize(self.send_counts.iter().sum())?;
        receive.resize(self.receive_counts.iter().sum())?;
        next.places.clear();
        let mut at = 0;
        for Item { index, dtype, division, .. } in &self.items {
            let (index, dtype, range) = (*index, *dtype, division.of(self.rank));
            let bytes = range.len() * WORD;
            next.places.push(Place { index, dtype, range, bytes: at..at + bytes });
            at += bytes;
        }
        next.sums.resize(at)
    }

    /// Exchanges the contributions of one run, and makes in `next` the sums of this rank's part that are
    /// to be accumulated: those that are, and to them what all replicas have contributed, in their order.
    pub(super) fn accumulate(
        &self,
        meeting: &mut Meeting<'_>,
        sources: &Sources<'_>,
        (send, receive): (&Words, &mut Words),
        next: &mut Next,
    ) -> Result<()> {
        if self.gradient_counts.iter().sum::<usize>() == 0 {
            return Ok(());
        }
        meeting.all_to_all(
            (send.bytes(), &self.send_counts),
            (receive.bytes_mut(), &self.receive_counts),
        )?;
        let received = receive.bytes();
        let of_items = self.places(sources);
        for ((item, places), to) in self.items.iter().zip(&of_items).zip(&next.places) {
            let before = sources.accumulated(item.index).map(|sum| bytes_of(sum, &to.range));
            let contribution = |(place, factor): &(Range<usize>, f64)| {
                (&received[place.clone()], item.wire_dtype(), *factor)
            };
            let to = &mut next.sums.bytes_mut()[to.bytes.clone()];
            add_up(to, before, places.iter().map(contribution));
        }
        Ok(())
    }

    /// Adds up what all ranks have sent for this rank's part, in rank order, as gradients.
    fn add_up_own(&mut self, sources: &Sources<'_>, receive: &mut Words) {
        let mut of_items = self.places(sources);
        let Parts { rank, ref items, .. } = *self;
        let received = receive.bytes_mut();
        for (item, places) in items.iter().zip(&mut of_items) {
            if item.is_sum && places.len() > 1 {
                let first = places[0].0.clone();
                for (other, _) in places.drain(1..) {
                    let (sum, other) = received.split_at_mut(other.start);
                    add(&mut sum[first.clone()], &other[..first.len()]);
                }
            }
        }
        let received = &*received;
        let contributions: Vec<Vec<Contribution<'_>>> = items
            .iter()
            .zip(&of_items)
            .map(|(item, places)| {
                let of_place = |(place, factor): &(Range<usize>, f64)| Contribution {
                    gradient: span(&received[place.clone()], item.wire_dtype()),
                    factor: *factor,
                };
                places.iter().map(of_place).collect()
            })
            .collect();
        let mut first_sums = Vec::with_capacity(items.len());
        let mut first = 0;
        self.pieces.clear();
        for (item, places) in items.iter().zip(&of_items) {
            let elements = item.division.of(rank).len();
            let chunks = Chunks::tiles(elements);
            first_sums.push(first);
            first += chunks.count();
            let bytes = places.len() * item.wire_size() + item.dtype.size();
            self.pieces.push(elements, chunks.size, bytes);
        }
        let sums = &self.sums;
        self.pieces.for_each_share(workers::count(), &|share| {
            for (at, part) in share.parts() {
                let item = &items[at];
                let Some(memory) = sources.accumulation.gradient(item.index) else { continue };
                let (divisor, elements) = (sources.divisor, item.division.own().len());
                let sum = match (item.is_sum, contributions[at].first()) {
                    (true, sum) => WeightedSum::new(item.dtype, elements, &[], divisor)
                        .starting_from(sum.map(|sum| sum.gradient)),
                    (false, _) => {
                        let before = sources.accumulated(item.index);
                        let before = before.map(|sum| {
                            span(bytes_of(sum, &item.division.of(rank)), DType::Float64)
                        });
                        WeightedSum::new(item.dtype, elements, &contributions[at], divisor)
                            .starting_from(before)
                    }
                };
                let sums = &sums[first_sums[at]..];
                // SAFETY: the gradient is this apply's, and the shares have different parts of it.
                unsafe {
                    let part = (Chunks::tiles(elements), &part);
                    let own = memory.writing.part(&item.kept(rank));
                    sum.measure_squares(Instructions::chosen(), part, sums, Some(&own), false);
                }
            }
        });
    }
}

impl Item {
    /// The type that goes from rank to rank.
    fn wire_dtype(&self) -> DType {
        if self.is_sum { DType::Float64 } else { self.wire }
    }

    fn wire_size(&self) -> usize {
        self.wire_dtype().size()
    }

    /// Where rank `rank`'s part is in the gradient that is kept: its place in the variable, or all.
    fn kept(&self, rank: usize) -> Range<usize> {
        let part = self.division.of(rank);
        if self.is_kept_whole { part } else { 0..part.len() }
    }

    /// How many bytes the weights of rank `rank`'s part take.
    pub(super) fn weight_bytes(&self, rank: usize) -> usize {
        padded(self.division.of(rank).len() * self.dtype.size())
    }

    /// How many tiles the part of rank `rank` has.
    pub(super) fn tiles(&self, rank: usize) -> usize {
        Chunks::tiles(self.division.of(rank).len()).count()
    }

    /// How many bytes rank `from` sends for the part of rank `to`.
    fn bytes(&self, from: &OfRank, to: usize) -> usize {
        let contributions = match self.is_sum {
            true => usize::from(from.wrote(self.index)),
            false => from.writers(self.index).count(),
        };
        contributions * padded(self.division.of(to).len() * self.wire_size())
    }

    /// The factors of what rank `from` sends, in its order.
    fn factors(&self, from: &OfRank, sources: &Sources<'_>) -> Vec<f64> {
        match self.is_sum {
            true => from.wrote(self.index).then_some(1.0).into_iter().collect(),
            false => from.writers(self.index).map(|of| sources.factor(of.weight)).collect(),
        }
    }
}

pub(super) fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(WORD)
}

/// The next `bytes` bytes of `from`, which goes on behind them.
pub(super) fn take<'a>(from: &mut &'a mut [u8], bytes: usize) -> &'a mut [u8] {
    let (place, rest) = std::mem::take(from).split_at_mut(padded(bytes));
    *from = rest;
    &mut place[..bytes]
}

/// The bytes of some elements.
pub(super) fn bytes_of<'a>(span: Span<'a>, range: &Range<usize>) -> &'a [u8] {
    assert!(range.start <= range.end && range.end <= span.elements());
    let size = span.dtype().size();
    // SAFETY: the span has the range, and its elements are initialised memory without padding that
    // nobody writes as long as the span is used.
    unsafe { slice::from_raw_parts(span.data().add(range.start * size), range.len() * size) }
}

/// Copies all elements of a span to another one that is alike.
///
/// # Safety
/// Nobody else reads or writes `to` meanwhile, and the two have nothing in common.
pub(super) unsafe fn copy(from: Span<'_>, to: &SpanMut<'_>) {
    assert_eq!((from.dtype(), from.elements()), (to.dtype(), to.elements()));
    let from = bytes_of(from, &(0..from.elements()));
    // SAFETY: as many bytes are there, and the caller vouches for the rest.
    unsafe { to.data().copy_from_nonoverlapping(from.as_ptr(), from.len()) };
}

fn layout(bytes: &[u8], dtype: DType) -> Layout {
    assert!(bytes.as_ptr().addr().is_multiple_of(dtype.size()));
    let elements = bytes.len() / dtype.size();
    Layout::row_major(Shape::new(&[elements]).expect("as many bytes lie in memory"))
}

/// Bytes as elements.
pub(super) fn span(bytes: &[u8], dtype: DType) -> Span<'_> {
    // SAFETY: the bytes are borrowed as long as the result is, lie well, which is asserted, and any
    // bytes are numbers.
    let view = unsafe { View::new(bytes.as_ptr(), dtype, layout(bytes, dtype)) };
    view.span().expect("a row of elements is contiguous")
}

/// Bytes as elements that may be written.
pub(super) fn span_mut(bytes: &mut [u8], dtype: DType) -> SpanMut<'_> {
    // SAFETY: as in `span`, and nobody else has what is borrowed to be written.
    let view = unsafe { ViewMut::new(bytes.as_mut_ptr(), dtype, layout(bytes, dtype)) };
    view.into_span().expect("a row of elements is contiguous")
}

/// `to` becomes the sum, float64, of what was accumulated and of the contributions: bytes, their type and
/// the factor.
fn add_up<'a>(
    to: &mut [u8],
    accumulated: Option<&[u8]>,
    contributions: impl Iterator<Item = (&'a [u8], DType, f64)>,
) {
    if to.is_empty() {
        return;
    }
    if let Some(sum) = accumulated {
        to.copy_from_slice(sum);
    }
    let contribution =
        |(bytes, dtype, factor)| Contribution { gradient: span(bytes, dtype), factor };
    let own: Vec<Contribution<'_>> = contributions.map(contribution).collect();
    if own.is_empty() {
        return;
    }
    let elements = to.len() / WORD;
    let sum = span_mut(to, DType::Float64);
    let mut pieces = Pieces::default();
    pieces.push(elements, BLOCK, size_of::<f64>() * (own.len() + 1));
    pieces.for_each_share(workers::count(), &|share| {
        for (_, part) in share.parts() {
            // SAFETY: the shares have different parts of what this function alone may write.
            unsafe { accumulate(Instructions::chosen(), &sum, accumulated.is_none(), &own, part) };
        }
    });
}

/// Adds float64 numbers to others.
fn add(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.chunks_exact_mut(WORD).zip(from.chunks_exact(WORD)) {
        let number = |bytes: &[u8]| f64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        to.copy_from_slice(&(number(to) + number(from)).to_ne_bytes());
    }
}
