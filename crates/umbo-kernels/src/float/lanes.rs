//! Sixteen elements at a time in the processor's lanes, widened to float64 where float32 would
//! round their sum.
//!
//! The sum over replicas is the hottest loop of the library. Compilers handle it differently for
//! each number of replicas: for eight float32 replicas they made sixteen scalar conversions. So it
//! is written in processor instructions for the instruction sets that we know. For others it is a
//! plain loop. The bits are the same.

use crate::instruction_set::Instructions;

/// The number of elements a block has.
pub const BLOCK: usize = 16;

/// One term of a sum: the factor, and a pointer to its first element.
pub type Term<G> = (f64, *const G);

/// The known properties of the products of factors and elements in a sum.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Products {
    /// Nothing.
    Rounded,
    /// All are exact in float64, and so are the products of the factors and any number of float32.
    /// The products can be added by fused multiply-adds.
    Exact,
    /// The products are exact, and all terms have the same factor, which is positive.
    OfOneFactor {
        /// There are at most 2^`doublings` terms.
        doublings: i16,
    },
}

/// An element type whose elements can enter a sum.
pub trait Widen: Copy {
    /// Four elements in float64.
    ///
    /// # Safety
    /// They can be read, and the processor has AVX2 and F16C.
    #[cfg(target_arch = "x86_64")]
    unsafe fn four(from: *const Self) -> std::arch::x86_64::__m256d;

    /// Eight elements in float64.
    ///
    /// # Safety
    /// They can be read, and the processor has AVX-512 F.
    #[cfg(target_arch = "x86_64")]
    unsafe fn eight(from: *const Self) -> std::arch::x86_64::__m512d;

    /// The sums of sixteen elements of all terms in float32, without the factors, or `None` if one
    /// of them might be rounded, or if the type's sums usually are.
    ///
    /// # Safety
    /// The sixteen can be read, and the processor has AVX2, FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn exact_sum(
        _: impl Iterator<Item = Term<Self>>,
        _doublings: i16,
    ) -> Option<[std::arch::x86_64::__m256; 2]> {
        None
    }
}

/// An element type to which a sum can be rounded.
pub trait Round: Copy {
    /// The eight numbers, rounded.
    ///
    /// # Safety
    /// `to` can be written, and the processor has AVX2.
    #[cfg(target_arch = "x86_64")]
    unsafe fn round_four(values: [std::arch::x86_64::__m256d; 2], to: *mut [Self; 8]);

    /// The sixteen numbers, rounded.
    ///
    /// # Safety
    /// `to` can be written, and the processor has AVX-512 F and DQ.
    #[cfg(target_arch = "x86_64")]
    unsafe fn round_eight(values: [std::arch::x86_64::__m512d; 2], to: *mut [Self; BLOCK]);
}

/// The sum of `start` and, over the terms, factor × element, in the order of the terms and in
/// float64, multiplied by `scale` and rounded. It is computed for the `N` elements from each
/// term's first on. A sum that starts at −0 is that of the terms alone; products of one factor are
/// added so. Returns `None` if there is no loop in instructions: if
/// `N` is not [`BLOCK`], or on other processors. Inlined.
///
/// The properties of the products make it faster; the bits are the same.
///
/// # Safety
/// The elements can be read.
#[inline(always)]
pub unsafe fn weighted_sum<G: Widen, T: Round, const N: usize>(
    instructions: Instructions,
    start: f64,
    terms: impl Iterator<Item = Term<G>> + Clone,
    products: Products,
    scale: f64,
) -> Option<[T; N]> {
    #[cfg(target_arch = "x86_64")]
    if N == BLOCK {
        use crate::instruction_set::InstructionSet;
        let mut sum = std::mem::MaybeUninit::<[T; N]>::uninit();
        let to = sum.as_mut_ptr().cast::<[T; BLOCK]>();
        match instructions.set() {
            InstructionSet::Baseline => return None,
            // SAFETY: there are such instructions only where the processor has them; the caller's
            // promise.
            InstructionSet::Avx2 => unsafe { x86::of_four(start, terms, products, scale, to) },
            // SAFETY: as above.
            InstructionSet::Avx512 => unsafe { x86::of_eight(start, terms, products, scale, to) },
        }
        // SAFETY: it has just been written.
        return Some(unsafe { sum.assume_init() });
    }
    let _ = (instructions, start, terms, products, scale);
    None
}

/// Adds the squares of each block's elements to the sums of their lanes, in float64. If there is no
/// loop in instructions it adds nothing and returns `false`. Inlined.
///
/// If the caller says that all squares are exact in float64, they are added by fused multiply-adds,
/// which then give the same bits.
#[inline(always)]
pub fn add_squares<G: Widen>(
    instructions: Instructions,
    blocks: &[[G; BLOCK]],
    squares_are_exact: bool,
    sums: &mut [f64; BLOCK],
) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use crate::instruction_set::InstructionSet;
        match instructions.set() {
            InstructionSet::Baseline => return false,
            // SAFETY: there are such instructions only where the processor has them.
            InstructionSet::Avx2 => unsafe {
                x86::squares_of_four(blocks, squares_are_exact, sums)
            },
            // SAFETY: as above.
            InstructionSet::Avx512 => unsafe {
                x86::squares_of_eight(blocks, squares_are_exact, sums)
            },
        }
        true
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (instructions, blocks, squares_are_exact, sums);
        false
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use half::{bf16, f16};

    use super::{BLOCK, Products, Round, Term, Widen};

    /// # Safety
    /// As for [`super::weighted_sum`], `to` can be written, and the processor has AVX2, FMA and
    /// F16C.
    #[inline]
    #[target_feature(enable = "avx2,f16c,fma")]
    pub unsafe fn of_four<G: Widen, T: Round>(
        start: f64,
        terms: impl Iterator<Item = Term<G>> + Clone,
        products: Products,
        scale: f64,
        to: *mut [T; BLOCK],
    ) {
        // SAFETY: the caller's promise.
        let sums = match unsafe { exact_sum(terms.clone(), products) } {
            Some((factor, [low, high])) => {
                let factor = _mm256_set1_pd(factor);
                let quarters = [
                    _mm256_castps256_ps128(low),
                    _mm256_extractf128_ps::<1>(low),
                    _mm256_castps256_ps128(high),
                    _mm256_extractf128_ps::<1>(high),
                ];
                quarters.map(|quarter| _mm256_mul_pd(factor, _mm256_cvtps_pd(quarter)))
            }
            // SAFETY: as above.
            None => unsafe { sums_of_four(start, terms, products) },
        };
        let scale = _mm256_set1_pd(scale);
        let [a, b, c, d] = sums;
        let [a, b, c, d] = [
            _mm256_mul_pd(a, scale),
            _mm256_mul_pd(b, scale),
            _mm256_mul_pd(c, scale),
            _mm256_mul_pd(d, scale),
        ];
        let halves = to.cast::<[T; BLOCK / 2]>();
        // SAFETY: the two halves are the whole array, which the caller guarantees.
        unsafe {
            T::round_four([a, b], halves);
            T::round_four([c, d], halves.add(1));
        }
    }

    /// # Safety
    /// As for [`super::weighted_sum`], `to` can be written, and the processor has FMA, AVX-512 F
    /// and DQ.
    #[inline]
    #[target_feature(enable = "avx2,f16c,fma,avx512f,avx512bw,avx512dq,avx512vl")]
    pub unsafe fn of_eight<G: Widen, T: Round>(
        start: f64,
        terms: impl Iterator<Item = Term<G>> + Clone,
        products: Products,
        scale: f64,
        to: *mut [T; BLOCK],
    ) {
        // SAFETY: the caller's promise.
        let sums = match unsafe { exact_sum(terms.clone(), products) } {
            Some((factor, halves)) => {
                let factor = _mm512_set1_pd(factor);
                halves.map(|half| _mm512_mul_pd(factor, _mm512_cvtps_pd(half)))
            }
            // SAFETY: as above.
            None => unsafe { sums_of_eight(start, terms, products) },
        };
        let scale = _mm512_set1_pd(scale);
        let [low, high] = sums;
        // SAFETY: the caller's promise.
        unsafe { T::round_eight([_mm512_mul_pd(low, scale), _mm512_mul_pd(high, scale)], to) };
    }

    /// The sums in float32 and the factor, if the sums are exact.
    ///
    /// # Safety
    /// As for [`super::weighted_sum`], and the processor has AVX2, FMA and F16C.
    #[inline]
    #[target_feature(enable = "avx2,f16c,fma")]
    unsafe fn exact_sum<G: Widen>(
        terms: impl Iterator<Item = Term<G>> + Clone,
        products: Products,
    ) -> Option<(f64, [__m256; 2])> {
        let Products::OfOneFactor { doublings } = products else {
            return None;
        };
        let (factor, _) = terms.clone().next()?;
        // SAFETY: the caller's promise.
        Some((factor, unsafe { G::exact_sum(terms, doublings) }?))
    }

    /// # Safety
    /// As for [`super::weighted_sum`], and the processor has AVX2, FMA and F16C.
    #[inline]
    #[target_feature(enable = "avx2,f16c,fma")]
    unsafe fn sums_of_four<G: Widen>(
        start: f64,
        terms: impl Iterator<Item = Term<G>>,
        products: Products,
    ) -> [__m256d; 4] {
        let mut sums = [_mm256_set1_pd(start); 4];
        for (factor, from) in terms {
            let factor = _mm256_set1_pd(factor);
            for (index, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the four are among the sixteen that the caller guarantees.
                let elements = unsafe { G::four(from.add(4 * index)) };
                *sum = if products == Products::Rounded {
                    _mm256_add_pd(*sum, _mm256_mul_pd(factor, elements))
                } else {
                    _mm256_fmadd_pd(factor, elements, *sum)
                };
            }
        }
        sums
    }

    /// # Safety
    /// As for [`super::weighted_sum`], and the processor has FMA, AVX-512 F and DQ.
    #[inline]
    #[target_feature(enable = "avx2,f16c,fma,avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn sums_of_eight<G: Widen>(
        start: f64,
        terms: impl Iterator<Item = Term<G>>,
        products: Products,
    ) -> [__m512d; 2] {
        let mut sums = [_mm512_set1_pd(start); 2];
        for (factor, from) in terms {
            let factor = _mm512_set1_pd(factor);
            for (index, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the eight are among the sixteen that the caller guarantees.
                let elements = unsafe { G::eight(from.add(8 * index)) };
                *sum = if products == Products::Rounded {
                    _mm512_add_pd(*sum, _mm512_mul_pd(factor, elements))
                } else {
                    _mm512_fmadd_pd(factor, elements, *sum)
                };
            }
        }
        sums
    }

    /// The sums of sixteen bfloat16 numbers of all terms, or `None` if one might be rounded.
    ///
    /// A bfloat16 number with exponent e is a multiple of 2^(e − 7), and less than 2^(e + 1). So if
    /// the exponents of a sum's R numbers, zeros excepted, differ by at most 16 − log₂ R, then
    /// the partial sums are multiples of a number of which they are less than 2²⁴ times as
    /// much, and float32 can represent them. Gradients of a few replicas usually are of such
    /// sizes.
    ///
    /// # Safety
    /// The elements can be read, and the processor has AVX2, FMA and F16C.
    #[inline]
    #[target_feature(enable = "avx2,f16c,fma")]
    unsafe fn exact_sum_of_bf16s(
        terms: impl Iterator<Item = Term<bf16>>,
        doublings: i16,
    ) -> Option<[__m256; 2]> {
        let mut low = _mm256_set1_ps(-0.0);
        let mut high = _mm256_set1_ps(-0.0);
        let mut most = _mm256_setzero_si256();
        let mut least = _mm256_set1_epi16(-1);
        for (_, from) in terms {
            // SAFETY: the sixteen are those that the caller guarantees.
            let bits = unsafe { _mm256_loadu_si256(from.cast()) };
            let wide =
                |half| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(half)));
            low = _mm256_add_ps(low, wide(_mm256_castsi256_si128(bits)));
            high = _mm256_add_ps(high, wide(_mm256_extracti128_si256::<1>(bits)));
            // Without the sign, the exponent is in the upper byte. 1 is subtracted, so that zero
            // becomes 65535 and is ignored. A power of two then counts as one exponent
            // lower, which is only more careful.
            let magnitudes = _mm256_add_epi16(bits, bits);
            most = _mm256_max_epu16(most, magnitudes);
            least = _mm256_min_epu16(least, _mm256_sub_epi16(magnitudes, _mm256_set1_epi16(1)));
        }
        let limit = 16 - doublings;
        let [most, least] = [most, least].map(|bits| _mm256_srli_epi16::<8>(bits));
        let too_far = _mm256_cmpgt_epi16(_mm256_subs_epu16(most, least), _mm256_set1_epi16(limit));
        // The sums have to be finite.
        let too_large = _mm256_cmpgt_epi16(most, _mm256_set1_epi16(237 + limit));
        let rounded = _mm256_or_si256(too_far, too_large);
        (_mm256_testz_si256(rounded, rounded) == 1).then_some([low, high])
    }

    /// # Safety
    /// The processor has AVX2, FMA and F16C.
    #[inline]
    #[target_feature(enable = "avx2,f16c,fma")]
    pub unsafe fn squares_of_four<G: Widen>(
        blocks: &[[G; BLOCK]],
        squares_are_exact: bool,
        sums: &mut [f64; BLOCK],
    ) {
        let quarters = sums.as_mut_ptr().cast::<[f64; 4]>();
        // SAFETY: the four quarters are the sixteen sums.
        let mut lanes =
            [0, 1, 2, 3].map(|index| unsafe { _mm256_loadu_pd(quarters.add(index).cast()) });
        for block in blocks {
            for (index, sum) in lanes.iter_mut().enumerate() {
                // SAFETY: the four are among the sixteen of the block.
                let elements = unsafe { G::four(block.as_ptr().add(4 * index)) };
                *sum = if squares_are_exact {
                    _mm256_fmadd_pd(elements, elements, *sum)
                } else {
                    _mm256_add_pd(*sum, _mm256_mul_pd(elements, elements))
                };
            }
        }
        for (index, sum) in lanes.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe { _mm256_storeu_pd(quarters.add(index).cast(), sum) };
        }
    }

    /// # Safety
    /// The processor has FMA, AVX-512 F and DQ.
    #[inline]
    #[target_feature(enable = "avx2,f16c,fma,avx512f,avx512bw,avx512dq,avx512vl")]
    pub unsafe fn squares_of_eight<G: Widen>(
        blocks: &[[G; BLOCK]],
        squares_are_exact: bool,
        sums: &mut [f64; BLOCK],
    ) {
        let halves = sums.as_mut_ptr().cast::<[f64; 8]>();
        // SAFETY: the two halves are the sixteen sums.
        let mut lanes = [0, 1].map(|index| unsafe { _mm512_loadu_pd(halves.add(index).cast()) });
        for block in blocks {
            for (index, sum) in lanes.iter_mut().enumerate() {
                // SAFETY: the eight are among the sixteen of the block.
                let elements = unsafe { G::eight(block.as_ptr().add(8 * index)) };
                *sum = if squares_are_exact {
                    _mm512_fmadd_pd(elements, elements, *sum)
                } else {
                    _mm512_add_pd(*sum, _mm512_mul_pd(elements, elements))
                };
            }
        }
        for (index, sum) in lanes.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe { _mm512_storeu_pd(halves.add(index).cast(), sum) };
        }
    }

    /// The two ways to load elements, and one to add them if there is one. Each is an expression
    /// with the pointer, or the terms.
    macro_rules! widen {
        ($($type:ty: |$from:ident| $four:expr, $eight:expr $(, exact: $exact:ident)?;)*) => {
            $(
                impl Widen for $type {
                    #[inline(always)]
                    unsafe fn four($from: *const $type) -> __m256d {
                        // SAFETY: the caller's promise.
                        unsafe { $four }
                    }

                    #[inline(always)]
                    unsafe fn eight($from: *const $type) -> __m512d {
                        // SAFETY: the caller's promise.
                        unsafe { $eight }
                    }

                    $(
                        #[inline(always)]
                        unsafe fn exact_sum(
                            terms: impl Iterator<Item = Term<$type>>,
                            doublings: i16,
                        ) -> Option<[__m256; 2]> {
                            // SAFETY: the caller's promise.
                            unsafe { $exact(terms, doublings) }
                        }
                    )?
                }
            )*
        };
    }

    widen! {
        f64: |from| _mm256_loadu_pd(from), _mm512_loadu_pd(from);
        f32: |from|
            _mm256_cvtps_pd(_mm_loadu_ps(from)),
            _mm512_cvtps_pd(_mm256_loadu_ps(from));
        f16: |from|
            _mm256_cvtps_pd(_mm_cvtph_ps(_mm_loadl_epi64(from.cast()))),
            _mm512_cvtps_pd(_mm256_cvtph_ps(_mm_loadu_si128(from.cast())));
        // A bfloat16 has the upper half of the bits of a float32.
        bf16: |from|
            _mm256_cvtps_pd(_mm_castsi128_ps(_mm_slli_epi32::<16>(_mm_cvtepu16_epi32(
                _mm_loadl_epi64(from.cast()),
            )))),
            _mm512_cvtps_pd(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(
                _mm_loadu_si128(from.cast()),
            )))),
            exact: exact_sum_of_bf16s;
    }

    impl Round for f64 {
        #[inline(always)]
        unsafe fn round_four([low, high]: [__m256d; 2], to: *mut [f64; 8]) {
            // SAFETY: the caller's promise; the two are the whole array.
            unsafe {
                _mm256_storeu_pd(to.cast(), low);
                _mm256_storeu_pd(to.cast::<f64>().add(4), high);
            }
        }

        #[inline(always)]
        unsafe fn round_eight([low, high]: [__m512d; 2], to: *mut [f64; BLOCK]) {
            // SAFETY: as above.
            unsafe {
                _mm512_storeu_pd(to.cast(), low);
                _mm512_storeu_pd(to.cast::<f64>().add(8), high);
            }
        }
    }

    impl Round for f32 {
        #[inline(always)]
        unsafe fn round_four([low, high]: [__m256d; 2], to: *mut [f32; 8]) {
            // SAFETY: the caller's promise.
            unsafe {
                let both = _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low));
                _mm256_storeu_ps(to.cast(), both);
            }
        }

        #[inline(always)]
        unsafe fn round_eight([low, high]: [__m512d; 2], to: *mut [f32; BLOCK]) {
            // SAFETY: as above.
            unsafe {
                let low = _mm512_castps256_ps512(_mm512_cvtpd_ps(low));
                _mm512_storeu_ps(
                    to.cast(),
                    _mm512_insertf32x8::<1>(low, _mm512_cvtpd_ps(high)),
                );
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod plain {
    use half::{bf16, f16};

    use super::{Round, Widen};

    impl Widen for f64 {}
    impl Widen for f32 {}
    impl Widen for f16 {}
    impl Widen for bf16 {}
    impl Round for f64 {}
    impl Round for f32 {}
}
