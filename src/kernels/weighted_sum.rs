//! The gradient of one variable, as it comes from the replicas: the sum of factor × contribution, in
//! replica order and in float64, divided (or multiplied by the reciprocal), then clipped, all in
//! float64, then rounded once to the element type.
//!
//! Nothing of it is written to memory. An update ([`update`](crate::kernels::update)) and a norm
//! ([`measure`](crate::kernels::measure)) make the gradient anew, block by block. A sum may start
//! from what [`accumulate`](crate::kernels::accumulate) has kept of earlier runs.

use crate::kernels::dtype::DType;
use crate::kernels::gradient_element::GradientElement;
use crate::kernels::real::Real;
use crate::kernels::view::Span;

/// One replica's gradient of the variable, and the factor with which it enters the sum.
#[derive(Clone, Copy, Debug)]
pub struct Contribution {
    /// The elements, as many as the variable has, of its type or of a narrower one.
    pub gradient: Span,
    /// What each is multiplied with.
    pub factor: f64,
}

/// What is done to a gradient before it is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clipping {
    /// What each element is multiplied with; at most 1.
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
    pub(super) contributions: &'a [Contribution],
    /// The type of the contributions.
    pub(super) gradient_dtype: DType,
    /// Where the sum starts; zero if there is none.
    accumulated: Option<Span>,
    divisor: f64,
    pub(super) clipping: Clipping,
}

/// What makes a gradient of a sum.
#[derive(Clone, Copy)]
pub(super) enum Finish {
    /// Multiplying by the divisor's reciprocal, where that is as good as dividing.
    Multiply(f64),
    Divide(f64),
    Clip {
        divisor: f64,
        clipping: Clipping,
    },
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
        contributions: &'a [Contribution],
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
    pub fn starting_from(mut self, accumulated: Option<Span>) -> WeightedSum<'a> {
        if let Some(sum) = &accumulated {
            assert_eq!((sum.dtype(), sum.elements()), (DType::Float64, self.elements));
        }
        self.accumulated = accumulated;
        self
    }

    pub(super) fn finish(&self) -> Finish {
        let (divisor, clipping) = (self.divisor, self.clipping);
        // A division costs as much as all the rest of a simple formula. Multiplying by the
        // reciprocal of a power of two is the division, bit for bit. For other divisors it is off
        // by less than two units of float64's last place: of no account in float32, whose exact
        // results stay exact.
        let reciprocal = divisor.recip();
        let is_power_of_two = divisor.to_bits() & ((1 << (f64::MANTISSA_DIGITS - 1)) - 1) == 0;
        let multiplies = divisor.is_normal()
            && reciprocal.is_normal()
            && (is_power_of_two || self.dtype == DType::Float32);
        if clipping != Clipping::NONE {
            Finish::Clip { divisor, clipping }
        } else if multiplies {
            Finish::Multiply(reciprocal)
        } else {
            Finish::Divide(divisor)
        }
    }

    /// The bytes that are read for one element of the gradient.
    pub fn bytes(&self) -> usize {
        let accumulated = self.accumulated.map_or(0, |_| size_of::<f64>());
        self.contributions.len() * self.gradient_dtype.size() + accumulated
    }

    /// Whether the sum starts from zero.
    pub(super) fn is_fresh(&self) -> bool {
        self.accumulated.is_none()
    }

    /// The `N` elements from `start` on of the sum over `contributions`, which are this sum's.
    ///
    /// # Safety
    /// The contributions are of type `G`, and each has these elements.
    #[inline(always)]
    pub(super) unsafe fn block<G: GradientElement, const N: usize>(
        &self,
        contributions: &[Contribution],
        start: usize,
    ) -> [f64; N] {
        let sum = match &self.accumulated {
            None => [0.0; N],
            // SAFETY: it is float64 and as long as the weights (`starting_from` asserted it),
            // and its builder vouched for reading it.
            Some(accumulated) => unsafe {
                accumulated.data().cast::<f64>().add(start).cast::<[f64; N]>().read()
            },
        };
        // SAFETY: the caller's promise is the same.
        unsafe { Self::added::<G, N>(sum, contributions, start) }
    }

    /// The same for a sum that starts from zero.
    ///
    /// # Safety
    /// The contributions are of type `G`, and each has these elements.
    #[inline(always)]
    pub(super) unsafe fn fresh_block<G: GradientElement, const N: usize>(
        contributions: &[Contribution],
        start: usize,
    ) -> [f64; N] {
        // SAFETY: the caller's promise is the same.
        unsafe { Self::added::<G, N>([0.0; N], contributions, start) }
    }

    /// # Safety
    /// The contributions are of type `G`, and each has these elements.
    #[inline(always)]
    unsafe fn added<G: GradientElement, const N: usize>(
        mut sum: [f64; N],
        contributions: &[Contribution],
        start: usize,
    ) -> [f64; N] {
        for part in contributions {
            // SAFETY: the caller's promise, and the view's builder vouched for reading it.
            let gradient: [G; N] =
                unsafe { part.gradient.data().cast::<G>().add(start).cast::<[G; N]>().read() };
            for (sum, gradient) in sum.iter_mut().zip(G::widened(gradient)) {
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

impl Finish {
    /// The gradient, rounded to its type.
    #[inline(always)]
    pub(super) fn gradient<T: Real, const N: usize>(self, sum: [f64; N]) -> [T; N] {
        match self {
            Finish::Multiply(reciprocal) => sum.map(|sum| T::from_f64(sum * reciprocal)),
            Finish::Divide(divisor) => sum.map(|sum| T::from_f64(sum / divisor)),
            Finish::Clip { divisor, clipping: Clipping { factor, limit } } => {
                sum.map(|sum| T::from_f64((sum / divisor * factor).limited(limit)))
            }
        }
    }
}
