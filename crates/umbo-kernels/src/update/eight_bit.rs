//! States of optimizers in 8 bits an element (Dettmers, Lewis, Shleifer and Zettlemoyer, "8-bit
//! Optimizers via Block-wise Quantization", 2022).
//!
//! Elements are coded in blocks of [`STATE_BLOCK`], each with a scale, the largest magnitude in it.
//! A code stands for a share of the scale, by a map in which the shares are dense where they are
//! small ("dynamic tree quantization"). Decade i of seven, from 10^(i-7) to 10^(i-6), is divided
//! into 2^i equal cells for signed elements, and into 2^(i+1) for elements without a sign, and a
//! code stands for the middle of a cell. Further codes stand for 0 and 1. -1 has none.
//!
//! Code 0 is 0 here, the codes of positive shares ascend from there, and those of negative ones
//! are the complements of two of their opposites. So a state of zeros is memory of zeros.
//!
//! An element gets the nearest code, but with [`CodeMap::Unsigned`] only 0 gets that of 0: a
//! second moment that vanished before its first moment would make a step that epsilon alone bounds.
//! A block with an element that is not finite decodes to NaN as a whole.

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::dtype::DType;
use crate::instruction_set::{InstructionSet, Instructions, Kernel, dispatch};
use crate::update::pass::{TILE, UpdatePass};
use crate::update::rules::MOST_STATES;
use crate::update::tiles::Tile;
use crate::view::SpanMut;

/// Elements that have one scale. Those that work on parts of a variable begin at its multiples.
pub const STATE_BLOCK: usize = 256;

/// The shares that codes stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeMap {
    /// For elements with a sign, such as a first moment.
    Signed,
    /// For elements of 0 or more, such as a second moment.
    Unsigned,
}

/// States of a pass that are coded, each with its map, its codes, and its scales.
#[derive(Clone, Copy, Debug)]
pub struct EightBitStates<'a> {
    /// The map of each state.
    pub maps: &'a [CodeMap],
    /// The codes of each: as many bytes as the weights have elements.
    pub codes: &'a [SpanMut<'a>],
    /// The scales of each: a float32 for each block.
    pub scales: &'a [SpanMut<'a>],
}

/// Cells of equal floats, by exponent and the first bits of the mantissa, of shares from 2^-22 on.
/// Smaller shares count to the first. The finest codes are 0.9/128 apart at shares above 0.5, so
/// that at most one boundary lies in a cell of 1/256.
const CELLS: usize = 22 * 128 + 1;
/// The first bits of the share of the first cell.
const FIRST_CELL: u32 = (127 - 22) << 7;
const DROPPED_BITS: u32 = 16;

/// A map as tables.
struct Table {
    values: [f32; 256],
    /// For each magnitude the largest share that is nearer to it than to the next.
    boundaries: [f32; 256],
    /// The magnitude of the smallest share of each cell.
    cells: [u8; CELLS],
}

static SIGNED: Table = Table::new(CodeMap::Signed);
static UNSIGNED: Table = Table::new(CodeMap::Unsigned);

impl Table {
    const fn new(map: CodeMap) -> Table {
        const DECADES: [f64; 7] = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0];
        let mut magnitudes = [0.0; 256];
        let mut count = 1;
        let mut decade = 0;
        while decade < DECADES.len() {
            let cells = match map {
                CodeMap::Signed => 1 << decade,
                CodeMap::Unsigned => 2 << decade,
            };
            let mut cell = 0;
            while cell < cells {
                let middle = (cell as f64 + 0.5) / cells as f64;
                magnitudes[count] = DECADES[decade] * (0.1 + 0.9 * middle);
                count += 1;
                cell += 1;
            }
            decade += 1;
        }
        magnitudes[count] = 1.0;
        let mut table = Table {
            values: [0.0; 256],
            boundaries: [f32::INFINITY; 256],
            cells: [0; CELLS],
        };
        let mut code = 0;
        while code <= count {
            table.values[code] = magnitudes[code] as f32;
            if code < count {
                table.boundaries[code] = ((magnitudes[code] + magnitudes[code + 1]) / 2.0) as f32;
                if matches!(map, CodeMap::Signed) && code > 0 {
                    table.values[256 - code] = -magnitudes[code] as f32;
                }
            }
            code += 1;
        }
        if matches!(map, CodeMap::Unsigned) {
            table.boundaries[0] = 0.0;
        }
        let mut magnitude = 0;
        let mut cell = 1;
        while cell < CELLS {
            let smallest = f32::from_bits((FIRST_CELL + cell as u32) << DROPPED_BITS);
            while smallest > table.boundaries[magnitude] {
                magnitude += 1;
            }
            table.cells[cell] = magnitude as u8;
            cell += 1;
        }
        table
    }

    /// The number of the magnitude that is nearest to a share from 0 to 1.
    #[inline(always)]
    fn magnitude(&self, share: f32) -> u8 {
        let first_bits = share.to_bits() >> DROPPED_BITS;
        let cell = first_bits.saturating_sub(FIRST_CELL) as usize;
        let below = self.cells[cell.min(CELLS - 1)];
        below.wrapping_add(u8::from(share > self.boundaries[usize::from(below)]))
    }
}

impl CodeMap {
    #[inline(always)]
    fn table(self) -> &'static Table {
        match self {
            CodeMap::Signed => &SIGNED,
            CodeMap::Unsigned => &UNSIGNED,
        }
    }

    /// The number of scales of so many elements.
    pub const fn scales(elements: usize) -> usize {
        elements.div_ceil(STATE_BLOCK)
    }

    /// Decodes the elements of whole blocks, of which the last may be shorter.
    pub fn decode(self, codes: &[u8], scales: &[f32], to: &mut [f32]) {
        assert_eq!(codes.len(), to.len());
        let blocks = codes.chunks(STATE_BLOCK).zip(to.chunks_mut(STATE_BLOCK));
        for ((codes, to), scale) in blocks.zip(scales) {
            decode_block(self.table(), codes, *scale, to);
        }
    }

    /// Codes the elements of whole blocks, of which the last may be shorter.
    pub fn encode(self, from: &[f32], codes: &mut [u8], scales: &mut [f32]) {
        assert_eq!(codes.len(), from.len());
        let blocks = from.chunks(STATE_BLOCK).zip(codes.chunks_mut(STATE_BLOCK));
        for ((from, codes), scale) in blocks.zip(scales) {
            *scale = encode_block(self, from, codes);
        }
    }
}

#[inline(always)]
fn decode_block(table: &Table, codes: &[u8], scale: f32, to: &mut [f32]) {
    for (to, code) in to.iter_mut().zip(codes) {
        *to = table.values[usize::from(*code)] * scale;
    }
}

/// Codes one block, and returns its scale.
#[inline(always)]
fn encode_block(map: CodeMap, from: &[f32], codes: &mut [u8]) -> f32 {
    // As integers magnitudes have the order of floats, and then infinity and NaN.
    let magnitude = |value: &f32| value.to_bits() & (u32::MAX >> 1);
    let largest = from.iter().map(magnitude).fold(0, u32::max);
    let scale = f32::from_bits(largest);
    if scale == 0.0 || !scale.is_finite() {
        codes.fill(0);
        return if scale == 0.0 { scale } else { f32::NAN };
    }
    match map {
        CodeMap::Unsigned => {
            for (code, value) in codes.iter_mut().zip(from) {
                *code = UNSIGNED.magnitude((value / scale).max(0.0));
            }
        }
        CodeMap::Signed => {
            for (code, value) in codes.iter_mut().zip(from) {
                let positive = SIGNED.magnitude((value / scale).abs());
                // 1 has no opposite.
                let negative = positive.min(127).wrapping_neg();
                *code = if *value < 0.0 { negative } else { positive };
            }
        }
    }
    scale
}

/// Elements of one state of a pass. The code that creates it ensures that the state has the
/// elements `range`, which nobody else writes, and that `floats` has memory for them.
#[derive(Clone, Copy)]
struct StateRange<'a> {
    map: CodeMap,
    codes: &'a SpanMut<'a>,
    scales: &'a SpanMut<'a>,
    range: &'a Range<usize>,
    floats: *mut f32,
}

/// Decodes the elements.
struct Decode<'a>(StateRange<'a>);

/// Codes the elements, whole blocks except at the end of the state.
struct Encode<'a>(StateRange<'a>);

impl StateRange<'_> {
    /// The parts of the range that lie in one block: the number of the block, the first element,
    /// and the number of elements.
    #[inline(always)]
    fn blocks(self) -> impl Iterator<Item = (usize, usize, usize)> {
        let Range { start, end } = *self.range;
        let blocks = start / STATE_BLOCK..CodeMap::scales(end);
        blocks.map(move |block| {
            let first = start.max(block * STATE_BLOCK);
            let last = end.min((block + 1) * STATE_BLOCK);
            (block, first, last - first)
        })
    }
}

impl Kernel for Decode<'_> {
    const WIDEST: InstructionSet = InstructionSet::Avx2;

    #[inline(always)]
    fn run(self, _: Instructions) {
        let Decode(state) = self;
        for (block, first, count) in state.blocks() {
            // SAFETY: the elements are in the range, and the code that created this guaranteed the
            // rest. The buffer is of this call's thread, and floats need no initialisation before
            // they are written: each is, in order.
            unsafe {
                let codes = std::slice::from_raw_parts(state.codes.data().add(first), count);
                let scale = *state.scales.data().cast::<f32>().add(block);
                let to = state.floats.add(first - state.range.start);
                to.write_bytes(0, count);
                let to = std::slice::from_raw_parts_mut(to, count);
                decode_block(state.map.table(), codes, scale, to);
            }
        }
    }
}

impl Kernel for Encode<'_> {
    const WIDEST: InstructionSet = InstructionSet::Avx2;

    #[inline(always)]
    fn run(self, _: Instructions) {
        let Encode(state) = self;
        for (block, first, count) in state.blocks() {
            // SAFETY: as for `Decode`, which has written the floats before.
            unsafe {
                let from = state.floats.add(first - state.range.start);
                let from = std::slice::from_raw_parts(from, count);
                let codes = std::slice::from_raw_parts_mut(state.codes.data().add(first), count);
                let scale = encode_block(state.map, from, codes);
                *state.scales.data().cast::<f32>().add(block) = scale;
            }
        }
    }
}

/// Memory for the elements of one state in a tile.
#[repr(align(64))]
struct StateBuffer(MaybeUninit<[f32; TILE]>);

impl UpdatePass<'_> {
    /// Calls `update` with each tile, whose states are decoded before and coded afterwards. Ranges
    /// begin at multiples of [`STATE_BLOCK`], except those of trials, which code nothing.
    pub(super) fn run_eight_bit(
        &self,
        states: EightBitStates<'_>,
        update: &mut dyn FnMut(&Tile<'_>),
    ) {
        let count = states.codes.len();
        assert!(self.is_whole() && count <= MOST_STATES);
        self.run_tile_rows(&mut |rows| {
            let mut buffers = [const { StateBuffer(MaybeUninit::uninit()) }; MOST_STATES];
            let buffers = buffers
                .each_mut()
                .map(|buffer| buffer.0.as_mut_ptr().cast::<f32>());
            let slots = buffers.map(|buffer| buffer.cast::<u8>());
            for start in rows.places() {
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
                let tile = Tile {
                    dtype: self.dtype(),
                    start: self.first + start,
                    elements: range.len(),
                    weights: rows.weights.wrapping_add(start * size_of::<f32>()),
                    gradient: rows.gradient,
                    slots: &slots[..count],
                };
                if let Some((to, first)) = self.trial {
                    // SAFETY: the tile is of this pass, which alone writes the new weights of its
                    // range, and these lie in `to`: see `UpdatePass::trying`.
                    unsafe { tile.update_copies(to, tile.start - first, update) };
                    continue;
                }
                assert!(start.is_multiple_of(STATE_BLOCK));
                let is_last = range.end == self.weights().elements();
                assert!(is_last || range.end.is_multiple_of(STATE_BLOCK));
                update(&tile);
                for index in 0..count {
                    dispatch(self.instructions(), Encode(state(index)));
                }
            }
        });
    }
}

impl EightBitStates<'_> {
    /// Asserts that these are states of so many float32 weights.
    pub(super) fn check(&self, weights: &SpanMut<'_>) {
        assert_eq!(weights.dtype(), DType::Float32);
        let elements = weights.elements();
        let lengths = [self.maps.len(), self.scales.len()];
        assert_eq!(lengths, [self.codes.len(); 2]);
        for (codes, scales) in self.codes.iter().zip(self.scales) {
            assert_eq!((codes.dtype(), codes.elements()), (DType::UInt8, elements));
            let blocks = CodeMap::scales(elements);
            assert_eq!(
                (scales.dtype(), scales.elements()),
                (DType::Float32, blocks)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shares of the published map, in ascending order: per decade the middles between evenly
    /// spaced boundaries from 0.1 to 1, and 0 and 1.
    fn published(signed: bool) -> Vec<f64> {
        let mut shares = vec![0.0, 1.0];
        for exponent in 0..7 {
            let boundaries = 2_i32.pow(exponent + u32::from(!signed)) + 1;
            let step = 0.9 / f64::from(boundaries - 1);
            let at = |index: i32| 0.1 + step * f64::from(index);
            for index in 1..boundaries {
                let middle = (at(index - 1) + at(index)) / 2.0;
                let share = middle / 10_f64.powi(6 - exponent as i32);
                shares.push(share);
                if signed {
                    shares.push(-share);
                }
            }
        }
        shares.sort_by(f64::total_cmp);
        shares
    }

    fn coded(map: CodeMap, values: &[f32]) -> (Vec<u8>, Vec<f32>) {
        let mut codes = vec![255; values.len()];
        let mut scales = vec![-1.0; CodeMap::scales(values.len())];
        map.encode(values, &mut codes, &mut scales);
        (codes, scales)
    }

    fn decoded(map: CodeMap, codes: &[u8], scales: &[f32]) -> Vec<f32> {
        let mut values = vec![-1.0; codes.len()];
        map.decode(codes, scales, &mut values);
        values
    }

    #[test]
    fn codes_stand_for_the_published_shares() {
        for (map, signed) in [(CodeMap::Signed, true), (CodeMap::Unsigned, false)] {
            let all: Vec<u8> = (0..=255).collect();
            let mut values = decoded(map, &all, &[1.0]);
            assert_eq!(values[0].to_bits(), 0);
            values.sort_by(f32::total_cmp);
            let expected = published(signed);
            assert_eq!(expected.len(), 256);
            for (value, share) in values.iter().zip(&expected) {
                assert!((f64::from(*value) - share).abs() <= 1e-7 * share.abs());
            }
        }
    }

    #[test]
    fn elements_get_the_nearest_code() {
        for (map, signed) in [(CodeMap::Signed, true), (CodeMap::Unsigned, false)] {
            let shares = published(signed);
            let scale = 3.7_f32;
            let mut values = vec![scale];
            // Magnitudes from far below the smallest share to 1.
            for step in 0..60_000_u32 {
                let magnitude = scale * (-(step as f32) / 3000.0).exp();
                let negative = signed && step.is_multiple_of(3);
                values.push(if negative { -magnitude } else { magnitude });
            }
            for block in values[1..].chunks(STATE_BLOCK - 1) {
                let mut block = block.to_vec();
                block.push(scale);
                let (codes, scales) = coded(map, &block);
                assert_eq!(scales, [scale]);
                for (value, found) in block.iter().zip(decoded(map, &codes, &scales)) {
                    let share = f64::from(*value) / f64::from(scale);
                    let distance = |code: &f64| (code - share).abs();
                    let nearest = shares.iter().map(distance).fold(f64::INFINITY, f64::min);
                    let found = f64::from(found) / f64::from(scale);
                    let is_kept = !signed && share > 0.0 && found > 0.0 && found < 4e-7;
                    // Shares are rounded to float32, and so are what codes stand for.
                    assert!(is_kept || distance(&found) <= nearest + 3e-7 * share.abs());
                    assert!(signed || (share > 0.0) == (found > 0.0), "{share}");
                }
            }
        }
    }

    #[test]
    fn decoded_elements_get_their_codes_again() {
        for map in [CodeMap::Signed, CodeMap::Unsigned] {
            for scale in [1.0_f32, 0.3, 7e-20, 3e30] {
                // With the code of 1, which keeps the scale.
                let codes: Vec<u8> = (0..=255).collect();
                let values = decoded(map, &codes, &[scale]);
                assert_eq!(coded(map, &values), (codes, vec![scale]));
            }
        }
    }

    #[test]
    fn blocks_of_zeros_and_of_what_is_not_finite_are_such_blocks() {
        for map in [CodeMap::Signed, CodeMap::Unsigned] {
            let (codes, scales) = coded(map, &[0.0; 300]);
            assert!(codes == [0; 300] && scales == [0.0; 2]);
            assert!(
                decoded(map, &codes, &scales)
                    .iter()
                    .all(|&value| value == 0.0)
            );
            for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut values = [1.0; 300];
                values[3] = wrong;
                let (codes, scales) = coded(map, &values);
                let again = decoded(map, &codes, &scales);
                assert!(again[..256].iter().all(|value| value.is_nan()));
                assert!(again[256..].iter().all(|&value| value == 1.0));
            }
        }
    }
}
