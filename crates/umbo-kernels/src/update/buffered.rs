//! Updates of weights and states that are kept in fewer bits than float32. Those of a tile are
//! widened into buffers before its update, and narrowed afterwards.

use std::mem::MaybeUninit;
use std::ops::Range;

use half::bf16;

use crate::dtype::DType;
use crate::instruction_set::dispatch;
use crate::update::eight_bit::{Decode, EightBitStates, Encode, STATE_BLOCK, StateRange};
use crate::update::pass::{TILE, UpdatePass};
use crate::update::rounding::{Round, RoundedWeight, Widen};
use crate::update::rules::MOST_STATES;
use crate::update::tiles::{MOST_SLOTS, Tile, TileRows};

/// Memory for the weights, or for the elements of one state, in a tile.
#[repr(align(64))]
struct Buffer(MaybeUninit<[f32; TILE]>);

impl Buffer {
    const NEW: Buffer = Buffer(MaybeUninit::uninit());

    fn floats(&mut self) -> *mut f32 {
        self.0.as_mut_ptr().cast()
    }
}

/// The slots of float32 of a tile, the first elements of which are at `start`.
fn slots_from(rows: &TileRows<'_>, start: usize) -> [*mut u8; MOST_SLOTS] {
    let mut slots = [std::ptr::null_mut(); MOST_SLOTS];
    for (slot, first) in slots.iter_mut().zip(rows.slots) {
        *slot = first.wrapping_add(start * size_of::<f32>());
    }
    slots
}

impl UpdatePass<'_> {
    /// Calls `update` with each tile, in float32. Ranges of coded states begin at multiples of
    /// [`STATE_BLOCK`], except those of trials, which code nothing.
    pub(super) fn run_buffered(&self, update: &mut dyn FnMut(&Tile<'_>)) {
        assert!(self.is_whole());
        self.run_tile_rows(&mut |rows| {
            for start in rows.places() {
                match self.eight_bit {
                    Some(states) => self.with_states(rows, start, states, &mut *update),
                    None => {
                        let slots = slots_from(rows, start);
                        let slots = &slots[..rows.slots.len()];
                        self.with_weights(rows, start, slots, &mut *update);
                    }
                }
            }
        });
    }

    /// Updates one tile, whose states are decoded before and coded afterwards.
    fn with_states(
        &self,
        rows: &TileRows<'_>,
        start: usize,
        states: EightBitStates<'_>,
        update: &mut dyn FnMut(&Tile<'_>),
    ) {
        let count = states.codes.len();
        assert!(count <= MOST_STATES);
        let mut buffers = [Buffer::NEW; MOST_STATES];
        let buffers = buffers.each_mut().map(Buffer::floats);
        let slots = buffers.map(|buffer| buffer.cast::<u8>());
        let range = &(start..start + rows.columns.len());
        let state = |index: usize| StateRange {
            map: states.maps[index],
            codes: &states.codes[index],
            scales: &states.scales[index],
            range,
            floats: buffers[index],
        };
        for index in 0..count {
            dispatch(self.instructions(), Decode(state(index)));
        }
        self.with_weights(rows, start, &slots[..count], update);
        if self.trial.is_some() {
            return;
        }
        assert!(start.is_multiple_of(STATE_BLOCK));
        let is_last = range.end == self.weights().elements();
        assert!(is_last || range.end.is_multiple_of(STATE_BLOCK));
        for index in 0..count {
            dispatch(self.instructions(), Encode(state(index)));
        }
    }

    /// Calls `read` with each tile, whose weights are widened and stay as they are.
    pub(super) fn read_widened(&self, read: &mut dyn FnMut(&Tile<'_>)) {
        self.run_tile_rows(&mut |rows| {
            for start in rows.places() {
                let mut buffer = Buffer::NEW;
                let slots = slots_from(rows, start);
                let slots = &slots[..rows.slots.len()];
                read(&self.widened(rows, start, slots, &mut buffer));
            }
        });
    }

    /// One tile, whose weights are widened into `buffer`, if they are rounded.
    fn widened<'t>(
        &self,
        rows: &TileRows<'_>,
        start: usize,
        slots: &'t [*mut u8],
        buffer: &'t mut Buffer,
    ) -> Tile<'t> {
        let kept = self.weights().data();
        let mut tile = Tile {
            dtype: DType::Float32,
            start: self.first + start,
            elements: rows.columns.len(),
            weights: kept.wrapping_add(start * size_of::<f32>()),
            gradient: rows.gradient,
            slots,
        };
        if self.rounding.is_some() {
            let to = buffer.floats();
            tile.weights = to.cast();
            let widen = Widen {
                from: kept.cast::<bf16>().wrapping_add(start),
                to,
                elements: tile.elements,
            };
            dispatch(self.instructions(), widen);
        }
        tile
    }

    /// Updates one tile, whose weights are widened before and rounded afterwards, if they are.
    fn with_weights(
        &self,
        rows: &TileRows<'_>,
        start: usize,
        slots: &[*mut u8],
        update: &mut dyn FnMut(&Tile<'_>),
    ) {
        let mut buffer = Buffer::NEW;
        let tile = self.widened(rows, start, slots, &mut buffer);
        let range = tile.start..tile.start + tile.elements;
        let kept = self.weights().data().cast::<bf16>().wrapping_add(start);
        if self.rounding.is_some() {
            let gradient = rows.gradient.cast_mut().cast::<f32>();
            let weights = tile.weights.cast_const().cast();
            // SAFETY: the gradient of the tile was just written to memory of this pass, and its
            // weights to the buffer.
            unsafe { self.add_l2(gradient, weights, tile.elements) };
        }
        if let Some((to, first)) = self.trial {
            // SAFETY: the tile is of this pass, which alone writes the new weights of its
            // range, and these lie in `to`: see `UpdatePass::trying`.
            unsafe { tile.update_copies(to, tile.start - first, update) };
            let new = to.data().cast::<f32>().wrapping_add(tile.start - first);
            self.round(range, new, new);
            return;
        }
        update(&tile);
        self.round(range, tile.weights.cast(), kept);
    }

    /// Rounds the new weights in `from`, the elements `range` of the variable, if they are rounded.
    fn round<T: RoundedWeight>(&self, range: Range<usize>, from: *const f32, to: *mut T) {
        if let Some(rounding) = self.rounding {
            let round = Round {
                rounding,
                range,
                from,
                to,
            };
            dispatch(self.instructions(), round);
        }
    }
}
