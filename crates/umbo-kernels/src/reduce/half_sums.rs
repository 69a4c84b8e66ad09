//! Sums and means of 16-bit floats over replicas, with vector instructions.
//!
//! These functions are not compiled for an instruction set. They are inlined into loops that are.
//! If they were functions of an instruction set, the compiler would call them block by block
//! whenever it finds them too large to inline.

use std::mem::MaybeUninit;

use half::{bf16, f16};

#[cfg(target_arch = "x86_64")]
use crate::instruction_set::InstructionSet;
use crate::instruction_set::Instructions;

/// Reduces blocks of float16 by the processor's own conversions: adds them up in float32 from the
/// first to the last, divides the sums by `divisor` if there is one, and rounds them. If the
/// instructions have no such conversions, it does nothing and returns false.
///
/// The bits are those of [`f16_to_f32`](crate::float::half_precision::f16_to_f32) and
/// [`f32_to_f16`](crate::float::half_precision::f32_to_f16). Unlike the processor's conversion to
/// bfloat16, these conversions keep denormals in every mode, and keep the same bits of a NaN as our
/// functions.
#[inline(always)]
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(unused_variables, reason = "there are no such conversions")
)]
pub fn reduce_f16s<const R: usize, const N: usize>(
    instructions: Instructions,
    inputs: [&[f16; N]; R],
    divisor: Option<f32>,
    output: &mut [MaybeUninit<f16>; N],
) -> bool {
    #[cfg(target_arch = "x86_64")]
    if instructions.set() as u8 >= InstructionSet::Avx2 as u8 {
        // SAFETY: instructions of AVX2 and later sets exist only if the processor has them and
        // F16C.
        unsafe { reduce_f16s_f16c(inputs, divisor, output) };
        return true;
    }
    false
}

/// # Safety
/// The processor has AVX2 and F16C.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn reduce_f16s_f16c<const R: usize, const N: usize>(
    inputs: [&[f16; N]; R],
    divisor: Option<f32>,
    output: &mut [MaybeUninit<f16>; N],
) {
    use std::arch::x86_64::{
        _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128, _mm_storeu_si128, _mm256_add_ps,
        _mm256_cvtph_ps, _mm256_cvtps_ph, _mm256_div_ps, _mm256_set1_ps,
    };
    const LANES: usize = 8;
    const { assert!(R > 0 && N.is_multiple_of(LANES)) };
    let mut start = 0;
    while start < N {
        // SAFETY: the caller's promise. The vectors lie in the blocks, whose length is a multiple
        // of theirs, and any 16 bits are a valid element.
        unsafe {
            let load = |input: &[f16; N]| {
                _mm256_cvtph_ps(_mm_loadu_si128(input.as_ptr().add(start).cast()))
            };
            let mut sum = load(inputs[0]);
            for input in &inputs[1..] {
                sum = _mm256_add_ps(sum, load(input));
            }
            if let Some(divisor) = divisor {
                sum = _mm256_div_ps(sum, _mm256_set1_ps(divisor));
            }
            let rounded = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(sum);
            _mm_storeu_si128(output.as_mut_ptr().add(start).cast(), rounded);
        }
        start += LANES;
    }
}

/// Does for bfloat16 what [`reduce_f16s`] does for float16. Pairs of elements are separated by
/// shifts, added in float32, and rounded together in 16-bit lanes. The bits are those of
/// [`bf16_to_f32`](crate::float::half_precision::bf16_to_f32) and
/// [`f32_to_bf16`](crate::float::half_precision::f32_to_bf16).
#[inline(always)]
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(unused_variables, reason = "there are no such conversions")
)]
pub fn reduce_bf16s<const R: usize, const N: usize>(
    instructions: Instructions,
    inputs: [&[bf16; N]; R],
    divisor: Option<f32>,
    output: &mut [MaybeUninit<bf16>; N],
) -> bool {
    #[cfg(target_arch = "x86_64")]
    match instructions.set() {
        InstructionSet::Baseline => {}
        // SAFETY: there are such instructions only where the processor has them.
        InstructionSet::Avx2 => unsafe {
            reduce_bf16s_avx2(inputs, divisor, output);
            return true;
        },
        // SAFETY: as above.
        InstructionSet::Avx512 => unsafe {
            reduce_bf16s_avx512(inputs, divisor, output);
            return true;
        },
    }
    false
}

/// The upper half of each 32 bits: the odd elements, as float32.
#[cfg(target_arch = "x86_64")]
const ODD: i32 = i32::from_ne_bytes(0xffff_0000u32.to_ne_bytes());

/// The bit that makes a NaN with these upper 16 bits quiet.
#[cfg(target_arch = "x86_64")]
const QUIET: i16 = 0x40;

/// # Safety
/// The processor has AVX-512 F, BW and DQ.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn reduce_bf16s_avx512<const R: usize, const N: usize>(
    inputs: [&[bf16; N]; R],
    divisor: Option<f32>,
    output: &mut [MaybeUninit<bf16>; N],
) {
    use std::arch::x86_64::{
        __mmask32, _CMP_UNORD_Q, _mm512_add_ps, _mm512_adds_epu16, _mm512_and_si512,
        _mm512_castps_si512, _mm512_castsi512_ps, _mm512_cmp_ps_mask, _mm512_cmpgt_epu16_mask,
        _mm512_div_ps, _mm512_loadu_si512, _mm512_mask_blend_epi16, _mm512_mask_sub_epi16,
        _mm512_movepi16_mask, _mm512_movm_epi32, _mm512_or_si512, _mm512_set1_epi16,
        _mm512_set1_epi32, _mm512_set1_ps, _mm512_slli_epi32, _mm512_srli_epi32,
        _mm512_storeu_si512,
    };
    const LANES: usize = 32;
    const ODD_LANES: __mmask32 = 0xaaaa_aaaa;
    const { assert!(R > 0 && N.is_multiple_of(LANES)) };
    let mut start = 0;
    while start < N {
        // SAFETY: the caller's promise. The vectors lie in the blocks, whose length is a multiple
        // of theirs, and any 16 bits are a valid element.
        unsafe {
            let load = |input: &[bf16; N]| {
                let pairs = _mm512_loadu_si512(input.as_ptr().add(start).cast());
                let even = _mm512_slli_epi32::<16>(pairs);
                let odd = _mm512_and_si512(pairs, _mm512_set1_epi32(ODD));
                (_mm512_castsi512_ps(even), _mm512_castsi512_ps(odd))
            };
            let (mut even, mut odd) = load(inputs[0]);
            for input in &inputs[1..] {
                let more = load(input);
                even = _mm512_add_ps(even, more.0);
                odd = _mm512_add_ps(odd, more.1);
            }
            if let Some(divisor) = divisor {
                even = _mm512_div_ps(even, _mm512_set1_ps(divisor));
                odd = _mm512_div_ps(odd, _mm512_set1_ps(divisor));
            }
            let even_bits = _mm512_castps_si512(even);
            let odd_bits = _mm512_castps_si512(odd);
            let high =
                _mm512_mask_blend_epi16(ODD_LANES, _mm512_srli_epi32::<16>(even_bits), odd_bits);
            let low =
                _mm512_mask_blend_epi16(ODD_LANES, even_bits, _mm512_slli_epi32::<16>(odd_bits));
            // Rounds up if the lower half is more than half of the last place, or if it is exactly
            // half and the upper half is odd.
            let last_place = _mm512_and_si512(high, _mm512_set1_epi16(1));
            let up = _mm512_cmpgt_epu16_mask(
                _mm512_adds_epu16(low, last_place),
                _mm512_set1_epi16(i16::MIN),
            );
            let mut rounded = _mm512_mask_sub_epi16(high, up, high, _mm512_set1_epi16(-1));
            if _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(even, odd) != 0 {
                let nan = |sum| _mm512_movm_epi32(_mm512_cmp_ps_mask::<_CMP_UNORD_Q>(sum, sum));
                let nan = _mm512_mask_blend_epi16(ODD_LANES, nan(even), nan(odd));
                let quiet = _mm512_or_si512(high, _mm512_set1_epi16(QUIET));
                rounded = _mm512_mask_blend_epi16(_mm512_movepi16_mask(nan), rounded, quiet);
            }
            _mm512_storeu_si512(output.as_mut_ptr().add(start).cast(), rounded);
        }
        start += LANES;
    }
}

/// # Safety
/// The processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn reduce_bf16s_avx2<const R: usize, const N: usize>(
    inputs: [&[bf16; N]; R],
    divisor: Option<f32>,
    output: &mut [MaybeUninit<bf16>; N],
) {
    use std::arch::x86_64::{
        _CMP_UNORD_Q, _mm256_add_ps, _mm256_adds_epi16, _mm256_and_si256, _mm256_blend_epi16,
        _mm256_blendv_epi8, _mm256_castps_si256, _mm256_castsi256_ps, _mm256_cmp_ps,
        _mm256_cmpgt_epi16, _mm256_div_ps, _mm256_loadu_si256, _mm256_movemask_ps, _mm256_or_si256,
        _mm256_set1_epi16, _mm256_set1_epi32, _mm256_set1_ps, _mm256_setzero_si256,
        _mm256_slli_epi32, _mm256_srli_epi32, _mm256_storeu_si256, _mm256_sub_epi16,
        _mm256_xor_si256,
    };
    const LANES: usize = 16;
    const ODD_LANES: i32 = 0b1010_1010;
    const { assert!(R > 0 && N.is_multiple_of(LANES)) };
    let mut start = 0;
    while start < N {
        // SAFETY: the caller's promise. The vectors lie in the blocks, whose length is a multiple
        // of theirs, and any 16 bits are a valid element.
        unsafe {
            let load = |input: &[bf16; N]| {
                let pairs = _mm256_loadu_si256(input.as_ptr().add(start).cast());
                let even = _mm256_slli_epi32::<16>(pairs);
                let odd = _mm256_and_si256(pairs, _mm256_set1_epi32(ODD));
                (_mm256_castsi256_ps(even), _mm256_castsi256_ps(odd))
            };
            let (mut even, mut odd) = load(inputs[0]);
            for input in &inputs[1..] {
                let more = load(input);
                even = _mm256_add_ps(even, more.0);
                odd = _mm256_add_ps(odd, more.1);
            }
            if let Some(divisor) = divisor {
                even = _mm256_div_ps(even, _mm256_set1_ps(divisor));
                odd = _mm256_div_ps(odd, _mm256_set1_ps(divisor));
            }
            let even_bits = _mm256_castps_si256(even);
            let odd_bits = _mm256_castps_si256(odd);
            let high =
                _mm256_blend_epi16::<ODD_LANES>(_mm256_srli_epi32::<16>(even_bits), odd_bits);
            let low = _mm256_blend_epi16::<ODD_LANES>(even_bits, _mm256_slli_epi32::<16>(odd_bits));
            // The same rule as for AVX-512. With the first bit inverted, a comparison of signed
            // numbers compares unsigned ones.
            let last_place = _mm256_and_si256(high, _mm256_set1_epi16(1));
            let turned = _mm256_xor_si256(low, _mm256_set1_epi16(i16::MIN));
            let up = _mm256_cmpgt_epi16(
                _mm256_adds_epi16(turned, last_place),
                _mm256_setzero_si256(),
            );
            let mut rounded = _mm256_sub_epi16(high, up);
            if _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(even, odd)) != 0 {
                let nan = |sum| _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(sum, sum));
                let nan = _mm256_blend_epi16::<ODD_LANES>(nan(even), nan(odd));
                let quiet = _mm256_or_si256(high, _mm256_set1_epi16(QUIET));
                rounded = _mm256_blendv_epi8(rounded, quiet, nan);
            }
            _mm256_storeu_si256(output.as_mut_ptr().add(start).cast(), rounded);
        }
        start += LANES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::float::half_precision::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
    use crate::instruction_set::InstructionSet;

    /// Memory for a reduced block.
    type Reduced<E> = [MaybeUninit<E>; 64];

    /// Compares a reduced block with the results element by element. Every set but the baseline
    /// must have its own way to reduce a block.
    fn check<E: Copy, const R: usize>(
        instructions: Instructions,
        reduce: impl Fn(Instructions, [&[E; 64]; R], Option<f32>, &mut Reduced<E>) -> bool,
        element: impl Fn([E; R], Option<f32>) -> E,
        bits: impl Fn(E) -> u16,
        inputs: [[E; 64]; R],
    ) {
        for divisor in [None, Some(R as f32)] {
            let mut output = [MaybeUninit::uninit(); 64];
            let reduced = reduce(instructions, inputs.each_ref(), divisor, &mut output);
            assert_eq!(
                reduced,
                instructions.set() != InstructionSet::Baseline,
                "{instructions:?}"
            );
            if !reduced {
                continue;
            }
            for (lane, output) in output.into_iter().enumerate() {
                let expected = bits(element(inputs.map(|block| block[lane]), divisor));
                // SAFETY: all of it was written, since the function returned true.
                let ours = bits(unsafe { output.assume_init() });
                let all: Vec<_> = inputs.iter().map(|block| bits(block[lane])).collect();
                assert_eq!(ours, expected, "{all:x?} {divisor:?}");
            }
        }
    }

    /// One NaN for all: the compiler chooses the payload of the sum of two.
    fn one_nan(value: u16, infinity: u16) -> u16 {
        if value & 0x7fff > infinity {
            infinity | 1
        } else {
            value
        }
    }

    #[test]
    fn the_processor_gives_the_same_bits() {
        for instructions in Instructions::all() {
            for first in (0..=u16::MAX).step_by(64) {
                let block = |step: u16| -> [u16; 64] {
                    std::array::from_fn(|lane| (first + lane as u16).wrapping_mul(step))
                };
                // `near` makes sums of nearby exponents, many of which are ties.
                let near: [u16; 64] =
                    std::array::from_fn(|lane| (first + lane as u16).wrapping_add(0x380 + 0x11));
                let inputs = [block(1), near, block(257), block(4099)];
                fn sum<const R: usize>(values: [f32; R], divisor: Option<f32>) -> f32 {
                    let sum = values[1..].iter().fold(values[0], |sum, value| sum + value);
                    divisor.map_or(sum, |divisor| sum / divisor)
                }
                let bf16s = inputs.map(|block| block.map(bf16::from_bits));
                let bits = |value: bf16| one_nan(value.to_bits(), 0x7f80);
                let [a, b, c, d] = bf16s;
                fn bf16_of<const R: usize>(values: [bf16; R], divisor: Option<f32>) -> bf16 {
                    f32_to_bf16(sum(values.map(bf16_to_f32), divisor))
                }
                check(instructions, reduce_bf16s, bf16_of, bf16::to_bits, [a]);
                check(instructions, reduce_bf16s, bf16_of, bits, [a, b]);
                check(instructions, reduce_bf16s, bf16_of, bits, [a, b, c]);
                check(instructions, reduce_bf16s, bf16_of, bits, [a, b, c, d]);
                let bits = |value: f16| one_nan(value.to_bits(), 0x7c00);
                let [a, b, c, d] = inputs.map(|block| block.map(f16::from_bits));
                fn f16_of<const R: usize>(values: [f16; R], divisor: Option<f32>) -> f16 {
                    f32_to_f16(sum(values.map(f16_to_f32), divisor))
                }
                check(instructions, reduce_f16s, f16_of, f16::to_bits, [a]);
                check(instructions, reduce_f16s, f16_of, bits, [a, b]);
                check(instructions, reduce_f16s, f16_of, bits, [a, b, c]);
                check(instructions, reduce_f16s, f16_of, bits, [a, b, c, d]);
            }
        }
    }
}
