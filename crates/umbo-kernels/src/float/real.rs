//! The element types of variables that can be trained.

use std::ops::{Add, Div, Mul, Neg, Sub};

use half::{bf16, f16};

use crate::dtype::{DType, Element};
use crate::float::gradient_element::{GradientElement, for_gradient_dtype};
use crate::float::lanes::Round;
use crate::view::ViewMut;

/// The element types that can be trained, and the arithmetic that update formulas need.
pub trait Real:
    Element
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + GradientElement
    + Round
{
    /// The type as which a float16 gradient of a variable of this type is read. If such gradients
    /// do not exist (see [`gradient_element`](crate::float::gradient_element)), it is this type
    /// itself, so that no loop is compiled for them.
    type Float16: GradientElement;

    /// The same for bfloat16.
    type BFloat16: GradientElement;

    /// The nearest value of this type.
    fn from_f64(value: f64) -> Self;

    /// The same number in float64.
    fn to_f64(self) -> f64;

    /// The correctly rounded square root.
    fn sqrt(self) -> Self;

    /// The largest finite number.
    fn largest() -> Self;

    /// The distance from 1 to the next number.
    fn epsilon() -> Self;

    /// Whether this number is neither zero, subnormal, infinite nor NaN.
    fn is_normal(self) -> bool;

    /// The nearest number in [−`limit`, `limit`]; NaN stays NaN.
    #[inline(always)]
    fn limited(self, limit: Self) -> Self {
        // Two comparisons compile to one instruction each; a choice among three values does not.
        let below = if limit < self { limit } else { self };
        if -limit > below { -limit } else { below }
    }
}

macro_rules! reals {
    ($($rust:ty: $float16:ty, $bfloat16:ty;)*) => {
        $(
            impl Real for $rust {
                type Float16 = $float16;
                type BFloat16 = $bfloat16;

                #[inline(always)]
                fn from_f64(value: f64) -> Self {
                    value as $rust
                }

                #[inline(always)]
                fn to_f64(self) -> f64 {
                    f64::from(self)
                }

                #[inline(always)]
                fn sqrt(self) -> Self {
                    <$rust>::sqrt(self)
                }

                #[inline(always)]
                fn largest() -> Self {
                    <$rust>::MAX
                }

                #[inline(always)]
                fn epsilon() -> Self {
                    <$rust>::EPSILON
                }

                #[inline(always)]
                fn is_normal(self) -> bool {
                    <$rust>::is_normal(self)
                }
            }
        )*
    };
}

reals! {
    f32: f16, bf16;
    f64: f64, f64;
}

/// Whether variables of this element type can be updated everywhere, and in their own type.
pub fn is_supported(dtype: DType) -> bool {
    matches!(dtype, DType::Float32 | DType::Float64)
}

/// The type in which variables of this element type are updated. It is their own, but weights in
/// bfloat16 are updated in float32, and rounded ([`rounding`](crate::update::rounding)).
pub const fn computing(dtype: DType) -> DType {
    match dtype {
        DType::BFloat16 => DType::Float32,
        same => same,
    }
}

/// Runs an expression in which `$element` stands for the Rust type of a dtype that
/// [`is_supported`]. Any other dtype is a defect of the caller.
macro_rules! for_real {
    ($dtype:expr, $element:ident => $body:expr) => {
        $crate::dtype::for_listed!(
            $dtype, $element => $body,
            else _ => unreachable!("no variable of {} can have gradients", $dtype);
            Float32 => f32, Float64 => f64
        )
    };
}
pub(crate) use for_real;

/// Runs an expression in which `$element` stands for the Rust type of a gradient's dtype. The
/// variable has the Rust type `$variable`.
macro_rules! for_gradient {
    ($variable:ty, $dtype:expr, $element:ident => $body:expr) => {
        $crate::dtype::for_listed!(
            $dtype, $element => $body, else _ => {
                type $element = $variable;
                $body
            };
            Float16 => <$variable as $crate::float::real::Real>::Float16,
            BFloat16 => <$variable as $crate::float::real::Real>::BFloat16
        )
    };
}
pub(crate) use for_gradient;

/// Calls `next` for each element of a contiguous view of floats in order, and writes its result,
/// rounded to the dtype.
pub fn fill_with(view: &mut ViewMut, next: &mut dyn FnMut() -> f64) {
    assert!(view.layout().is_contiguous());
    let elements = view.layout().shape.elements();
    for_gradient_dtype!(view.dtype(), T => {
        let first = view.data().cast::<T>();
        for index in 0..elements {
            // SAFETY: the view holds `elements` contiguous elements that may be written.
            unsafe { first.add(index).write(T::rounded(next())) };
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Layout, Shape};

    fn view_mut<T: Element>(data: &mut [T]) -> ViewMut<'_> {
        let layout = Layout::row_major(Shape::new(&[data.len()]).unwrap());
        // SAFETY: the view is used while `data` is borrowed by the caller alone.
        unsafe { ViewMut::new(data.as_mut_ptr().cast(), T::DTYPE, layout) }
    }

    #[test]
    fn fill_writes_every_element() {
        let mut singles = [1.0f32; 19];
        let mut doubles = [1.0f64; 3];
        fill_with(&mut view_mut(&mut singles), &mut || 0.1);
        fill_with(&mut view_mut(&mut doubles), &mut || 0.1);
        assert_eq!((singles, doubles), ([0.1; 19], [0.1; 3]));
    }
}
