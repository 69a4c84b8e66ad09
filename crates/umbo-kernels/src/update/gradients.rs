//! How a loop over a [`WeightedSum`] makes gradients, block by block.
//!
//! There is one general way that works for every sum, and there are faster ways for the usual sums.
//! Each way is a value that holds all that it needs, so that a loop keeps it in registers. Data
//! behind a reference would be read again for each block, because the loop writes memory. All ways
//! give the same bits.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::dtype::DType;
use crate::float::gradient_element::GradientElement;
use crate::float::lanes::{self, BLOCK, Products};
use crate::float::real::Real;
use crate::instruction_set::Instructions;
use crate::prefetch::{BYTES_AHEAD, prefetch};
use crate::update::weighted_sum::{Contribution, Finish, Scale, WeightedSum};

/// A way to make gradients of type `T`.
pub(super) trait MakeGradients<T>: Copy {
    /// How many arrays it reads side by side, if they are few.
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

    /// Where the elements from `start` on lie, if they need not be made: the gradient is the only
    /// contribution. Inlined.
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
            [a] if is_short::<T>(contributions, reciprocal) => {
                each.run(instructions, FewTermsSum::new([a], &fresh));
            }
            [a, b] if is_short::<T>(contributions, reciprocal) => {
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

/// The way for sums that start from zero, are multiplied with a number, rounded, and then
/// multiplied with a factor.
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
        let sum =
            unsafe { lanes::weighted_sum::<G, T, N>(instructions, terms, products, reciprocal) };
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

/// Records whether gradients are finite, without a branch in the loop. Each lane holds 0 as long as
/// all gradients in it were finite, and is NaN from the first that was not.
pub(super) struct FiniteMask<T> {
    blocks: [T; BLOCK],
    single: [T; 1],
}

impl<T: Real> FiniteMask<T> {
    #[inline(always)]
    pub(super) fn new() -> FiniteMask<T> {
        FiniteMask {
            blocks: [T::from_f64(0.0); BLOCK],
            single: [T::from_f64(0.0)],
        }
    }

    #[inline(always)]
    pub(super) fn see_block(&mut self, gradient: [T; BLOCK]) {
        mark_non_finite(&mut self.blocks, gradient);
    }

    #[inline(always)]
    pub(super) fn see(&mut self, gradient: [T; 1]) {
        mark_non_finite(&mut self.single, gradient);
    }

    /// Sets the flag if a gradient was not finite.
    #[inline(always)]
    pub(super) fn note(self, not_finite: Option<&AtomicBool>) {
        let zero = T::from_f64(0.0);
        // A lane that is not 0 is NaN.
        if let Some(not_finite) = not_finite
            && self
                .blocks
                .iter()
                .chain(&self.single)
                .any(|lane| *lane != zero)
        {
            not_finite.store(true, Ordering::Relaxed);
        }
    }
}

/// Adds 0 to the lane of a finite element, and NaN to the lane of any other.
#[inline(always)]
fn mark_non_finite<T: Real, const N: usize>(traces: &mut [T; N], gradient: [T; N]) {
    let zero = T::from_f64(0.0);
    for (trace, gradient) in traces.iter_mut().zip(gradient) {
        *trace = *trace + gradient * zero;
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
fn rounded<T: Real, const N: usize>(sum: [f64; N], scale: impl Fn(f64) -> f64) -> [T; N] {
    let mut rounded = [T::from_f64(0.0); N];
    for (rounded, sum) in rounded.iter_mut().zip(sum) {
        *rounded = T::from_f64(scale(sum));
    }
    rounded
}

#[inline(always)]
fn are_finite<T: Real, const N: usize>(elements: &[T; N]) -> bool {
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
fn has_exact_products<G: GradientElement>(factor: f64) -> bool {
    let bits = f64::MANTISSA_DIGITS - f32::MANTISSA_DIGITS;
    let rest = (1u64 << (f64::MANTISSA_DIGITS - bits)) - 1;
    let range = f64::from(f32::MIN_POSITIVE)..=f64::from(f32::MAX);
    G::DTYPE != DType::Float64 && factor.to_bits() & rest == 0 && range.contains(&factor)
}

/// Whether the contributions, of which there is at least one, may be added in float32. Then the
/// float32 sum, multiplied with the product of factor and reciprocal, has the bits of the float64
/// way rounded to float32. The elements are float32, or of a narrower type whose numbers float32
/// can represent.
///
/// Factor and reciprocal have to be powers of two in the range of float32's normal numbers, so that
/// the float64 way rounds only at its end. Two contributions must have the same factor. The float64
/// sum of two float32 numbers, rounded to float32, is their float32 sum, since 53 bits are more
/// than twice 24 bits and two. The product of this sum and a power of two is exact if it is a
/// normal number. If it is not, it is rounded a second time, unless the sum was exact. A sum below
/// 2⁻¹²⁵ is exact, which is enough if the power of two is at least one half.
fn is_short<T: Real>(contributions: &[Contribution<'_>], reciprocal: f64) -> bool {
    let is_power = |value: f64| {
        let mantissa = value.to_bits() & ((1 << (f64::MANTISSA_DIGITS - 1)) - 1);
        let range = f64::from(f32::MIN_POSITIVE)..=f64::from(f32::MAX);
        mantissa == 0 && range.contains(&value)
    };
    let factor = contributions[0].factor;
    let scale = factor * reciprocal;
    let least = if contributions.len() == 1 { 0.0 } else { 0.5 };
    T::DTYPE == DType::Float32
        && contributions.iter().all(|part| part.factor == factor)
        && [factor, reciprocal, scale].into_iter().all(is_power)
        && scale >= least
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::layout::{Layout, Shape};
    use crate::update::weighted_sum::Clipping;
    use crate::view::View;

    /// Numbers at the limits of float32, and some between them.
    fn borders() -> Vec<f32> {
        let mut values = vec![
            0.0,
            f32::INFINITY,
            f32::NAN,
            f32::MAX,
            f32::MAX / 2.0,
            1.0,
            1.5,
            0.1,
        ];
        for exponent in [
            -149, -148, -147, -140, -127, -126, -125, -124, -100, -24, 24, 126, 127,
        ] {
            let power = 2.0f64.powi(exponent) as f32;
            let next = |up: bool| {
                f32::from_bits(if up {
                    power.to_bits() + 1
                } else {
                    power.to_bits() - 1
                })
            };
            values.extend([power, next(true), next(false), 3.0 * power]);
        }
        let negative: Vec<f32> = values.iter().map(|value| -value).collect();
        values.extend(negative);
        values
    }

    struct Collect<'r, T>(&'r mut Vec<T>, usize);

    impl<T: Real> GradientLoop<T> for Collect<'_, T> {
        fn run<W: MakeGradients<T>>(self, instructions: Instructions, gradients: W) {
            let Collect(to, elements) = self;
            let mut start = 0;
            while start + BLOCK <= elements {
                // SAFETY: the sum has as many elements.
                to.extend(unsafe { gradients.block::<BLOCK>(instructions, start) });
                start += BLOCK;
            }
            // SAFETY: as above.
            to.extend(
                (start..elements).map(|at| unsafe { gradients.block::<1>(instructions, at)[0] }),
            );
        }
    }

    /// Checks that the gradient of up to five such numbers is the float64 sum of rounded products,
    /// rounded once. Returns how many sums were added in float32.
    fn check_borders<G: GradientElement>() -> usize {
        let borders: Vec<G> = borders()
            .iter()
            .map(|&value| G::rounded(value.into()))
            .collect();
        let mut left = Vec::new();
        let mut right = Vec::new();
        for &a in &borders {
            for &b in &borders {
                left.push(a);
                right.push(b);
            }
        }
        let mut short = 0;
        for (factor, divisor, count) in [
            (1.0, 1.0, 2),
            (1.0, 2.0, 2),
            (1.0, 4.0, 2),
            (4.0, 8.0, 2),
            (0.5, 0.125, 1),
            (1.0, 3.0, 2),
            (3.0, 2.0, 1),
            (33.0, 99.0, 3),
            (0.1, 7.0, 4),
            (f64::from((1 << 29) - 1), 2.0, 5),
            (f64::from((1 << 30) - 1), 2.0, 5),
        ] {
            let all = [&left, &right, &left, &right, &right].map(Vec::as_slice);
            short += usize::from(check(&all[..count], factor, divisor));
        }
        short
    }

    /// Checks that the gradient is the float64 sum of rounded products, rounded once, with all
    /// instructions. Returns whether the sums were added in float32 whatever the numbers.
    fn check<G: GradientElement>(all: &[&[G]], factor: f64, divisor: f64) -> bool {
        let elements = all[0].len();
        let layout = Layout::row_major(Shape::new(&[elements]).unwrap());
        let part = |gradient: &&[G]| Contribution {
            // SAFETY: the view is used while the numbers live, and nobody writes them.
            gradient: unsafe { View::new(gradient.as_ptr().cast(), G::DTYPE, layout) }
                .span()
                .unwrap(),
            factor,
        };
        let parts: Vec<_> = all.iter().map(part).collect();
        let wide = |element: G| G::widened(Instructions::BASELINE, [element])[0];
        let sum = WeightedSum::new(DType::Float32, elements, &parts, divisor);
        let finish = Finish::<f32>::new(
            divisor,
            Clipping {
                factor: 0.75,
                limit: f64::INFINITY,
            },
        );
        for instructions in Instructions::all() {
            let mut found = Vec::new();
            sum.run::<G, f32>(instructions, finish, Collect(&mut found, elements));
            for (index, found) in found.into_iter().enumerate() {
                let exact = all
                    .iter()
                    .fold(-0.0, |sum, gradient| sum + factor * wide(gradient[index]));
                let expected = (exact * divisor.recip()) as f32 * 0.75;
                assert!(
                    found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(),
                    "{instructions:?}: element {index} of {} gradients, {factor} × … / {divisor}: \
                     {found}, not {expected}",
                    all.len(),
                );
            }
        }
        all.len() < 3 && is_short::<f32>(&parts, divisor.recip())
    }

    /// All gradients but one have the same exponent, and all bits of the mantissa.
    #[test]
    fn sums_that_float32_can_and_cannot_represent_have_the_same_bits() {
        for (count, spread, factor) in (2..=17)
            .flat_map(|count| (10..=18).flat_map(move |far| [(count, far, 1.0), (count, far, 3.0)]))
        {
            for base in [-133, 0, 112] {
                let element = |replica: usize, index: usize| {
                    let exponent = if (replica + index).is_multiple_of(count) {
                        0
                    } else {
                        spread
                    };
                    let sign = if index.is_multiple_of(7) && replica == 1 {
                        -1.0
                    } else {
                        1.0
                    };
                    bf16::from_f64(sign * 1.9921875 * 2.0f64.powi(base + exponent))
                };
                let all: Vec<Vec<bf16>> = (0..count)
                    .map(|replica| (0..48).map(|index| element(replica, index)).collect())
                    .collect();
                let all: Vec<_> = all.iter().map(Vec::as_slice).collect();
                check(&all, factor, 7.0);
            }
        }
    }

    #[test]
    fn borders_are_rounded_once() {
        let short = [
            check_borders::<f32>(),
            check_borders::<bf16>(),
            check_borders::<f16>(),
        ];
        assert_eq!(short, [4; 3], "all with powers of two but the quarter");
    }

    #[test]
    fn products_with_counts_of_examples_are_exact() {
        for factor in [1.0, 33.0, 0.75, f64::from((1 << 29) - 1)] {
            assert!(has_exact_products::<f32>(factor), "{factor}");
            assert!(!has_exact_products::<f64>(factor), "{factor}");
        }
        for factor in [
            0.1,
            f64::from((1 << 30) - 1),
            1e-300,
            1e300,
            f64::INFINITY,
            0.0,
        ] {
            assert!(!has_exact_products::<f32>(factor), "{factor}");
        }
    }
}
