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
use crate::kernels::float::real::Real;
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
    pub(super) accumulated: Option<Span<'a>>,
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

    /// The same, clipped.
    pub fn clipped(self, clipping: Clipping) -> WeightedSum<'a> {
        WeightedSum { clipping, ..self }
    }

    pub(super) fn finish<T: Real>(&self) -> Finish<T> {
        debug_assert_eq!(self.dtype, T::DTYPE);
        Finish::new(self.divisor, self.clipping)
    }

    /// The bytes that are read for one element of the gradient.
    pub fn bytes(&self) -> usize {
        let accumulated = self.accumulated.map_or(0, |_| size_of::<f64>());
        self.contributions.len() * self.gradient_dtype.size() + accumulated
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

    /// Whether clipping multiplies with one factor, which may be 1, and limits nothing.
    pub(super) fn only_multiplies(self) -> bool {
        self.factors[1] == T::from_f64(1.0) && self.limit == T::from_f64(f64::INFINITY)
    }

    /// The gradient of a sum that is scaled.
    #[inline(always)]
    pub(super) fn clipped<const N: usize>(self, mut scaled: [T; N]) -> [T; N] {
        let [first, second] = self.factors;
        for element in &mut scaled {
            *element = (*element * first * second).limited(self.limit);
        }
        scaled
    }
}
