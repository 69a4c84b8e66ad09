//! The gradient of one variable, computed from the replicas' contributions. It is the sum of factor
//! × contribution, in replica order and in float64. The sum is divided, or multiplied by the
//! reciprocal, and rounded once to the element type. Then it is clipped, in that type.
//!
//! An update ([`update`](crate::update::pass)) makes the gradient block by block, and writes none
//! of it to memory. A norm ([`measure`](crate::update::measure)) writes it only if it is asked to
//! keep it. A sum may start from what [`accumulate`](crate::update::accumulate) has kept of earlier
//! runs.

use crate::dtype::DType;
use crate::float::real::Real;
use crate::view::Span;

/// One replica's gradient of the variable, and the factor with which it enters the sum.
#[derive(Clone, Copy, Debug)]
pub struct Contribution<'a> {
    /// The elements, as many as the variable has, of the variable's type or a narrower one.
    pub gradient: Span<'a>,
    /// The factor of each element.
    pub factor: f64,
}

/// The treatment of a gradient before it is used. Both numbers are rounded to the element type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clipping {
    /// The factor of each element. It is at most 1, and less than 0 if the weights move in the
    /// direction of the gradient.
    pub factor: f64,
    /// The largest magnitude that an element may have afterwards.
    pub limit: f64,
}

impl Clipping {
    /// Leaves every gradient as it is.
    pub const NONE: Clipping = Clipping {
        factor: 1.0,
        limit: f64::INFINITY,
    };
}

/// The sum of which a gradient is made.
#[derive(Clone, Debug)]
pub struct WeightedSum<'a> {
    pub(super) dtype: DType,
    pub(super) elements: usize,
    pub(super) contributions: &'a [Contribution<'a>],
    /// The type of the contributions.
    pub(super) gradient_dtype: DType,
    /// The sum of earlier runs, at which this sum starts; −0 if there is none.
    pub(super) accumulated: Option<Span<'a>>,
    divisor: f64,
    pub(super) clipping: Clipping,
}

/// How a sum becomes a gradient.
#[derive(Clone, Copy)]
pub(crate) struct Finish<T> {
    pub(crate) scale: Scale,
    /// A sum is multiplied by the first factor, then the second. They are the factor of clipping
    /// and 1, unless the clipping's factor is smaller than the type's normal numbers.
    pub(crate) factors: [T; 2],
    pub(crate) limit: T,
}

/// How a sum is scaled.
#[derive(Clone, Copy)]
pub(crate) enum Scale {
    /// Multiply by the reciprocal of the divisor, where that is as good as dividing.
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

    /// The same sum, starting from `accumulated`, which is asserted to be float64 and of as many
    /// elements.
    #[inline]
    pub fn starting_from(mut self, accumulated: Option<Span<'a>>) -> WeightedSum<'a> {
        if let Some(sum) = &accumulated {
            assert_eq!(
                (sum.dtype(), sum.elements()),
                (DType::Float64, self.elements)
            );
        }
        self.accumulated = accumulated;
        self
    }

    /// The gradient that is made in the same way of other sums, float64, and of nothing else.
    pub(super) fn of_sums<'b>(&self, sums: Span<'b>) -> WeightedSum<'b> {
        WeightedSum {
            dtype: self.dtype,
            elements: sums.elements(),
            contributions: &[],
            gradient_dtype: self.dtype,
            accumulated: None,
            divisor: self.divisor,
            clipping: self.clipping,
        }
        .starting_from(Some(sums))
    }

    /// The same sum, clipped.
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

/// The type that all of `contributions` have; `None` if there are none. Each is asserted to have
/// `elements` elements.
pub(super) fn common_dtype(contributions: &[Contribution], elements: usize) -> Option<DType> {
    let dtype = contributions.first()?.gradient.dtype();
    for Contribution { gradient, .. } in contributions {
        assert_eq!((gradient.dtype(), gradient.elements()), (dtype, elements));
    }
    Some(dtype)
}

impl<T: Real> Finish<T> {
    /// The finish for elements of this type, of a sum that is divided by `divisor`.
    pub fn new(divisor: f64, clipping: Clipping) -> Finish<T> {
        // A division costs as much as all the rest of a simple formula. Multiplying by the
        // reciprocal of a power of two gives the same bits as the division. For other
        // divisors the result differs by less than two units in the last place of float64.
        // This does not matter for float32, whose exact results stay exact.
        let reciprocal = divisor.recip();
        let is_power_of_two = divisor.to_bits() & ((1 << (f64::MANTISSA_DIGITS - 1)) - 1) == 0;
        let multiplies = divisor.is_normal()
            && reciprocal.is_normal()
            && (is_power_of_two || T::DTYPE == DType::Float32);
        let scale = if multiplies {
            Scale::Multiply(reciprocal)
        } else {
            Scale::Divide(divisor)
        };
        let Clipping { factor, limit } = clipping;
        let factors = if T::from_f64(factor).is_normal() {
            [factor, 1.0]
        } else {
            [factor.abs().sqrt().copysign(factor), factor.abs().sqrt()]
        };
        Finish {
            scale,
            factors: factors.map(T::from_f64),
            limit: T::from_f64(limit),
        }
    }

    /// Whether clipping only multiplies with one factor, which may be 1, and limits nothing.
    pub(super) fn only_multiplies(self) -> bool {
        self.factors[1] == T::from_f64(1.0) && self.limit == T::from_f64(f64::INFINITY)
    }

    /// The gradient, from a sum that is already scaled.
    #[inline(always)]
    pub(super) fn clipped<const N: usize>(self, mut scaled: [T; N]) -> [T; N] {
        let [first, second] = self.factors;
        for element in &mut scaled {
            *element = (*element * first * second).limited(self.limit);
        }
        scaled
    }
}
