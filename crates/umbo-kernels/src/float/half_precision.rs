//! Conversions between 16-bit floats and wider ones, as integer code that vectorises.
//!
//! Conversions round to nearest, ties to even. Denormals are kept. No denormal is ever an operand
//! of floating-point arithmetic here, so the results do not depend on the thread's flush-to-zero
//! mode. The processor's own bfloat16 instruction is not used, because it flushes denormals. The
//! conversions of the crate `half` are not used, because they test the processor's features on
//! every call, and so keep the compiler from vectorising a loop.

use half::{bf16, f16};

#[cfg(target_arch = "x86_64")]
use crate::instruction_set::InstructionSet;
use crate::instruction_set::Instructions;

/// 2^-14, the smallest normal float16, as bits of a float32.
const SMALLEST_NORMAL: u32 = 113 << 23;

/// float16 to float32, exact.
#[inline(always)]
pub fn f16_to_f32(value: f16) -> f32 {
    let bits = u32::from(value.to_bits());
    let sign = (bits & 0x8000) << 16;
    let magnitude = (bits & 0x7fff) << 13;
    // A denormal is m * 2^-24. The number with m in the mantissa field of 2^-14 is larger by 2^-14,
    // which is subtracted.
    let denormal = f32::from_bits(magnitude + SMALLEST_NORMAL) - f32::from_bits(SMALLEST_NORMAL);
    let wide = if magnitude < 1 << 23 {
        denormal.to_bits()
    } else if magnitude < 31 << 23 {
        magnitude + (112 << 23)
    } else {
        magnitude | (255 << 23)
    };
    f32::from_bits(wide | sign)
}

/// float32 to float16.
#[inline(always)]
pub fn f32_to_f16(value: f32) -> f16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    // In a number near 1/2, the last place is 2^-24, the unit of float16 denormals. So adding 1/2
    // rounds.
    let half = 126 << 23;
    let denormal = (f32::from_bits(magnitude) + f32::from_bits(half))
        .to_bits()
        .wrapping_sub(half);
    let odd = (magnitude >> 13) & 1;
    let normal = magnitude.wrapping_add(0xfff + odd).wrapping_sub(112 << 23) >> 13;
    let narrow = if magnitude < SMALLEST_NORMAL {
        denormal
    } else if magnitude < 143 << 23 {
        normal
    } else if magnitude <= 255 << 23 {
        0x7c00
    } else {
        0x7e00 | ((magnitude >> 13) & 0x3ff)
    };
    f16::from_bits((narrow | sign) as u16)
}

/// bfloat16 to float32, exact.
#[inline(always)]
pub fn bf16_to_f32(value: bf16) -> f32 {
    f32::from_bits(u32::from(value.to_bits()) << 16)
}

/// float32 to bfloat16.
#[inline(always)]
pub fn f32_to_bf16(value: f32) -> bf16 {
    let bits = value.to_bits();
    let odd = (bits >> 16) & 1;
    let rounded = bits.wrapping_add(0x7fff + odd) >> 16;
    let nan = (bits >> 16) | 0x40;
    bf16::from_bits(if bits & 0x7fff_ffff > 255 << 23 {
        nan
    } else {
        rounded
    } as u16)
}

/// float16 to float32, exact, by the processor's own conversion if there is one. The bits are those
/// of [`f16_to_f32`], except that signalling NaNs become quiet.
#[inline(always)]
pub fn widen_f16s<const N: usize>(instructions: Instructions, values: [f16; N]) -> [f32; N] {
    #[cfg(not(target_arch = "x86_64"))]
    let _ = instructions;
    #[cfg(target_arch = "x86_64")]
    if N.is_multiple_of(8) && instructions.set() as u8 >= InstructionSet::Avx2 as u8 {
        // SAFETY: there are instructions of AVX2 and later sets only where the processor has F16C.
        return unsafe { widen_f16s_f16c(values) };
    }
    values.map(f16_to_f32)
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn widen_f16s_f16c<const N: usize>(values: [f16; N]) -> [f32; N] {
    use std::arch::x86_64::{_mm_loadu_si128, _mm256_cvtph_ps, _mm256_storeu_ps};
    let mut wide = [0.0f32; N];
    for (values, wide) in values.chunks_exact(8).zip(wide.chunks_exact_mut(8)) {
        // SAFETY: both chunks are eight elements long.
        unsafe {
            let eight = _mm256_cvtph_ps(_mm_loadu_si128(values.as_ptr().cast()));
            _mm256_storeu_ps(wide.as_mut_ptr(), eight);
        }
    }
    wide
}

/// float32 to float16, by the processor's own conversion if there is one. The bits are those of
/// [`f32_to_f16`]: unlike the processor's conversion to bfloat16, this one keeps denormals in every
/// mode.
#[inline(always)]
pub fn narrow_to_f16s<const N: usize>(instructions: Instructions, values: &[f32; N]) -> [f16; N] {
    #[cfg(not(target_arch = "x86_64"))]
    let _ = instructions;
    #[cfg(target_arch = "x86_64")]
    if N.is_multiple_of(8) && instructions.set() as u8 >= InstructionSet::Avx2 as u8 {
        // SAFETY: there are instructions of AVX2 and later sets only where the processor has F16C.
        return unsafe { narrow_to_f16s_f16c(values) };
    }
    let mut narrow = [f16::ZERO; N];
    narrow
        .iter_mut()
        .zip(values)
        .for_each(|(narrow, &value)| *narrow = f32_to_f16(value));
    narrow
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn narrow_to_f16s_f16c<const N: usize>(values: &[f32; N]) -> [f16; N] {
    use std::arch::x86_64::{
        _MM_FROUND_TO_NEAREST_INT, _mm_storeu_si128, _mm256_cvtps_ph, _mm256_loadu_ps,
    };
    let mut narrow = [f16::ZERO; N];
    for (values, narrow) in values.chunks_exact(8).zip(narrow.chunks_exact_mut(8)) {
        // SAFETY: both chunks are eight elements long.
        unsafe {
            let eight = _mm256_loadu_ps(values.as_ptr());
            let eight = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(eight);
            _mm_storeu_si128(narrow.as_mut_ptr().cast(), eight);
        }
    }
    narrow
}

/// float64 to float16, rounded once.
pub fn f64_to_f16(value: f64) -> f16 {
    f16::from_f64_const(with_sticky_bit(value))
}

/// float64 to bfloat16, rounded once.
pub fn f64_to_bf16(value: f64) -> bf16 {
    bf16::from_f64_const(with_sticky_bit(value))
}

/// Sets the lowest of the upper 32 bits if any of the lower 32 bits is set. `half` reads only the
/// upper 32 bits of a float64, and the lower ones decide whether a number is a tie.
fn with_sticky_bit(value: f64) -> f64 {
    let bits = value.to_bits();
    let followed = bits & 0xffff_ffff != 0;
    f64::from_bits(bits | u64::from(followed) << 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widening_agrees_with_half_for_every_pattern() {
        for bits in 0..=u16::MAX {
            let ours = f16_to_f32(f16::from_bits(bits));
            let theirs = f16::from_bits(bits).to_f32_const();
            assert!(
                ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(),
                "{bits:x}"
            );
            let ours = bf16_to_f32(bf16::from_bits(bits));
            let theirs = bf16::from_bits(bits).to_f32_const();
            assert!(
                ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(),
                "{bits:x}"
            );
        }
    }

    #[test]
    fn narrowing_agrees_with_half() {
        // An odd stride that is not round meets every exponent and every kind of trailing
        // bits. The neighbours of each tie are added.
        let ties = (0..=u16::MAX).flat_map(|upper| {
            let f16_tie = (u32::from(upper) << 13 | 1 << 12).wrapping_add(112 << 23);
            let bf16_tie = u32::from(upper) << 16 | 1 << 15;
            [
                f16_tie - 1,
                f16_tie,
                f16_tie + 1,
                bf16_tie - 1,
                bf16_tie,
                bf16_tie + 1,
            ]
        });
        for bits in (0..=u32::MAX).step_by(997).chain(ties) {
            let value = f32::from_bits(bits);
            let ours = f32_to_f16(value);
            let theirs = f16::from_f32_const(value);
            assert!(
                ours.to_bits() == theirs.to_bits() || value.is_nan() && ours.is_nan(),
                "{bits:x}"
            );
            let ours = f32_to_bf16(value);
            let theirs = bf16::from_f32_const(value);
            assert!(
                ours.to_bits() == theirs.to_bits() || value.is_nan() && ours.is_nan(),
                "{bits:x}"
            );
        }
    }

    #[test]
    fn a_tail_below_half_a_place_breaks_the_tie() {
        let tail = 2f64.powi(-40);
        assert_eq!(f64_to_bf16(257.0).to_f64(), 256.0);
        assert_eq!(f64_to_bf16(257.0 + tail).to_f64(), 258.0);
        assert_eq!(f64_to_f16(2049.0).to_f64(), 2048.0);
        assert_eq!(f64_to_f16(2049.0 + tail).to_f64(), 2050.0);
        assert!(f64_to_f16(f64::NAN).is_nan());
        assert_eq!(f64_to_bf16(f64::INFINITY), bf16::INFINITY);
        assert_eq!(f32_to_bf16(1e-40).to_bits(), 1);
    }
}
