//! The innermost loop of a product: a tile of the result that fits into the registers.
//!
//! Every instruction set adds each product by a fused multiply-add, which rounds once. Processors
//! of the baseline of x86-64 have none: there it is computed in float64, and the result is
//! bit-identical.

use crate::instruction_set::Instructions;

/// The rows of a tile.
pub const ROWS: usize = 6;
/// The columns of a tile.
pub const COLUMNS: usize = 16;

/// A tile of a product.
pub type RegisterTile = [[f32; COLUMNS]; ROWS];

/// The sums of the products of `left`, the columns of the left factor's rows, and `right`, the rows
/// of the right factor's columns, in order. Inlined.
#[inline(always)]
pub fn sums(
    instructions: Instructions,
    left: &[[f32; ROWS]],
    right: &[[f32; COLUMNS]],
) -> RegisterTile {
    #[cfg(target_arch = "x86_64")]
    {
        use crate::instruction_set::InstructionSet;
        if instructions.set() != InstructionSet::Baseline {
            // SAFETY: there are such instructions only where the processor has them.
            return unsafe { x86::sums(left, right) };
        }
    }
    let _ = instructions;
    let mut sums = [[0.0; COLUMNS]; ROWS];
    for (left, right) in left.iter().zip(right) {
        for (sums, left) in sums.iter_mut().zip(left) {
            for (sum, right) in sums.iter_mut().zip(right) {
                *sum = fused(*left, *right, *sum);
            }
        }
    }
    sums
}

/// `left` × `right` + `sum`, rounded once.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn fused(left: f32, right: f32, sum: f32) -> f32 {
    left.mul_add(right, sum)
}

/// `left` × `right` + `sum`, rounded once.
///
/// The product is exact in float64. The sum is rounded to odd there: where it is not exact, the
/// last bit is set. Float64 has more than two bits above float32, so the second rounding is right
/// (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn fused(left: f32, right: f32, sum: f32) -> f32 {
    let product = f64::from(left) * f64::from(right);
    let addend = f64::from(sum);
    let rounded = product + addend;
    // The error of the addition, exact; NaN if a term is not finite.
    let part = rounded - product;
    let error = (product - (rounded - part)) + (addend - part);
    let bits = rounded.to_bits();
    let is_inexact = error.abs() > 0.0;
    let grows = (error > 0.0) == (rounded > 0.0);
    let odd = match grows {
        true => bits | 1,
        false => bits.wrapping_sub(1) | 1,
    };
    // An odd sum stays: it is next to the exact one, whichever of the two is larger.
    let is_even = bits & 1 == 0;
    f64::from_bits(if is_inexact && is_even { odd } else { bits }) as f32
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{COLUMNS, ROWS, RegisterTile};

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub fn sums(left: &[[f32; ROWS]], right: &[[f32; COLUMNS]]) -> RegisterTile {
        let mut sums = [[_mm256_setzero_ps(); 2]; ROWS];
        for (left, right) in left.iter().zip(right) {
            let (halves, _) = right.as_chunks::<{ COLUMNS / 2 }>();
            // SAFETY: each half has eight elements.
            let [low, high] =
                unsafe { [0, 1].map(|half: usize| _mm256_loadu_ps(halves[half].as_ptr())) };
            for (sums, left) in sums.iter_mut().zip(left) {
                let left = _mm256_set1_ps(*left);
                sums[0] = _mm256_fmadd_ps(left, low, sums[0]);
                sums[1] = _mm256_fmadd_ps(left, high, sums[1]);
            }
        }
        let mut tile = [[0.0; COLUMNS]; ROWS];
        for (to, [low, high]) in tile.iter_mut().zip(sums) {
            let (halves, _) = to.as_chunks_mut::<{ COLUMNS / 2 }>();
            // SAFETY: each half has eight elements.
            unsafe {
                _mm256_storeu_ps(halves[0].as_mut_ptr(), low);
                _mm256_storeu_ps(halves[1].as_mut_ptr(), high);
            }
        }
        tile
    }
}
