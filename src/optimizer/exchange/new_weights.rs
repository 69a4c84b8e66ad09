//! New weights: each rank computes those of its part, and all get those of all parts.
//!
//! What a rank computes before the ranks have agreed may not be kept, so it computes weights alone: the
//! state is copied tile by tile, and what becomes of the copy is forgotten. Once the ranks have agreed, the
//! same update is done once more, with the state. So no second state is ever held, and what all ranks got
//! are the bits of that update.

#![expect(unsafe_code, reason = "weights are read from and written to memory that ranks exchange")]

use std::array;
use std::sync::atomic::Ordering;

use super::buffers::Words;
use super::parts::{Parts, WORD, copy, span, span_mut, take};
use crate::error::Result;
use crate::executor::pieces::Part;
use crate::executor::workers;
use crate::kernels::float::narrow::narrow;
use crate::kernels::instruction_set::Instructions;
use crate::kernels::update::pass::Pass;
use crate::kernels::update::tiles::MOST_SLOTS;
use crate::kernels::update::weighted_sum::{Clipping, Contribution};
use crate::kernels::view::{Span, SpanMut};
use crate::optimizer::rule::UpdateRule;
use crate::optimizer::sources::Sources;
use crate::optimizer::variable_states::Variables;
use crate::optimizer::workspace::{self, Update};
use crate::strategy::ranks::Meeting;
use parking_lot::Mutex;

/// Workers share updates at multiples of so many elements.
const BLOCK: usize = 64;

/// Of so many elements the state is copied at a time.
const TRIAL: usize = 1024;

/// Where state is copied to, for each share of the work.
#[derive(Default)]
pub(super) struct Scratch(Vec<Mutex<Words>>);

impl Scratch {
    /// Has the memory that trials take.
    pub fn reserve(&mut self) -> Result<()> {
        let shares = workers::count();
        self.0.resize_with(self.0.len().max(shares), Mutex::default);
        self.0.iter().try_for_each(|words| words.lock().resize(MOST_SLOTS * TRIAL * WORD))
    }
}

/// What updates of a rank's parts are made with.
#[derive(Clone, Copy)]
pub(in crate::optimizer) struct Means<'a> {
    pub variables: &'a Variables,
    pub sources: &'a Sources<'a>,
    pub rule: &'a dyn UpdateRule,
    pub clipping: Clipping,
}

impl<'a> Means<'a> {
    /// This rank's part of the gradient of variable `index`.
    fn gradient(&self, index: usize) -> Option<Span<'a>> {
        self.sources.accumulation.gradient(index).map(|memory| memory.reading)
    }

    /// Weights and slots of the variable that `update` is about: all of the former, the latter of this
    /// rank's part.
    fn operands(&self, update: &Update) -> (&'a SpanMut<'a>, &'a [SpanMut<'a>]) {
        let slots = self.rule.slots().len();
        self.variables.operands(update.position, update.buffer, slots)
    }

    /// A pass with what is the same for all passes of `update`.
    ///
    /// # Safety
    /// As for [`Pass::new`].
    unsafe fn pass<'p>(
        &self,
        update: &Update,
        weights: &'p SpanMut<'p>,
        slots: &'p [SpanMut<'p>],
        gradient: &'p [Contribution<'p>],
        first: usize,
    ) -> Pass<'p> {
        // SAFETY: the caller's promise is the same.
        let pass = unsafe { Pass::new(Instructions::chosen(), weights, slots, gradient, 1.0) };
        pass.clipped(self.clipping).with_l2(update.l2).from_element(first)
    }
}

/// A gradient that was added up as the only contribution.
fn alone(gradient: Span<'_>) -> [Contribution<'_>; 1] {
    [Contribution { gradient, factor: 1.0 }]
}

impl Parts {
    /// Completes the scalars of the updates of `items`, which are those of the parts, by what the rule
    /// must know about whole variables.
    pub(super) fn measure(
        &mut self,
        meeting: &mut Meeting<'_>,
        items: &mut [workspace::Item],
        means: Means<'_>,
        (send, receive): (&mut Words, &mut Words),
    ) -> Result<()> {
        let mut sums = self.sums.as_slice();
        for (part, item) in self.items.iter().zip(divided(items)) {
            let own;
            (own, sums) = sums.split_at(part.tiles(self.rank));
            let (Some(update), Some(gradient)) = (&item.update, means.gradient(part.index)) else {
                continue;
            };
            let range = part.division.own();
            let (weights, slots) = means.operands(update);
            // SAFETY: nothing is written, and the apply, which has claimed the variable, is alone with it.
            unsafe {
                let weights = weights.part(&range);
                let gradient = alone(gradient);
                let pass = means.pass(update, &weights, slots, &gradient, range.start);
                update.scalars.sums(&pass.telling_tiles(own.as_flattened()));
            }
        }
        let totals = self.total_sums(meeting, send, receive)?;
        for (item, sums) in items.iter_mut().filter(|item| item.divided).zip(totals) {
            if let Some(update) = &mut item.update {
                update.scalars = means.rule.measured(update.scalars, sums);
            }
        }
        Ok(())
    }

    /// Writes the weights of this rank's part, as they will be, to `send`, and behind them which variable
    /// is the first whose gradient is not finite.
    pub(super) fn try_update(
        &mut self,
        items: &[workspace::Item],
        means: Means<'_>,
        send: &mut Words,
        scratch: &Scratch,
    ) {
        let own = self.weight_counts[self.rank];
        let (weights, word) = send.bytes_mut()[..own].split_at_mut(own - WORD);
        let mut to = weights;
        let (rank, parts) = (self.rank, &self.items);
        let place = |item: &super::parts::Item| {
            let bytes = item.division.of(rank).len() * item.dtype.size();
            span_mut(take(&mut to, bytes), item.dtype)
        };
        let places: Vec<SpanMut<'_>> = parts.iter().map(place).collect();
        let items: Vec<&workspace::Item> = divided(items).collect();
        self.pieces.clear();
        let slots = means.rule.slots().len();
        for part in parts {
            let bytes = (3 + slots) * part.dtype.size();
            self.pieces.push(part.division.own().len(), BLOCK, bytes);
        }
        self.pieces.for_each_share(scratch.0.len(), &|share| {
            let copies = &mut *scratch.0[share.number()].lock();
            for (at, of_share) in share.parts() {
                let (part, item, place) = (&parts[at], items[at], &places[at]);
                let (Some(update), Some(gradient)) = (&item.update, means.gradient(part.index))
                else {
                    continue;
                };
                let of_share = of_share.range();
                for start in of_share.clone().step_by(TRIAL) {
                    let range = start..of_share.end.min(start + TRIAL);
                    let first = part.division.own().start + start;
                    let (whole, kept) = means.operands(update);
                    let mut rooms = copies.bytes_mut().chunks_exact_mut(TRIAL * WORD);
                    // SAFETY: the shares have different parts of what is sent, and rooms of their own;
                    // weights and slots are read, by the apply that has claimed the variable alone.
                    unsafe {
                        let weights = place.part(&range);
                        copy(whole.reading().part(&(first..first + range.len())), &weights);
                        let slots: [SpanMut<'_>; MOST_SLOTS] = array::from_fn(|slot| {
                            let room = rooms.next().unwrap_or_default();
                            let room =
                                span_mut(&mut room[..range.len() * part.dtype.size()], part.dtype);
                            if let Some(kept) = kept.get(slot) {
                                copy(kept.reading().part(&range), &room);
                            }
                            room
                        });
                        let gradient = alone(gradient.part(&range));
                        let slots = &slots[..kept.len()];
                        let pass = means.pass(update, &weights, slots, &gradient, first);
                        means.rule.update(&update.scalars, &pass.noting(&item.not_finite));
                    }
                }
            }
        });
        let found = items.iter().find(|item| item.not_finite.load(Ordering::Relaxed));
        let found = found.map_or(u64::MAX, |item| item.index as u64);
        word.copy_from_slice(&found.to_ne_bytes());
    }

    /// Has all ranks know the weights that each has computed, and of gradients that are not finite.
    pub(super) fn exchange_weights(
        &self,
        meeting: &mut Meeting<'_>,
        items: &[workspace::Item],
        send: &Words,
        receive: &mut Words,
    ) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let (own, all) = (self.weight_counts[self.rank], self.weight_counts.iter().sum());
        let to = &mut receive.bytes_mut()[..all];
        meeting.all_gather_into(&send.bytes()[..own], to, &self.weight_counts)?;
        let mut end = 0;
        for count in &self.weight_counts {
            end += count;
            let word = receive.bytes()[end - WORD..end].first_chunk().copied().unwrap_or_default();
            let found = u64::from_ne_bytes(word);
            if let Some(item) = divided(items).find(|item| item.index as u64 == found) {
                item.not_finite.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Updates elements `range` of this rank's part of the `at`-th variable, with its state.
    ///
    /// # Safety
    /// Nobody else reads or writes these elements, their state and their copies meanwhile.
    pub unsafe fn update_own(
        &self,
        at: usize,
        item: &workspace::Item,
        means: Means<'_>,
        of_share: Part,
        streaming: bool,
    ) {
        let part = &self.items[at];
        let (Some(update), Some(gradient)) = (&item.update, means.gradient(part.index)) else {
            return;
        };
        let own = part.division.own();
        let variable = &means.sources.variables()[part.index];
        let copies = variable.copies_to_write(update.buffer, update.copies);
        let (weights, slots) = means.operands(update);
        // SAFETY: the caller's promise; what is made here of parts is of this rank's, and the pass is over
        // those elements of it that are the caller's.
        unsafe {
            let weights = weights.part(&own);
            let copies = copies.map(|copy| copy.map(|copy| copy.part(&own)));
            let copies = copies.each_ref().map(Option::as_ref);
            let gradient = alone(gradient);
            let pass = means.pass(update, &weights, slots, &gradient, own.start);
            let pass = pass.with_copies(&copies, streaming).noting(&item.not_finite);
            means.rule.update(&update.scalars, &pass.over(&of_share));
        }
    }

    /// Puts the weights of the other ranks' parts, which were received, in their place.
    pub fn put_weights(
        &mut self,
        items: &[workspace::Item],
        variables: &Variables,
        sources: &Sources<'_>,
        receive: &Words,
    ) {
        let items: Vec<&workspace::Item> = divided(items).collect();
        let mut came = Vec::with_capacity(self.items.len() * self.weight_counts.len());
        let mut from = receive.bytes();
        self.pieces.clear();
        for rank in 0..self.weight_counts.len() {
            for item in &self.items {
                let (own, rest) = from.split_at(item.weight_bytes(rank));
                from = rest;
                let elements = if rank == self.rank { 0 } else { item.division.of(rank).len() };
                came.push(&own[..elements * item.dtype.size()]);
                self.pieces.push(elements, BLOCK, 2 * item.dtype.size());
            }
            from = &from[WORD..];
        }
        let parts = &self.items;
        self.pieces.for_each_share(workers::count(), &|share| {
            for (at, of_share) in share.parts() {
                let (rank, part) = (at / parts.len(), &parts[at % parts.len()]);
                let Some(update) = &items[at % parts.len()].update else { continue };
                let of_share = of_share.range();
                let first = part.division.of(rank).start + of_share.start;
                let range = first..first + of_share.len();
                let weights = variables.weights(update.position, update.buffer);
                let variable = &sources.variables()[part.index];
                // SAFETY: the apply has claimed the variable, and the shares have different parts of it.
                unsafe {
                    copy(span(came[at], part.dtype).part(&of_share), &weights.part(&range));
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

/// The variables of an apply that are divided among the ranks.
fn divided(items: &[workspace::Item]) -> impl Iterator<Item = &workspace::Item> {
    items.iter().filter(|item| item.divided)
}
