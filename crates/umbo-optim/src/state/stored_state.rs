//! The state that an optimizer keeps for one variable: its slots, and the address of the weights.
//!
//! With several ranks each keeps the slots of its own part of a variable ([`VariableSharding`]),
//! which it updates. An update by rows may change any row, so all ranks keep whole slots of a
//! variable that is updated by rows.

#![expect(
    unsafe_code,
    reason = "spans are kept beside the tensors that they are of"
)]

use std::ops::Range;
use std::sync::Arc;

use crate::rules::{Slot, SlotExtent};
use crate::state::coded::decoded;
use crate::state::slot_list::SlotList;
use umbo_base::error::{Error, Result};
use umbo_kernels::dtype::DType;
use umbo_kernels::update::eight_bit::CodeMap;
use umbo_kernels::view::SpanMut;
use umbo_tensor::slab::{CACHE_SHIFT, Slab};
use umbo_tensor::storage::Storage;
use umbo_tensor::values::sharding::VariableSharding;
use umbo_tensor::values::variable::Variable;
use umbo_tensor::{Layout, Shape, Tensor};

/// From this size on, slots are shifted against the variable and the gradients; see [`allocate`].
const LARGE: usize = 2 << 20;

/// The state of one variable.
pub(crate) struct StoredState {
    /// Keeps the variable alive, and so its key from naming another.
    pub(super) variable: Variable,
    /// The variable's two buffers, if an update has used them.
    pub(super) weights: [Option<SpanMut<'static>>; 2],
    pub(super) slots: Vec<Tensor>,
    /// The number of the rule's slots that are elementwise: the first ones.
    pub(super) elementwise: usize,
    /// The scales of the rule's slots, which are codes then; none if all slots are in full.
    pub(super) scales: Vec<Tensor>,
    pub(super) scale_spans: Vec<SpanMut<'static>>,
    /// The elements of the variable that the slots cover: all, or this rank's part. A slot that is
    /// not elementwise is whole.
    pub(crate) shard_range: Range<usize>,
    /// Applies that are prepared are counted in the variable: a GPU holds it, or ranks divide it.
    /// The variable is not read for this: it may be one of thousands.
    pub(super) is_counted: bool,
}

/// Slots that are made for a variable, and that no state has yet.
pub(crate) struct FreshSlots {
    pub(crate) tensors: Vec<Tensor>,
    /// The scales of the rule's slots, if these are codes.
    pub(crate) scales: Vec<Tensor>,
    /// Of slots in host memory; kernels on GPUs get addresses.
    pub(super) spans: Vec<SpanMut<'static>>,
    pub(super) scale_spans: Vec<SpanMut<'static>>,
    pub(super) shard_range: Range<usize>,
}

/// This process's part of one slot of a variable.
pub(crate) struct LocalSlot {
    pub(crate) variable: Variable,
    /// The whole slot has its shape; a part is contiguous.
    pub(crate) tensor: Tensor,
    pub(crate) extent: SlotExtent,
    /// If the tensor has codes: their map, and their scales.
    pub(crate) scales: Option<(CodeMap, Tensor)>,
    /// The elements of the variable that an elementwise slot covers.
    pub(crate) shard_range: Range<usize>,
}

impl LocalSlot {
    /// The shape of the whole slot; `None` if the variable has no such state.
    pub(crate) fn shape(&self) -> Option<Shape> {
        self.extent.shape(&self.variable.shape())
    }

    /// Whether it has an element for each of the variable.
    pub(crate) fn is_elementwise(&self) -> bool {
        self.extent.is_elementwise(self.variable.shape().len())
    }

    /// Whether it is all of the slot.
    pub(crate) fn is_whole(&self) -> bool {
        !self.is_elementwise() || self.shard_range.len() == self.variable.shape().elements()
    }

    /// The same slot in full: decoded in new memory, if it has codes.
    pub(crate) fn in_full(mut self) -> Result<LocalSlot> {
        if let Some((map, scales)) = self.scales.take() {
            self.tensor = decoded(map, &self.tensor, &scales)?;
        }
        Ok(self)
    }

    /// The elements that this rank updates: contiguous, or of the slot's shape if it is not
    /// sharded.
    pub(crate) fn own(&self) -> Result<Tensor> {
        let sharding = self.variable.sharding();
        let Some(sharding) = sharding.filter(|_| self.is_elementwise()) else {
            return Ok(self.tensor.clone());
        };
        let own_range = sharding.own();
        let shard_range = &self.shard_range;
        part_of(
            &self.tensor,
            &(own_range.start - shard_range.start..own_range.end - shard_range.start),
        )
    }
}

impl StoredState {
    /// The state, and the spans of its slots.
    pub(super) fn new(
        variable: &Variable,
        fresh: FreshSlots,
        list: &SlotList,
    ) -> (StoredState, Vec<SpanMut<'static>>) {
        let state = StoredState {
            is_counted: !variable.device().is_host_memory() || variable.sharding().is_some(),
            variable: variable.clone(),
            weights: [None, None],
            slots: fresh.tensors,
            elementwise: list.elementwise(variable),
            scales: fresh.scales,
            scale_spans: fresh.scale_spans,
            shard_range: fresh.shard_range,
        };
        (state, fresh.spans)
    }

    /// Whether the rule's slots are codes.
    pub(crate) fn is_coded(&self) -> bool {
        !self.scales.is_empty()
    }

    /// The number of elements the variable has.
    pub(crate) fn elements(&self) -> usize {
        self.variable.shape().elements()
    }

    /// Whether the slots are of all of them.
    pub(crate) fn is_whole(&self) -> bool {
        self.shard_range.len() == self.elements()
    }

    /// Slot `index`, whatever it holds.
    pub(crate) fn kept(&self, index: usize, list: &SlotList) -> LocalSlot {
        let tensor = self.slots[index].clone();
        let shard_range = self.shard_range.clone();
        let scales = self.scales.get(index);
        LocalSlot {
            variable: self.variable.clone(),
            tensor,
            extent: list[index].extent,
            scales: scales.map(|scales| (list.maps()[index], scales.clone())),
            shard_range,
        }
    }
}

/// The span of a tensor that only applies write. The owner of the tensor keeps the span, too.
pub(super) fn span(tensor: &Tensor) -> Result<SpanMut<'static>> {
    // SAFETY: the span is only made here, and not used. Its owner keeps the tensor, too, and only
    // an apply with exclusive access writes it.
    unsafe { Ok(tensor.assume_exclusive().into_span()?.held()) }
}

/// This rank's part of a variable; all of it, if no ranks divide it.
pub(crate) fn own_part(variable: &Variable) -> Range<usize> {
    variable
        .sharding()
        .map_or(0..variable.shape().elements(), VariableSharding::own)
}

/// Some elements of a contiguous tensor, as a tensor of one dimension.
pub(crate) fn part_of(whole: &Tensor, part: &Range<usize>) -> Result<Tensor> {
    let row = whole.reshape(Shape::new(&[whole.shape().elements()])?)?;
    row.slice(0, part.start, part.end, 1)
}

/// The shape of a slot of `variable` that covers the elements in `shard_range`: one of no elements
/// if the variable has no such state.
pub(super) fn kept_shape(
    slot: &Slot,
    variable: &Variable,
    shard_range: &Range<usize>,
) -> Result<Shape> {
    let whole = variable.shape();
    let is_part = slot.extent.is_elementwise(whole.len()) && shard_range.len() != whole.elements();
    match slot.extent.shape(&whole) {
        None => Shape::new(&[0]),
        Some(_) if is_part => Shape::new(&[shard_range.len()]),
        Some(shape) => Ok(shape),
    }
}

/// The slot's initial tensor, of this dtype and shape. Large ones start at cache lines that differ,
/// modulo 4 KiB and 64 KiB, from those of the variable, of the replicas' gradients (which are
/// shifted the other way) and of the variable's other slots, since one pass accesses them all at
/// once.
pub(super) fn allocate(
    slab: &mut Slab,
    variable: &Variable,
    index: usize,
    slot: &Slot,
    (dtype, shape): (DType, Shape),
) -> Result<Tensor> {
    const PERIOD: usize = 64 << 10;
    let bytes = shape.bytes(dtype)?;
    let tensor = if bytes < LARGE {
        slab.zeros(dtype, shape, variable.device())?
    } else {
        let offset = PERIOD - CACHE_SHIFT * (index + 1) % PERIOD;
        let whole = bytes
            .checked_add(offset)
            .ok_or_else(|| Error::beyond_limit(format!("state '{}' of {variable:?}", slot.name)))?;
        let storage = Arc::new(Storage::zeroed(whole, variable.device())?);
        Tensor::from_storage(storage, dtype, Layout::row_major(shape), offset)?
    };
    if slot.initial != 0.0 {
        // SAFETY: the tensor is new, and shares its memory with no other.
        unsafe { tensor.assume_exclusive() }.fill(slot.initial)?;
    }
    Ok(tensor)
}
