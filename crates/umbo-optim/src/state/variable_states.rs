//! All variables that an optimizer keeps something for, in arrays that an apply iterates over.

#![expect(
    unsafe_code,
    reason = "the tensors of slots are written under the optimizer's lock"
)]

use std::collections::HashMap;
use std::ops::Range;

use crate::rules::{Running, Slot, SlotExtent, UpdateRule, VariableProgress};
use crate::state::coded::{decode, encode};
use crate::state::slot_list::SlotList;
use crate::state::stored_state::{
    FreshSlots, LocalSlot, StoredState, allocate, kept_shape, own_part, part_of, span,
};
use umbo_base::error::{Error, Result};
use umbo_kernels::dtype::DType;
use umbo_kernels::float::real;
use umbo_kernels::update::eight_bit::{CodeMap, EightBitStates};
use umbo_kernels::view::SpanMut;
use umbo_tensor::slab::{self, CACHE_SHIFT, Slab};
use umbo_tensor::values::variable::Variable;
use umbo_tensor::{Shape, Tensor};

/// The variables that an optimizer keeps something for, in the order of their first update. No
/// variable is ever removed, so positions do not change. What an apply reads or writes of thousands
/// of small variables is in arrays of its own: it reads neither the variables nor their states.
#[derive(Default)]
pub(crate) struct Variables {
    /// The slots that each state has.
    list: SlotList,
    /// The rule's running scalars before the first update.
    initial_running: Running,
    /// One for each slot, for small variables.
    slabs: Vec<Slab>,
    /// By [`Variable::key`].
    positions: HashMap<usize, usize>,
    states: Vec<StoredState>,
    /// The number of times that each variable was updated; the slots are visible after the first
    /// update.
    pub(crate) updates: Vec<u64>,
    pub(crate) running: Vec<Running>,
    /// Whether an update was prepared and is neither committed nor dropped.
    pub(crate) claimed: Vec<bool>,
    /// Whether the variable was [plain](Variable::is_single_buffered) when `changes` was noted.
    plain: Vec<bool>,
    pub(crate) changes: u64,
    /// Grows when a state is made, or when it moves.
    pub(crate) revision: u64,
    /// The spans of all slots, in the variables' order: contiguous, since an apply to many small
    /// variables iterates over them.
    slots: Vec<SpanMut<'static>>,
}

impl Variables {
    /// No variables yet, of an optimizer with this rule.
    pub(crate) fn new(rule: &dyn UpdateRule) -> Variables {
        Variables {
            list: SlotList::of(rule, false, false),
            initial_running: rule.initial_running(),
            ..Variables::default()
        }
    }

    /// Makes these the slots that each state has. There is no state yet.
    pub(crate) fn set_list(&mut self, list: SlotList) {
        debug_assert!(self.states.is_empty());
        self.list = list;
    }

    /// Whether there is state of no variable.
    pub(crate) fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// The slots that each state has.
    pub(crate) fn list(&self) -> &SlotList {
        &self.list
    }

    /// The position of the state of `variable`, if there is any.
    pub(crate) fn position(&self, variable: &Variable) -> Option<usize> {
        self.positions.get(&variable.key()).copied()
    }

    /// How far the variable at `position` is.
    pub(crate) fn progress(&self, position: usize) -> VariableProgress {
        VariableProgress {
            updates: self.updates[position],
            running: self.running[position],
        }
    }

    /// Sets how far the variable at `position` is.
    pub(crate) fn set_progress(&mut self, position: usize, progress: VariableProgress) {
        (self.updates[position], self.running[position]) = (progress.updates, progress.running);
    }

    /// The prepared update of so many variables from `position` on is done; their running scalars
    /// are `running` now.
    pub(crate) fn end_update(&mut self, position: usize, count: usize, running: Running) {
        self.updates[position..position + count]
            .iter_mut()
            .for_each(|updates| *updates += 1);
        self.running[position..position + count].fill(running);
        self.set_claimed(position, count, false);
    }

    /// Whether the first buffer and the slots of the variable at `position` lie right behind those
    /// of the state before, which there is, and have as many elements.
    pub(crate) fn follows(&self, position: usize) -> bool {
        let [before, this] = &self.states[position - 1..=position] else {
            return false;
        };
        // SAFETY: only the addresses are used.
        let weights = unsafe { [before.variable.in_buffer(0), this.variable.in_buffer(0)] };
        let mut pairs = before
            .slots
            .iter()
            .zip(&this.slots)
            .chain([(weights[0], weights[1])]);
        !this.is_counted
            && !this.is_coded()
            && real::is_supported(this.variable.dtype())
            && [before.shard_range.len(), this.shard_range.len()] == [this.elements(); 2]
            && pairs.all(|(before, this)| slab::follows(before, this))
    }

    /// Notes which variables are plain, before [`Variables::are_alike`].
    pub(crate) fn refresh_layout(&mut self) {
        let changes = Variable::layout_epoch();
        if self.changes == changes && self.plain.len() == self.states.len() {
            return;
        }
        self.changes = changes;
        self.plain.clear();
        self.plain.extend(
            self.states
                .iter()
                .map(|state| state.variable.is_single_buffered()),
        );
    }

    /// Whether one update may be of all variables at these positions, each of which follows the one
    /// before.
    pub(crate) fn are_alike(&self, positions: Range<usize>) -> bool {
        // Loops without branches are compiled to operations on many elements at once.
        let [first, second] = self.running[positions.start];
        let is_first = |all, &[one, other]: &Running| all & (one == first) & (other == second);
        let count = self.updates[positions.start];
        let is_as_often = |all, updates: &u64| all & (*updates == count);
        self.plain[positions.clone()]
            .iter()
            .fold(true, |all, plain| all & plain)
            && !self.claimed[positions.clone()]
                .iter()
                .fold(false, |any, claimed| any | claimed)
            && self.updates[positions.clone()]
                .iter()
                .fold(true, is_as_often)
            && self.running[positions].iter().fold(true, is_first)
    }

    /// An update of so many variables from `position` on is prepared, or is done or dropped.
    pub(crate) fn set_claimed(&mut self, position: usize, count: usize, claimed: bool) {
        self.claimed[position..position + count].fill(claimed);
        // Those that follow another are not counted.
        let state = &self.states[position];
        if state.is_counted {
            state.variable.record_update_ahead(claimed);
        }
    }

    /// A slot of a variable that was updated.
    pub(crate) fn slot(&self, variable: &Variable, index: usize) -> Option<LocalSlot> {
        let position = self.position(variable)?;
        let state = &self.states[position];
        let exists = self.updates[position] > 0 && index < state.slots.len();
        exists.then(|| state.kept(index, &self.list))
    }

    /// The variables that were updated, in the order in which they were met, and what is kept for
    /// them.
    pub(crate) fn updated(
        &self,
    ) -> impl Iterator<Item = (&Variable, VariableProgress, Vec<LocalSlot>)> {
        let updated = self
            .states
            .iter()
            .enumerate()
            .filter(|(at, _)| self.updates[*at] > 0);
        updated.map(|(position, state)| {
            let slots = (0..state.slots.len())
                .map(|index| state.kept(index, &self.list))
                .collect();
            (&state.variable, self.progress(position), slots)
        })
    }

    /// The state at `position`, to be looked at.
    pub(crate) fn state(&self, position: usize) -> &StoredState {
        &self.states[position]
    }

    /// How far `variable` is, if it is known.
    pub(crate) fn progress_of(&self, variable: &Variable) -> Option<VariableProgress> {
        Some(self.progress(self.position(variable)?))
    }

    /// Resets every variable to before its first update: slots are not visible any more. No update
    /// is prepared.
    pub(crate) fn forget(&mut self) {
        self.updates.fill(0);
        self.running.fill(self.initial_running);
    }

    /// Sets the slots of variables without an update to their initial values.
    pub(crate) fn clear_unseen(&mut self) -> Result<()> {
        let unseen = self
            .states
            .iter()
            .zip(&self.updates)
            .filter(|(_, updates)| **updates == 0);
        for (state, _) in unseen {
            for (tensor, slot) in state.slots.iter().zip(&self.list) {
                // SAFETY: only applies read and write slots, and every caller that changes them
                // holds the optimizer's lock.
                unsafe { tensor.assume_exclusive() }.fill(slot.initial)?;
            }
            for scales in &state.scales {
                // SAFETY: as above.
                unsafe { scales.assume_exclusive() }.fill(0.0)?;
            }
        }
        Ok(())
    }

    /// Copies `kept`, contiguous elements, into slot `index` of the variable at `position`, which
    /// keeps as many. They are codes if they have `scales`. If the slot has codes and they do not,
    /// or the other way round, they are converted, in host memory and without allocating.
    pub(crate) fn put_slot(
        &mut self,
        position: usize,
        index: usize,
        kept: &Tensor,
        scales: Option<&Tensor>,
    ) -> Result<()> {
        let state = &self.states[position];
        let slot = &state.slots[index];
        match (state.scales.get(index), scales) {
            (None, None) => {}
            (Some(to), Some(scales)) => {
                // SAFETY: as in `clear_unseen`.
                unsafe { to.assume_exclusive() }.copy_from(scales)?;
            }
            (Some(to), None) => return encode(self.list.maps()[index], kept, slot, to),
            (None, Some(scales)) => return decode(self.list.maps()[index], kept, scales, slot),
        }
        // SAFETY: as in `clear_unseen`.
        unsafe { slot.assume_exclusive() }.copy_from(&kept.reshape(slot.shape())?)
    }

    /// The position of the state of `variable`, which is made if there is none: of this rank's
    /// part, if several ranks divide the variable. A new state is not visible before the first
    /// update.
    pub(crate) fn known(&mut self, variable: &Variable) -> Result<usize> {
        self.known_or(variable, own_part(variable))
    }

    /// The same, of this rank's part only: if all elements were kept, the other parts are dropped.
    pub(crate) fn known_by_parts(&mut self, variable: &Variable) -> Result<usize> {
        let position = self.known(variable)?;
        let own_range = own_part(variable);
        let state = &self.states[position];
        if state.shard_range != own_range {
            let dimensions = variable.shape().len();
            let part = |(slot, kept): (&Slot, &Tensor)| match slot.extent {
                extent if extent.is_elementwise(dimensions) => part_of(kept, &own_range),
                _ => Ok(kept.clone()),
            };
            let parts = self.list.iter().zip(&state.slots).map(part);
            let parts = parts.collect::<Result<Vec<_>>>()?;
            self.replace(position, own_range, &parts)?;
        }
        Ok(position)
    }

    /// Replaces the slots of the variable at `position` by copies of these, of which elementwise
    /// ones cover the elements in `shard_range`.
    pub(crate) fn replace(
        &mut self,
        position: usize,
        shard_range: Range<usize>,
        copies: &[Tensor],
    ) -> Result<()> {
        let variable = self.states[position].variable.clone();
        // Codes are updated by no rows, so they are always of this rank's part.
        debug_assert!(!self.states[position].is_coded());
        let mut slots = Vec::new();
        for (index, (slot, copies)) in self.list.iter().zip(copies).enumerate() {
            let fresh = allocate(
                &mut self.slabs[index],
                &variable,
                index,
                slot,
                (
                    real::computing(variable.dtype()),
                    kept_shape(slot, &variable, &shard_range)?,
                ),
            )?;
            // SAFETY: the tensor is new.
            unsafe { fresh.assume_exclusive() }.copy_from(&copies.reshape(fresh.shape())?)?;
            slots.push(fresh);
        }
        let spans = slots.iter().map(span).collect::<Result<Vec<_>>>()?;
        let first = position * spans.len();
        self.slots[first..]
            .iter_mut()
            .zip(spans)
            .for_each(|(copies, span)| *copies = span);
        self.revision += 1;
        let state = &mut self.states[position];
        (state.slots, state.shard_range) = (slots, shard_range);
        Ok(())
    }

    /// The position of the state of `variable`, which is made of the elements in `shard_range` if
    /// there is none. An existing state may cover others.
    pub(crate) fn known_or(
        &mut self,
        variable: &Variable,
        shard_range: Range<usize>,
    ) -> Result<usize> {
        if let Some(position) = self.position(variable) {
            return Ok(position);
        }
        variable.check_not_replaced()?;
        let fresh = self.fresh(variable, shard_range)?;
        let position = self.states.len();
        let (state, spans) = StoredState::new(variable, fresh, &self.list);
        self.slots.extend(spans);
        self.states.push(state);
        self.updates.push(0);
        self.running.push(self.initial_running);
        self.claimed.push(false);
        self.revision += 1;
        variable.advance_layout_epoch();
        self.positions.insert(variable.key(), position);
        Ok(position)
    }

    /// Slots for `variable`, with their initial values, of the elements in `shard_range`.
    pub(crate) fn fresh(
        &mut self,
        variable: &Variable,
        shard_range: Range<usize>,
    ) -> Result<FreshSlots> {
        let is_coded = self.list.codes(variable);
        if is_coded && !variable.device().is_host_memory() {
            return Err(Error::Unimplemented(format!(
                "state_bits: {variable:?} lies on a GPU; only states of variables in host memory \
                 are kept in 8 bits. Configure the optimizer with state_bits 0, or make another \
                 for the GPU's variables"
            )));
        }
        let mut tensors = Vec::with_capacity(self.list.len());
        let mut scales = Vec::new();
        for (index, slot) in self.list.iter().enumerate() {
            if self.slabs.len() == index {
                self.slabs.push(Slab::new(CACHE_SHIFT * (index + 1)));
            }
            let slab = &mut self.slabs[index];
            let shape = kept_shape(slot, variable, &shard_range)?;
            if is_coded && index < self.list.of_rule() {
                let codes = (DType::UInt8, shape);
                tensors.push(allocate(slab, variable, index, slot, codes)?);
                let blocks = Shape::new(&[CodeMap::scales(shape.elements())])?;
                let of_blocks = (DType::Float32, blocks);
                scales.push(allocate(slab, variable, index, slot, of_blocks)?);
                continue;
            }
            let in_full = (real::computing(variable.dtype()), shape);
            tensors.push(allocate(slab, variable, index, slot, in_full)?);
        }
        let on_host = tensors.iter().filter(|slot| slot.device().is_host_memory());
        let spans = on_host.map(span).collect::<Result<_>>()?;
        let scale_spans = scales.iter().map(span).collect::<Result<_>>()?;
        Ok(FreshSlots {
            tensors,
            scales,
            spans,
            scale_spans,
            shard_range,
        })
    }

    /// Puts `variable`, whose slots are `fresh`, in the place of the variable at `position`, which
    /// has no state any more. How far it is stays. No update is prepared.
    pub(crate) fn put_in_place(&mut self, position: usize, variable: &Variable, fresh: FreshSlots) {
        let first = position * fresh.spans.len();
        let (state, spans) = StoredState::new(variable, fresh, &self.list);
        self.slots[first..]
            .iter_mut()
            .zip(spans)
            .for_each(|(present, span)| *present = span);
        let before = std::mem::replace(&mut self.states[position], state);
        self.positions.remove(&before.variable.key());
        self.positions.insert(variable.key(), position);
        self.plain.clear();
        self.revision += 1;
        variable.advance_layout_epoch();
    }

    /// The average of the variable at `position`, which is in host memory, if one is kept.
    pub(crate) fn average(&self, position: usize) -> Option<&SpanMut<'_>> {
        let index = self.list.average()?;
        Some(&self.slots[position * self.list.len() + index])
    }

    /// The address of the average of the variable at `position`, which a GPU holds, if one is kept.
    pub(crate) fn average_address(&self, position: usize) -> Option<u64> {
        let index = self.list.average()?;
        Some(self.states[position].slots[index].place().address)
    }

    /// The addresses of the rule's elementwise slots of the variable at `position`, which a GPU
    /// holds.
    pub(crate) fn slot_addresses(&self, position: usize) -> impl Iterator<Item = u64> {
        let state = &self.states[position];
        let slots = &state.slots[..state.elementwise];
        slots.iter().map(|slot| slot.place().address)
    }

    /// The buffer of the variable at `position` that an update writes: the staged one, if the step
    /// staged one. Fails if it cannot be written.
    pub(crate) fn prepare_visible(&mut self, position: usize) -> Result<usize> {
        let state = &mut self.states[position];
        let buffer = state.variable.visible_buffer();
        if state.weights[buffer].is_none() && state.variable.device().is_host_memory() {
            // SAFETY: a span is made of it, and the elements are not read.
            state.weights[buffer] = Some(span(unsafe { state.variable.visible() })?);
        }
        Ok(buffer)
    }

    /// The weights of the variable at `position`, in a buffer that [`Variables::prepare_visible`]
    /// returned, and the elementwise slots of its rule; none if they are
    /// [codes](Variables::eight_bit).
    pub(crate) fn operands(
        &self,
        position: usize,
        buffer: usize,
    ) -> (&SpanMut<'_>, &[SpanMut<'_>]) {
        let state = &self.states[position];
        let weights = state.weights[buffer].as_ref();
        let weights = weights.expect("a buffer is met when its update is prepared");
        if state.is_coded() {
            return (weights, &[]);
        }
        let slots = &self.slots[position * self.list.len()..];
        (weights, &slots[..state.elementwise])
    }

    /// The moments of rows and of columns of the variable at `position`, which is in host memory,
    /// if it has them.
    pub(crate) fn factors(&self, position: usize) -> Option<[&SpanMut<'_>; 2]> {
        let slots = &self.slots[position * self.list.len()..];
        let both = self.factor_indices(position)?;
        Some(both.map(|index| &slots[index]))
    }

    /// The addresses of the same, of a variable that a GPU holds.
    pub(crate) fn factor_addresses(&self, position: usize) -> Option<[u64; 2]> {
        let slots = &self.states[position].slots;
        let both = self.factor_indices(position)?;
        Some(both.map(|index| slots[index].place().address))
    }

    /// The indices of the moments of rows and of columns of the variable at `position`, if it has
    /// them.
    fn factor_indices(&self, position: usize) -> Option<[usize; 2]> {
        let find = |extent| self.list.iter().position(|slot| slot.extent == extent);
        let both = [
            find(SlotExtent::RowsOfMatrices)?,
            find(SlotExtent::ColumnsOfMatrices)?,
        ];
        let dimensions = self.states[position].variable.shape().len();
        (dimensions >= 2).then_some(both)
    }

    /// The rule's slots of the variable at `position`, if they are codes.
    pub(crate) fn eight_bit(&self, position: usize) -> Option<EightBitStates<'_>> {
        let state = &self.states[position];
        let codes = &self.slots[position * self.list.len()..][..self.list.of_rule()];
        state.is_coded().then_some(EightBitStates {
            maps: self.list.maps(),
            codes,
            scales: &state.scale_spans,
        })
    }

    /// How many bytes the slots of the variable at `position` have for one element. Scales, a
    /// sixty-fourth of a byte, are not counted, nor slots that are not elementwise.
    pub(crate) fn slot_bytes(&self, position: usize) -> usize {
        let slots = &self.slots[position * self.list.len()..][..self.list.len()];
        let (of_rule, others) = slots.split_at(self.list.of_rule());
        let elementwise = &of_rule[..self.states[position].elementwise];
        let counted = elementwise.iter().chain(others);
        counted.map(|slot| slot.dtype().size()).sum()
    }
}
