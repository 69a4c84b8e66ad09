//! The gradient of one variable, as it comes from the replicas: the sum of factor × contribution,
//! in replica order and in float64, divided (or multiplied by the reciprocal), and rounded once to
//! the element type; then clipped, in that type.
//!
//! An update ([`update`](crate::kernels::update::pass)) makes the gradient block by block, and
//! nothing of it is written to memory. So does a norm
//! ([`measure`](crate::kernels::update::measure)), unless that is asked to keep what it makes. A
//! sum may start from what [`accumulate`](crate::kernels::update::accumulate) has kept of earlier
//! runs.

use crate::kernels::dtype::DType;
use crate::kernels::float::gradient_element::GradientElement;
use crate::kernels::float::real::Real;
use crate::kernels::instruction_set::Instructions;
use crate::kernels::view::Span;

/// One replica's gradient of the variable, and the factor with which it enters the sum.
#[derive(Clone, Copy, Debug)]
pub struct Contribution<'a> {
    /// The elements, as many as the variable has, of its type or of a narrower one.
    pub gradient: Span<'a>,
    /// What each is multiplied with.
    pub factor: f64,
}

/// What is done to a gradient before it is used. Both numbers are rounded to the element type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clipping {
    /// What each element is multiplied with; at most 1, and less than 0 where weights go up the gradient.
    pub factor: f64,
    /// The largest magnitude that an element may have afterwards.
    pub limit: f64,
}

impl Clipping {
    /// Leaves every gradient as it is.
    pub const NONE: Clipping = Clipping { factor: 1.0, limit: f64::INFINITY };
}

/// What a gradient is made of.
#[derive(Debug)]
pub struct WeightedSum<'a> {
    pub(super) dtype: DType,
    pub(super) elements: usize,
    pub(super) contributions: &'a [Contribution<'a>],
    /// The type of the contributions.
    pub(super) gradient_dtype: DType,
    /// Where the sum starts; −0 if there is none.
    accumulated: Option<Span<'a>>,
    divisor: f64,
    pub(super) clipping: Clipping,
}

/// What makes a gradient of a sum.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Finish<T> {
    pub(in crate::kernels) scale: Scale,
    /// One after the other, the clipping's factor: 1 is the second, unless the factor is smaller
    /// than the type's normal numbers.
    pub(in crate::kernels) factors: [T; 2],
    pub(in crate::kernels) limit: T,
}

/// How a sum is scaled.
#[derive(Clone, Copy)]
pub(in crate::kernels) enum Scale {
    /// Multiplying by the divisor's reciprocal, where that is as good as dividing.
    Multiply(f64),
    Divide(f64),
}

/// A loop over a sum's elements, to be compiled once for each of the usual sums. The choice is made
/// before the loop, in types: a branch in it for what the sum does not need would keep compilers
/// from holding blocks, buffer addresses and factors in registers.
pub(super) trait GradientLoop {
    /// Runs the loop. `contributions` are the sum's. Inlined.
    fn run<'c>(
        self,
        instructions: Instructions,
        contributions: impl AsRef<[Contribution<'c>]>,
        way: impl Way,
    );
}

/// How a loop makes gradients.
pub(super) trait Way: Copy {
    /// What the sum, which starts from zero, is multiplied with. `None` if it is as the
    /// [`WeightedSum`] and the [`Finish`] say.
    fn reciprocal(self) -> Option<f64>;
}

/// For sums that start from zero and are multiplied with a number.
#[derive(Clone, Copy)]
struct Fresh {
    reciprocal: f64,
}

impl Way for Fresh {
    #[inline(always)]
    fn reciprocal(self) -> Option<f64> {
        Some(self.reciprocal)
    }
}

/// For every sum.
#[derive(Clone, Copy)]
pub(super) struct Any;

impl Way for Any {
    #[inline(always)]
    fn reciprocal(self) -> Option<f64> {
        None
    }
}

impl<'a> WeightedSum<'a> {
    /// The sum of factor × gradient over `contributions`, divided by `divisor`, as a gradient of
    /// `elements` elements of type `dtype`.
    ///
    /// The contributions are asserted to be of one type and of `elements` elements.
    #[inline]
    pub fn new(
        dtype: DType,
        elements: usize,
        contributions: &'a [Contribution<'a>],
        divisor: f64,
    ) -> WeightedSum<'a> {
        let gradient_dtype = common_dtype(contributions, elements).unwrap_or(dtype);
        WeightedSum {
            dtype,
            elements,
            contributions,
            gradient_dtype,
            accumulated: None,
            divisor,
            clipping: Clipping::NONE,
        }
    }

    /// The same, with a sum that starts from `accumulated`: float64 and of as many elements, which
    /// is asserted.
    #[inline]
    pub fn starting_from(mut self, accumulated: Option<Span<'a>>) -> WeightedSum<'a> {
        if let Some(sum) = &accumulated {
            assert_eq!((sum.dtype(), sum.elements()), (DType::Float64, self.elements));
        }
        self.accumulated = accumulated;
        self
    }

    pub(super) fn finish<T: Real>(&self) -> Finish<T> {
        debug_assert_eq!(self.dtype, T::DTYPE);
        Finish::new(self.divisor, self.clipping)
    }

    /// Runs the loop that fits the sum, whose finish is `finish` and whose contributions are of type `G`:
    /// that of [`Any`] unless `is_usual`, which is false where more than the sum enters a gradient.
    #[inline(always)]
    pub(super) fn run<G: GradientElement, T: Real>(
        &self,
        instructions: Instructions,
        finish: Finish<T>,
        is_usual: bool,
        each: impl GradientLoop,
    ) {
        let is_usual = is_usual && self.accumulated.is_none() && instructions.has_special_loops();
        let reciprocal = match finish.scale {
            Scale::Multiply(reciprocal) if is_usual => reciprocal,
            _ => return each.run(instructions, self.contributions, Any),
        };
        let fresh = Fresh { reciprocal };
        if (G::DTYPE, T::DTYPE) != (DType::Float32, DType::Float32) {
            return each.run(instructions, self.contributions, fresh);
        }
        // The usual numbers of replicas: 10% faster where memory is not the limit.
        match *self.contributions {
            [a] => each.run(instructions, [a], fresh),
            [a, b] => each.run(instructions, [a, b], fresh),
            [a, b, c, d] => each.run(instructions, [a, b, c, d], fresh),
            [a, b, c, d, e, f, g, h] => each.run(instructions, [a, b, c, d, e, f, g, h], fresh),
            ref any => each.run(instructions, any, fresh),
        }
    }

    /// The bytes that are read for one element of the gradient.
    pub fn bytes(&self) -> usize {
        let accumulated = self.accumulated.map_or(0, |_| size_of::<f64>());
        self.contributions.len() * self.gradient_dtype.size() + accumulated
    }

    /// The `N` elements from `start` on of the gradient that a [`GradientLoop`] was given
    /// `contributions` and `way` for, and that `finish` of this sum makes.
    ///
    /// # Safety
    /// The contributions are of type `G`, and each has these elements.
    #[inline(always)]
    pub(super) unsafe fn block<G: GradientElement, T: Real, const N: usize>(
        &self,
        instructions: Instructions,
        contributions: &[Contribution],
        way: impl Way,
        finish: Finish<T>,
        start: usize,
    ) -> [T; N] {
        let sum = match &self.accumulated {
            Some(accumulated) if way.reciprocal().is_none() => {
                // SAFETY: it is float64 and as long as the gradient (`starting_from` asserted it),
                // and its builder vouched for reading it.
                unsafe { accumulated.data().cast::<f64>().add(start).cast::<[f64; N]>().read() }
            }
            // What −0 is added to stays what it is, −0 itself too.
            _ => [-0.0; N],
        };
        // SAFETY: the caller's promise is the same.
        let sum = unsafe { Self::added::<G, N>(instructions, sum, contributions, start) };
        match (way.reciprocal(), finish.scale) {
            (Some(reciprocal), _) | (None, Scale::Multiply(reciprocal)) => {
                finish.gradient(sum, |sum| sum * reciprocal)
            }
            (None, Scale::Divide(divisor)) => finish.gradient(sum, |sum| sum / divisor),
        }
    }

    /// # Safety
    /// The contributions are of type `G`, and each has these elements.
    #[inline(always)]
    unsafe fn added<G: GradientElement, const N: usize>(
        instructions: Instructions,
        mut sum: [f64; N],
        contributions: &[Contribution],
        start: usize,
    ) -> [f64; N] {
        for part in contributions {
            // SAFETY: the caller's promise, and the view's builder vouched for reading it.
            let gradient: [G; N] =
                unsafe { part.gradient.data().cast::<G>().add(start).cast::<[G; N]>().read() };
            for (sum, gradient) in sum.iter_mut().zip(G::widened(instructions, gradient)) {
                *sum += part.factor * gradient;
            }
        }
        sum
    }
}

/// The type that all of `contributions`, which are asserted to have `elements` elements, have in
/// common; `None` if there are none.
pub(super) fn common_dtype(contributions: &[Contribution], elements: usize) -> Option<DType> {
    let dtype = contributions.first()?.gradient.dtype();
    for Contribution { gradient, .. } in contributions {
        assert_eq!((gradient.dtype(), gradient.elements()), (dtype, elements));
    }
    Some(dtype)
}

impl<T: Real> Finish<T> {
    /// What makes a gradient of elements of this type, of a sum that is divided by `divisor`.
    pub(in crate::kernels) fn new(divisor: f64, clipping: Clipping) -> Finish<T> {
        // A division costs as much as all the rest of a simple formula. Multiplying by the
        // reciprocal of a power of two is the division, bit for bit. For other divisors it is off
        // by less than two units of float64's last place: of no account in float32, whose exact
        // results stay exact.
        let reciprocal = divisor.recip();
        let is_power_of_two = divisor.to_bits() & ((1 << (f64::MANTISSA_DIGITS - 1)) - 1) == 0;
        let multiplies = divisor.is_normal()
            && reciprocal.is_normal()
            && (is_power_of_two || T::DTYPE == DType::Float32);
        let scale = if multiplies { Scale::Multiply(reciprocal) } else { Scale::Divide(divisor) };
        let Clipping { factor, limit } = clipping;
        let factors = if T::from_f64(factor).is_normal() {
            [factor, 1.0]
        } else {
            [factor.abs().sqrt().copysign(factor), factor.abs().sqrt()]
        };
        Finish { scale, factors: factors.map(T::from_f64), limit: T::from_f64(limit) }
    }

    /// Without clipping, clipping changes nothing, and costs less than to ask.
    #[inline(always)]
    fn gradient<const N: usize>(self, sum: [f64; N], scale: impl Fn(f64) -> f64) -> [T; N] {
        // Not `map`, which compilers leave as a call where there are many elements.
        let [first, second] = self.factors;
        let mut gradient = [self.limit; N];
        for (gradient, sum) in gradient.iter_mut().zip(sum) {
            let clipped = T::from_f64(scale(sum)) * first * second;
            *gradient = clipped.limited(self.limit);
        }
        gradient
    }
}
