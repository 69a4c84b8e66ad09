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
//! An element gets the nearest code, or up to rounding one that is as near, but with
//! [`CodeMap::Unsigned`] only 0 gets that of 0: a second moment that vanished before its first
//! moment would make a step that epsilon alone bounds.
//! A block with an element that is not finite decodes to NaN as a whole.

use std::array;
use std::ops::Range;

use crate::dtype::DType;
use crate::float::real;
use crate::instruction_set::{InstructionSet, Instructions, Kernel};
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

/// The elements that are coded at a time.
const LANES: usize = 16;

/// The decades of the shares, from 10^-7 on.
const DECADES: usize = 7;

/// A map as numbers.
struct Table {
    values: [f32; 256],
    /// For each decade, and for the share 1 behind them: the largest share whose nearest code lies
    /// before it.
    boundaries: [f32; DECADES + 1],
    /// A share of a decade has the code `share * factor + offset`, rounded down and at most `last`.
    factors: [f32; DECADES + 1],
    offsets: [f32; DECADES + 1],
    last: [f32; DECADES + 1],
}

static SIGNED: Table = Table::new(CodeMap::Signed);
static UNSIGNED: Table = Table::new(CodeMap::Unsigned);

impl Table {
    const fn new(map: CodeMap) -> Table {
        const ENDS: [f64; DECADES] = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0];
        let mut table = Table {
            values: [0.0; 256],
            boundaries: [0.0; DECADES + 1],
            factors: [0.0; DECADES + 1],
            offsets: [0.0; DECADES + 1],
            last: [0.0; DECADES + 1],
        };
        let mut code = 1;
        let mut before = 0.0;
        let mut decade = 0;
        while decade <= DECADES {
            let cells = match map {
                _ if decade == DECADES => 1,
                CodeMap::Signed => 1 << decade,
                CodeMap::Unsigned => 2 << decade,
            };
            if decade < DECADES {
                let per_share = cells as f64 / (0.9 * ENDS[decade]);
                table.factors[decade] = per_share as f32;
                table.offsets[decade] = (code as f64 - 0.1 * ENDS[decade] * per_share) as f32;
            } else {
                table.offsets[decade] = code as f32;
            }
            table.last[decade] = (code + cells - 1) as f32;
            let mut cell = 0;
            while cell < cells {
                let share = match decade {
                    DECADES => 1.0,
                    _ => ENDS[decade] * (0.1 + 0.9 * (cell as f64 + 0.5) / cells as f64),
                };
                if cell == 0 {
                    table.boundaries[decade] = ((before + share) / 2.0) as f32;
                }
                table.values[code] = share as f32;
                if matches!(map, CodeMap::Signed) && decade < DECADES {
                    table.values[256 - code] = -share as f32;
                }
                before = share;
                code += 1;
                cell += 1;
            }
            decade += 1;
        }
        if matches!(map, CodeMap::Unsigned) {
            table.boundaries[0] = 0.0;
        }
        table
    }

    /// The codes that are nearest to these shares from 0 to 1. Every step is one of all lanes, so
    /// that processors take it for several lanes at once.
    #[inline(always)]
    fn codes(&self, shares: &[f32; LANES]) -> [i32; LANES] {
        let mut factors = [self.factors[0]; LANES];
        let mut offsets = [self.offsets[0]; LANES];
        let mut last = [self.last[0]; LANES];
        for decade in 1..=DECADES {
            let boundary = self.boundaries[decade];
            replace_beyond(shares, boundary, self.factors[decade], &mut factors);
            replace_beyond(shares, boundary, self.offsets[decade], &mut offsets);
            replace_beyond(shares, boundary, self.last[decade], &mut last);
        }
        array::from_fn(|lane| {
            let code = shares[lane] * factors[lane] + offsets[lane];
            let code = if code > 1.0 { code } else { 1.0 };
            let code = if code < last[lane] { code } else { last[lane] };
            let is_zero = shares[lane] <= self.boundaries[0];
            let code = if is_zero { 0.0 } else { code };
            // SAFETY: it is from 0 to 255.
            unsafe { code.to_int_unchecked() }
        })
    }
}

/// Replaces by `new` what belongs to a share beyond the boundary.
#[inline(always)]
fn replace_beyond(shares: &[f32; LANES], boundary: f32, new: f32, present: &mut [f32; LANES]) {
    for (present, share) in present.iter_mut().zip(shares) {
        *present = if *share > boundary { new } else { *present };
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

/// The codes of elements of a block with this scale.
#[inline(always)]
fn lanes(map: CodeMap, values: &[f32; LANES], scale: f32) -> [u8; LANES] {
    match map {
        CodeMap::Unsigned => UNSIGNED
            .codes(&values.map(|value| value / scale))
            .map(|code| code as u8),
        CodeMap::Signed => {
            let positive = SIGNED.codes(&values.map(|value| (value / scale).abs()));
            array::from_fn(|lane| {
                // 1 has no opposite.
                let negative = -positive[lane].min(127);
                let is_negative = values[lane] < 0.0;
                (if is_negative {
                    negative
                } else {
                    positive[lane]
                }) as u8
            })
        }
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
    let (whole, rest) = from.as_chunks::<LANES>();
    let (whole_codes, rest_codes) = codes.as_chunks_mut::<LANES>();
    for (codes, values) in whole_codes.iter_mut().zip(whole) {
        *codes = lanes(map, values, scale);
    }
    if !rest.is_empty() {
        let mut values = [0.0; LANES];
        values[..rest.len()].copy_from_slice(rest);
        rest_codes.copy_from_slice(&lanes(map, &values, scale)[..rest.len()]);
    }
    scale
}

/// Elements of one state of a pass. The code that creates it ensures that the state has the
/// elements `range`, which nobody else writes, and that `floats` has memory for them.
#[derive(Clone, Copy)]
pub(super) struct StateRange<'a> {
    pub(super) map: CodeMap,
    pub(super) codes: &'a SpanMut<'a>,
    pub(super) scales: &'a SpanMut<'a>,
    pub(super) range: &'a Range<usize>,
    pub(super) floats: *mut f32,
}

/// Decodes the elements.
pub(super) struct Decode<'a>(pub(super) StateRange<'a>);

/// Codes the elements, whole blocks except at the end of the state.
pub(super) struct Encode<'a>(pub(super) StateRange<'a>);

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

impl EightBitStates<'_> {
    /// Asserts that these are states of so many weights that are updated in float32.
    pub(super) fn check(&self, weights: &SpanMut<'_>) {
        assert_eq!(real::computing(weights.dtype()), DType::Float32);
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
