//! Stochastic rounding of new weights to bfloat16, so that no float32 weights need be kept beside
//! them. A number between two neighbours becomes the upper one with the probability of its distance
//! from the lower one. So the mean of the rounded numbers is the number, and steps that are smaller
//! than half of the distance of the neighbours are not lost.
//!
//! The random bits of an element are a hash of the key of the update ([`Rounding::new`]) and of the
//! element's index in the variable, and of nothing else. 16 bits decide: as many as a float32 has
//! more than a bfloat16, so that the probability is exact.

use std::ops::Range;

use half::bf16;

use crate::float::half_precision::bf16_to_f32;
use crate::instruction_set::{InstructionSet, Instructions, Kernel};

/// The elements whose random bits come from one key.
const BLOCK: usize = 256;

/// The largest finite bfloat16, as bits of a float32.
const LARGEST: u32 = 0x7f7f_0000;

/// How the new weights of one variable are rounded in one update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounding {
    key: u64,
}

/// A bijection of 64 bits in which each bit depends on all others: the finaliser of SplitMix64
/// (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
const fn mixed(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The golden ratio in 64 bits, by which counters are spread.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Rounding {
    /// The rounding of the update of a variable that comes after `updates` others, with a seed of
    /// the program's and a number of the variable's.
    pub const fn new(seed: u64, variable: u64, updates: u64) -> Rounding {
        let seed = mixed(seed.wrapping_add(SPREAD));
        let of_variable = mixed(seed ^ variable);
        let update = (updates + 1).wrapping_mul(SPREAD);
        Rounding {
            key: mixed(of_variable.wrapping_add(update)),
        }
    }

    /// The two halves of the key of the elements from `block` times [`BLOCK`] on.
    #[inline(always)]
    const fn of_block(self, block: usize) -> [u32; 2] {
        let counter = (block as u64 + 1).wrapping_mul(SPREAD);
        let key = mixed(self.key.wrapping_add(counter));
        [key as u32, (key >> 32) as u32]
    }
}

/// The 16 random bits of an element of a block: the finaliser of MurmurHash3, with half of the
/// block's key added before it and the other half in its middle.
#[inline(always)]
const fn random_bits(key: [u32; 2], element: u32) -> u32 {
    let bits = key[0] ^ element.wrapping_mul(SPREAD as u32);
    let bits = (bits ^ (bits >> 16)).wrapping_mul(0x85eb_ca6b);
    let bits = bits.wrapping_add(key[1]);
    let bits = (bits ^ (bits >> 13)).wrapping_mul(0xc2b2_ae35);
    bits >> 16
}

/// A float32 as one of its two neighbours among bfloat16, by 16 random bits. A bfloat16 stays what
/// it is, and so do infinity and NaN. What is larger than the largest finite number becomes the
/// nearest, which is infinity from halfway on, as in rounding to nearest.
#[inline(always)]
pub(super) fn rounded(value: f32, random: u32) -> bf16 {
    let bits = value.to_bits();
    let magnitude = bits & (u32::MAX >> 1);
    let added = if magnitude >= LARGEST { 0x8000 } else { random };
    let rounded = bits.wrapping_add(added) >> 16;
    let nan = (bits >> 16) | 0x40;
    let is_nan = magnitude > 255 << 23;
    bf16::from_bits(if is_nan { nan } else { rounded } as u16)
}

/// Writes weights as float32. The code that creates it ensures that `from` has so many elements,
/// that `to` has memory for them, and that nobody else uses either.
pub(super) struct Widen {
    pub(super) from: *const bf16,
    pub(super) to: *mut f32,
    pub(super) elements: usize,
}

impl Kernel for Widen {
    const WIDEST: InstructionSet = InstructionSet::Avx2;

    #[inline(always)]
    fn run(self, _: Instructions) {
        for index in 0..self.elements {
            // SAFETY: there are so many elements, by the promise of the code that created this.
            unsafe { self.to.add(index).write(bf16_to_f32(*self.from.add(index))) };
        }
    }
}

/// Rounds new weights, the elements `range` of a variable. The code that creates it ensures that
/// `from` has them, that `to` has memory for them, and that nobody else uses either.
pub(super) struct Round<T> {
    pub(super) rounding: Rounding,
    pub(super) range: Range<usize>,
    pub(super) from: *const f32,
    pub(super) to: *mut T,
}

/// An element that rounded weights are written to.
pub(super) trait RoundedWeight {
    fn of(rounded: bf16) -> Self;
}

impl RoundedWeight for bf16 {
    #[inline(always)]
    fn of(rounded: bf16) -> bf16 {
        rounded
    }
}

impl RoundedWeight for f32 {
    #[inline(always)]
    fn of(rounded: bf16) -> f32 {
        bf16_to_f32(rounded)
    }
}

impl<T: RoundedWeight> Kernel for Round<T> {
    const WIDEST: InstructionSet = InstructionSet::Avx2;

    #[inline(always)]
    fn run(self, _: Instructions) {
        let Range { start, end } = self.range;
        for block in start / BLOCK..end.div_ceil(BLOCK) {
            let key = self.rounding.of_block(block);
            let origin = block * BLOCK;
            let first = start.max(origin);
            let last = end.min(origin + BLOCK);
            let within = (first - origin) as u32;
            for index in 0..last - first {
                let random = random_bits(key, within + index as u32);
                let place = first - start + index;
                // SAFETY: the element is in the range, and the code that created this guaranteed
                // the rest.
                unsafe {
                    let value = *self.from.add(place);
                    self.to.add(place).write(T::of(rounded(value, random)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruction_set::dispatch;

    fn all_rounded(
        instructions: Instructions,
        rounding: Rounding,
        first: usize,
        values: &[f32],
    ) -> Vec<u16> {
        let mut to = vec![bf16::NAN; values.len()];
        let round = Round {
            rounding,
            range: first..first + values.len(),
            from: values.as_ptr(),
            to: to.as_mut_ptr(),
        };
        dispatch(instructions, round);
        to.into_iter().map(bf16::to_bits).collect()
    }

    #[test]
    fn bits_depend_on_neither_parts_nor_instructions() {
        let values: Vec<f32> = (0..3000_u32)
            .map(|at| f32::from_bits(0x3f80_0000 + at.wrapping_mul(0x0123_4567) % 0x0300_0000))
            .collect();
        let rounding = Rounding::new(3, 5, 7);
        for first in [0, 1, 255, 256, 1000, (1 << 40) - 300] {
            let expected = all_rounded(Instructions::BASELINE, rounding, first, &values);
            for instructions in Instructions::all() {
                for part in [1, 7, 64, 512, 3000] {
                    let mut found = Vec::new();
                    for (at, values) in values.chunks(part).enumerate() {
                        let first = first + at * part;
                        found.extend(all_rounded(instructions, rounding, first, values));
                    }
                    assert!(found == expected, "{instructions:?} in parts of {part}");
                }
            }
        }
    }

    #[test]
    fn numbers_become_their_neighbours_by_their_distance() {
        for low in [1_u32, 0x40, 0x1234, 0x8000, 0xedcb, 0xffff] {
            for base in [
                0x3f80_0000_u32,
                0xbf80_0000,
                0x0000_0000,
                0x007f_0000,
                0x7f7e_0000,
            ] {
                let value = f32::from_bits(base + low);
                let ups = (0..1 << 16).filter(|&random| {
                    let found = u32::from(rounded(value, random).to_bits());
                    assert!(found == base >> 16 || found == (base >> 16) + 1);
                    found != base >> 16
                });
                assert_eq!(ups.count() as u32, low, "{value:e}");
            }
        }
    }

    #[test]
    fn what_has_no_neighbours_is_rounded_to_nearest() {
        for random in [0, 1, 0x8000, 0xffff] {
            let of_bits = |bits: u32| rounded(f32::from_bits(bits), random).to_bits();
            for sign in [0, 1 << 31] {
                let upper = (sign >> 16) as u16;
                assert_eq!(of_bits(sign | LARGEST), upper | 0x7f7f);
                assert_eq!(of_bits(sign | 0x7f7f_7fff), upper | 0x7f7f);
                assert_eq!(of_bits(sign | 0x7f7f_8000), upper | 0x7f80);
                assert_eq!(of_bits(sign | 0x7f80_0000), upper | 0x7f80);
                for nan in [0x7f80_0001, 0x7fc0_0000, 0x7fff_ffff] {
                    assert!(bf16::from_bits(of_bits(sign | nan)).is_nan());
                }
                assert_eq!(of_bits(sign), upper);
                assert_eq!(of_bits(sign | 0x3f80_0000), upper | 0x3f80);
            }
        }
    }

    /// Each of the 16 bits is 1 for half of the elements, updates, variables and seeds, and so is
    /// the difference of two neighbours.
    #[test]
    fn random_bits_are_even_in_every_argument() {
        const COUNT: u64 = 1 << 14;
        let bits_of = |rounding: Rounding, element: usize| {
            random_bits(rounding.of_block(element / BLOCK), (element % BLOCK) as u32)
        };
        let by_argument: [&dyn Fn(u64) -> u32; 4] = [
            &|at| bits_of(Rounding::new(0, 0, 0), at as usize),
            &|at| bits_of(Rounding::new(0, 0, at), 0),
            &|at| bits_of(Rounding::new(0, at, 0), 0),
            &|at| bits_of(Rounding::new(at, 0, 0), 0),
        ];
        for (argument, bits) in by_argument.iter().enumerate() {
            for bit in 0..16 {
                let is_set = |bits: u32| u64::from(bits >> bit & 1);
                let ones: u64 = (0..COUNT).map(|at| is_set(bits(at))).sum();
                let changes = (0..COUNT).map(|at| is_set(bits(at) ^ bits(at + 1)));
                for count in [ones, changes.sum()] {
                    // Five standard deviations of a fair coin.
                    let deviation = count.abs_diff(COUNT / 2) as f64;
                    assert!(
                        deviation < 5.0 * (COUNT as f64 / 4.0).sqrt(),
                        "{argument}, {bit}"
                    );
                }
            }
        }
    }
}
