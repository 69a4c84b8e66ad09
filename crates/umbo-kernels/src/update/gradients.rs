//! How a loop over a [`WeightedSum`] makes gradients, block by block.
//!
//! There is one general way that works for every sum, and there are faster ways for the usual sums.
//! Each way is a value that holds all that it needs, so that a loop keeps it in registers. Data
//! behind a reference would be read again for each block, because the loop writes memory. All ways
//! give the same bits.

use std::marker::PhantomData;

use crate::dtype::DType;
use crate::float::gradient_element::GradientElement;
use crate::float::lanes::{self, BLOCK, Products};
use crate::float::real::Real;
use crate::instruction_set::Instructions;
use crate::prefetch::{BYTES_AHEAD, prefetch};
use crate::update::weighted_sum::{Contribution, Finish, Scale, WeightedSum};

/// A way to make gradients of type `T`.
pub(super) trait MakeGradients<T>: Copy {
    /// The number of arrays it reads side by side, if they are few.
    const ARRAYS: usize = usize::MAX;

    /// The `N` elements from `start` on. If it reads many arrays it also prefetches what later
    /// blocks need. Inlined.
    ///
    /// # Safety
    /// The sum for which this value was made has these elements.
    unsafe fn block<const N: usize>(self, instructions: Instructions, start: usize) -> [T; N];

    /// Prefetches what blocks after `start` need, if the arrays are few. Inlined.
    #[inline(always)]
    fn prefetch(self, _start: usize) {}

    /// The address of the elements from `start` on, if they need not be made: the gradient is the
    /// only contribution. Inlined.
    fn in_place(self, start: usize) -> Option<*const T>;
}

/// A loop over a sum's elements, which is compiled once for each way. The way is chosen before the
/// loop, in types. A branch in the loop for cases that the sum does not have would keep compilers
/// from holding blocks, buffer addresses and factors in registers.
pub(super) trait GradientLoop<T> {
    /// Runs the loop. Inlined.
    fn run<W: MakeGradients<T>>(self, instructions: Instructions, gradients: W);
}

impl<'a> WeightedSum<'a> {
    /// Runs the loop in the best way for the sum. The finish of the sum is `finish`, and its
    /// contributions are of type `G`.
    #[inline(always)]
    pub(super) fn run<G: GradientElement, T: Real>(
        &self,
        instructions: Instructions,
        finish: Finish<T>,
        each: impl GradientLoop<T>,
    ) {
        if self.is_usual(instructions, finish) {
            self.run_usual::<G, T>(instructions, finish, each);
        } else {
            each.run(
                instructions,
                GeneralSum::<G, T> {
                    sum: self,
                    finish,
                    elements: PhantomData,
                },
            );
        }
    }

    /// Whether there is a faster way than the general one for the sum.
    #[inline(always)]
    pub(super) fn is_usual<T: Real>(&self, instructions: Instructions, finish: Finish<T>) -> bool {
        instructions.has_special_loops()
            && self.accumulated.is_none()
            && finish.only_multiplies()
            && matches!(finish.scale, Scale::Multiply(_))
    }

    /// As [`WeightedSum::run`], for a sum that [is usual](WeightedSum::is_usual).
    #[inline(always)]
    pub(super) fn run_usual<G: GradientElement, T: Real>(
        &self,
        instructions: Instructions,
        finish: Finish<T>,
        each: impl GradientLoop<T>,
    ) {
        let reciprocal = match finish.scale {
            Scale::Multiply(reciprocal) if instructions.has_special_loops() => reciprocal,
            _ => unreachable!("the caller has asked"),
        };
        let contributions = self.contributions;
        let factor = finish.factors[0];
        let products = products_of::<G>(contributions);
        let fresh = ScaledSum::<G, T> {
            contributions,
            products,
            reciprocal,
            factor,
            elements: PhantomData,
        };
        match contributions {
            [a] if is_short::<T>(a.factor, 1, reciprocal) => {
                each.run(instructions, FewTermsSum::new([a], &fresh));
            }
            [a, b] if a.factor == b.factor && is_short::<T>(a.factor, 2, reciprocal) => {
                each.run(instructions, FewTermsSum::new([a, b], &fresh));
            }
            _ => each.run(instructions, fresh),
        }
    }
}

/// The way for every sum.
#[derive(Clone, Copy)]
struct GeneralSum<'s, 'a, G, T> {
    sum: &'s WeightedSum<'a>,
    finish: Finish<T>,
    elements: PhantomData<fn() -> G>,
}

/// The way for sums that start from zero, are multiplied by a number, rounded, and then
/// multiplied by a factor.
#[derive(Clone, Copy)]
struct ScaledSum<'s, 'a, G, T> {
    contributions: &'s [Contribution<'a>],
    products: Products,
    reciprocal: f64,
    factor: T,
    elements: PhantomData<fn() -> G>,
}

/// The way for sums of one or two contributions if adding them in their own type gives the bits of
/// the float64 way ([`is_short`]).
#[derive(Clone, Copy)]
struct FewTermsSum<'s, 'a, G, T, const TERMS: usize> {
    first: [*const G; TERMS],
    scale: T,
    factor: T,
    /// The state that only rare blocks need. As a value it would be written to memory for each
    /// block, or take registers in the loop.
    fresh: &'s ScaledSum<'s, 'a, G, T>,
}

impl<G: GradientElement, T: Real> MakeGradients<T> for GeneralSum<'_, '_, G, T> {
    #[inline(always)]
    unsafe fn block<const N: usize>(self, instructions: Instructions, start: usize) -> [T; N] {
        let GeneralSum {
            sum:
                WeightedSum {
                    accumulated,
                    contributions,
                    ..
                },
            finish,
            ..
        } = self;
        let before = match accumulated {
            Some(accumulated) => {
                // SAFETY: it is float64 and as long as the gradient (`starting_from` asserted it),
                // and its builder guaranteed that it may be read.
                unsafe {
                    accumulated
                        .data()
                        .cast::<f64>()
                        .add(start)
                        .cast::<[f64; N]>()
                        .read()
                }
            }
            // A number plus −0 is the number itself; −0 plus −0 is −0.
            None => [-0.0; N],
        };
        // SAFETY: the caller's promise.
        let sum = unsafe { added::<G, N>(instructions, before, contributions, start) };
        finish.clipped(match finish.scale {
            Scale::Multiply(reciprocal) => rounded(sum, |sum| sum * reciprocal),
            Scale::Divide(divisor) => rounded(sum, |sum| sum / divisor),
        })
    }

    #[inline(always)]
    fn in_place(self, _: usize) -> Option<*const T> {
        None
    }
}

impl<G: GradientElement, T: Real> MakeGradients<T> for ScaledSum<'_, '_, G, T> {
    #[inline(always)]
    unsafe fn block<const N: usize>(self, instructions: Instructions, start: usize) -> [T; N] {
        let ScaledSum {
            contributions,
            products,
            reciprocal,
            factor,
            ..
        } = self;
        let terms = contributions.iter().map(|part| {
            let first = first::<G>(part).wrapping_add(start);
            if N == BLOCK {
                prefetch_ahead(first);
            }
            (part.factor, first)
        });
        // SAFETY: the caller's promise, and the views' builders guaranteed that they may be read.
        let sum = unsafe {
            lanes::weighted_sum::<G, T, N>(instructions, -0.0, terms, products, reciprocal)
        };
        let Some(mut gradient) = sum else {
            // SAFETY: the caller's promise.
            return unsafe { self.added(instructions, start) };
        };
        for element in &mut gradient {
            *element = *element * factor;
        }
        gradient
    }

    #[inline(always)]
    fn in_place(self, _: usize) -> Option<*const T> {
        None
    }
}

impl<'s, 'a, G, T: Real, const TERMS: usize> FewTermsSum<'s, 'a, G, T, TERMS> {
    /// The short way for the sum of `fresh`, which has these `contributions`.
    fn new(contributions: [&Contribution<'_>; TERMS], fresh: &'s ScaledSum<'s, 'a, G, T>) -> Self {
        let scale = T::from_f64(contributions[0].factor * fresh.reciprocal);
        FewTermsSum {
            first: contributions.map(first),
            scale,
            factor: fresh.factor,
            fresh,
        }
    }
}

impl<G: GradientElement, T: Real, const TERMS: usize> MakeGradients<T>
    for FewTermsSum<'_, '_, G, T, TERMS>
{
    const ARRAYS: usize = TERMS;

    #[inline(always)]
    fn prefetch(self, start: usize) {
        self.first
            .iter()
            .for_each(|first| prefetch_ahead(first.wrapping_add(start)));
    }

    #[inline(always)]
    unsafe fn block<const N: usize>(self, instructions: Instructions, start: usize) -> [T; N] {
        let FewTermsSum {
            first,
            scale,
            factor,
            fresh,
        } = self;
        let block = |first: *const G| {
            let first = first.wrapping_add(start);
            // SAFETY: the caller's promise, and the views' builders guaranteed that they may be
            // read.
            let elements = unsafe { first.cast::<[G; N]>().read() };
            // Nothing is rounded: the type can represent all elements.
            rounded(G::widened(instructions, elements), |element| element)
        };
        let mut sum = block(first[0]);
        if TERMS > 1 {
            let other = block(first[1]);
            for index in 0..N {
                sum[index] = sum[index] + other[index];
            }
            // The sum of two numbers may be past the type's range when their mean is not.
            if !are_finite(&sum) {
                let mut exact = [scale; N];
                // SAFETY: the caller's promise.
                unsafe { fresh.exact(start, &mut exact) };
                return exact;
            }
        }
        for element in &mut sum {
            *element = *element * scale * factor;
        }
        sum
    }

    #[inline(always)]
    fn in_place(self, start: usize) -> Option<*const T> {
        let one = T::from_f64(1.0);
        let is_contribution =
            TERMS == 1 && G::DTYPE == T::DTYPE && (self.scale, self.factor) == (one, one);
        is_contribution.then(|| self.first[0].cast::<T>().wrapping_add(start))
    }
}

impl<G: GradientElement, T: Real> ScaledSum<'_, '_, G, T> {
    /// The elements from `start` on, as a call that is not inlined, for rare cases.
    ///
    /// # Safety
    /// As for [`MakeGradients::block`].
    #[cold]
    #[inline(never)]
    unsafe fn exact<const N: usize>(&self, start: usize, to: &mut [T; N]) {
        // SAFETY: the caller's promise.
        *to = unsafe { self.added(Instructions::BASELINE, start) };
    }

    /// The elements from `start` on, in a plain loop.
    ///
    /// # Safety
    /// As for [`MakeGradients::block`].
    #[inline(always)]
    unsafe fn added<const N: usize>(self, instructions: Instructions, start: usize) -> [T; N] {
        let ScaledSum {
            contributions,
            reciprocal,
            factor,
            ..
        } = self;
        // SAFETY: the caller's promise.
        let sum = unsafe { added::<G, N>(instructions, [-0.0; N], contributions, start) };
        let mut gradient: [T; N] = rounded(sum, |sum| sum * reciprocal);
        for element in &mut gradient {
            *element = *element * factor;
        }
        gradient
    }
}

/// The first element of a contribution.
#[inline(always)]
fn first<G>(part: &Contribution<'_>) -> *const G {
    part.gradient.data().cast()
}

/// Prefetches the block that comes some blocks after the one from here on.
#[inline(always)]
fn prefetch_ahead<G>(from: *const G) {
    prefetch(
        from.cast::<u8>().wrapping_add(BYTES_AHEAD),
        BLOCK * size_of::<G>(),
    );
}

/// # Safety
/// The contributions are of type `G`, and each has these elements.
#[inline(always)]
unsafe fn added<G: GradientElement, const N: usize>(
    instructions: Instructions,
    mut sum: [f64; N],
    contributions: &[Contribution<'_>],
    start: usize,
) -> [f64; N] {
    for part in contributions {
        let elements = first::<G>(part).wrapping_add(start).cast::<[G; N]>();
        // SAFETY: the caller's promise, and the view's builder guaranteed that it may be read.
        let elements = unsafe { elements.read() };
        for (sum, element) in sum.iter_mut().zip(G::widened(instructions, elements)) {
            *sum += part.factor * element;
        }
    }
    sum
}

/// Not `map`: compilers leave a call for each element in it if there are many elements.
#[inline(always)]
pub(super) fn rounded<T: Real, const N: usize>(
    sum: [f64; N],
    scale: impl Fn(f64) -> f64,
) -> [T; N] {
    let mut rounded = [T::from_f64(0.0); N];
    for (rounded, sum) in rounded.iter_mut().zip(sum) {
        *rounded = T::from_f64(scale(sum));
    }
    rounded
}

#[inline(always)]
pub(super) fn are_finite<T: Real, const N: usize>(elements: &[T; N]) -> bool {
    let zero = T::from_f64(0.0);
    let mut finite = true;
    for element in elements {
        finite &= *element * zero == zero;
    }
    finite
}

/// The known properties of the products of these contributions.
fn products_of<G: GradientElement>(contributions: &[Contribution<'_>]) -> Products {
    if !contributions
        .iter()
        .all(|part| has_exact_products::<G>(part.factor))
    {
        return Products::Rounded;
    }
    // The more terms there are, the rarer are exact sums.
    let doublings = contributions.len().next_power_of_two().ilog2() as i16;
    match contributions
        .windows(2)
        .all(|pair| pair[0].factor == pair[1].factor)
    {
        true if doublings <= 4 => Products::OfOneFactor { doublings },
        _ => Products::Exact,
    }
}

/// Whether the product of this factor and any element of the type is exact in float64. If so,
/// rounding only the sum gives the same as first rounding the product. The product of 24 bits of
/// float32, or fewer of a narrower type, and 29 bits of the factor fits in the 53 bits of float64.
/// Counts of examples are such factors. The bounds exclude subnormal and infinite products.
pub(super) fn has_exact_products<G: GradientElement>(factor: f64) -> bool {
    let bits = f64::MANTISSA_DIGITS - f32::MANTISSA_DIGITS;
    let rest = (1u64 << (f64::MANTISSA_DIGITS - bits)) - 1;
    let range = f64::from(f32::MIN_POSITIVE)..=f64::from(f32::MAX);
    G::DTYPE != DType::Float64 && factor.to_bits() & rest == 0 && range.contains(&factor)
}

/// Whether one or two `terms` of one factor may be added in float32. Then the float32 sum,
/// multiplied by the product of factor and reciprocal, has the bits of the float64 way rounded to
/// float32. The elements are float32, or of a narrower type whose numbers float32 can represent.
///
/// Factor and reciprocal have to be powers of two in the range of float32's normal numbers, so that
/// the float64 way rounds only at its end. The float64 sum of two float32 numbers, rounded to
/// float32, is their float32 sum, since 53 bits are more than twice 24 bits and two. The product of
/// this sum and a power of two is exact if it is a normal number. If it is not, it is rounded a
/// second time, unless the sum was exact. A sum below 2⁻¹²⁵ is exact, which is enough if the power
/// of two is at least one half.
pub(super) fn is_short<T: Real>(factor: f64, terms: usize, reciprocal: f64) -> bool {
    let is_power = |value: f64| {
        let mantissa = value.to_bits() & ((1 << (f64::MANTISSA_DIGITS - 1)) - 1);
        let range = f64::from(f32::MIN_POSITIVE)..=f64::from(f32::MAX);
        mantissa == 0 && range.contains(&value)
    };
    let scale = factor * reciprocal;
    let least = if terms == 1 { 0.0 } else { 0.5 };
    T::DTYPE == DType::Float32
        && [factor, reciprocal, scale].into_iter().all(is_power)
        && scale >= least
}

#[cfg(test)]
mod tests;
