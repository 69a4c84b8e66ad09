//! Sixteen elements at a time, widened to float64, in the processor's lanes.
//!
//! The sum over replicas is the hottest loop of the library. Compilers handle it differently for each number of
//! replicas: for eight float32 replicas they made sixteen scalar conversions. So it is written in processor
//! instructions for the instruction sets that we know. For others it is a plain loop. The bits are the same.

use crate::kernels::instruction_set::Instructions;

/// How many elements a block has.
pub const BLOCK: usize = 16;

/// One term of a sum: the factor, and a pointer to its first element.
pub type Term<G> = (f64, *const G);

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

/// The sum over the terms of factor × element, in the order of the terms and in float64, multiplied with `scale` and
/// rounded. It is computed for the `N` elements from each term's first on. If there are no terms it is −0 × `scale`.
/// Returns `None` if there is no loop in instructions: if `N` is not [`BLOCK`], or on other processors. Inlined.
///
/// If the caller says that all products are exact, they are added by fused multiply-adds, which then give the same
/// bits.
///
/// # Safety
/// The elements can be read.
#[inline(always)]
pub unsafe fn weighted_sum<G: Widen, T: Round, const N: usize>(
    instructions: Instructions,
    terms: impl Iterator<Item = Term<G>>,
    products_are_exact: bool,
    scale: f64,
) -> Option<[T; N]> {
    #[cfg(target_arch = "x86_64")]
    if N == BLOCK {
        use crate::kernels::instruction_set::InstructionSet;
        let mut sum = std::mem::MaybeUninit::<[T; N]>::uninit();
        let to = sum.as_mut_ptr().cast::<[T; BLOCK]>();
        match instructions.set() {
            InstructionSet::Baseline => return None,
            // SAFETY: there are such instructions only where the processor has them; the caller's promise.
            InstructionSet::Avx2 => unsafe { x86::of_four(terms, products_are_exact, scale, to) },
            // SAFETY: as above.
            InstructionSet::Avx512 => unsafe {
                x86::of_eight(terms, products_are_exact, scale, to)
            },
        }
        // SAFETY: it has just been written.
        return Some(unsafe { sum.assume_init() });
    }
    let _ = (instructions, terms, products_are_exact, scale);
    None
}

/// Adds the squares of each block's elements to the sums of their lanes, in float64. If there is no loop in
/// instructions it adds nothing and returns `false`. Inlined.
///
/// If the caller says that all squares are exact in float64, they are added by fused multiply-adds, which then give
/// the same bits.
#[inline(always)]
pub fn add_squares<G: Widen>(
    instructions: Instructions,
    blocks: &[[G; BLOCK]],
    squares_are_exact: bool,
    sums: &mut [f64; BLOCK],
) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use crate::kernels::instruction_set::InstructionSet;
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

    use super::{BLOCK, Round, Term, Widen};

    /// # Safety
    /// As for [`super::weighted_sum`], `to` can be written, and the processor has AVX2, FMA and F16C.
    #[inline]
    #[target_feature(enable = "avx2,f16c,fma")]
    pub unsafe fn of_four<G: Widen, T: Round>(
        mut terms: impl Iterator<Item = Term<G>>,
        products_are_exact: bool,
        scale: f64,
        to: *mut [T; BLOCK],
    ) {
        let mut sums = [_mm256_set1_pd(-0.0); 4];
        // −0 + a product is the product.
        if let Some((factor, from)) = terms.next() {
            let factor = _mm256_set1_pd(factor);
            for (index, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the four are among the sixteen that the caller guarantees.
                *sum = _mm256_mul_pd(factor, unsafe { G::four(from.add(4 * index)) });
            }
        }
        for (factor, from) in terms {
            let factor = _mm256_set1_pd(factor);
            for (index, sum) in sums.iter_mut().enumerate() {
                // SAFETY: as above.
                let elements = unsafe { G::four(from.add(4 * index)) };
                *sum = if products_are_exact {
                    _mm256_fmadd_pd(factor, elements, *sum)
                } else {
                    _mm256_add_pd(*sum, _mm256_mul_pd(factor, elements))
                };
            }
        }
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
    /// As for [`super::weighted_sum`], `to` can be written, and the processor has FMA, AVX-512 F and DQ.
    #[inline]
    #[target_feature(enable = "avx2,f16c,fma,avx512f,avx512bw,avx512dq,avx512vl")]
    pub unsafe fn of_eight<G: Widen, T: Round>(
        mut terms: impl Iterator<Item = Term<G>>,
        products_are_exact: bool,
        scale: f64,
        to: *mut [T; BLOCK],
    ) {
        let mut sums = [_mm512_set1_pd(-0.0); 2];
        // −0 + a product is the product.
        if let Some((factor, from)) = terms.next() {
            let factor = _mm512_set1_pd(factor);
            for (index, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the eight are among the sixteen that the caller guarantees.
                *sum = _mm512_mul_pd(factor, unsafe { G::eight(from.add(8 * index)) });
            }
        }
        for (factor, from) in terms {
            let factor = _mm512_set1_pd(factor);
            for (index, sum) in sums.iter_mut().enumerate() {
                // SAFETY: as above.
                let elements = unsafe { G::eight(from.add(8 * index)) };
                *sum = if products_are_exact {
                    _mm512_fmadd_pd(factor, elements, *sum)
                } else {
                    _mm512_add_pd(*sum, _mm512_mul_pd(factor, elements))
                };
            }
        }
        let scale = _mm512_set1_pd(scale);
        let [low, high] = sums;
        // SAFETY: the caller's promise.
        unsafe { T::round_eight([_mm512_mul_pd(low, scale), _mm512_mul_pd(high, scale)], to) };
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

    /// The two ways to load elements. Each is an expression with the pointer.
    macro_rules! widen {
        ($($type:ty: |$from:ident| $four:expr, $eight:expr;)*) => {
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
            ))));
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
                _mm512_storeu_ps(to.cast(), _mm512_insertf32x8::<1>(low, _mm512_cvtpd_ps(high)));
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
