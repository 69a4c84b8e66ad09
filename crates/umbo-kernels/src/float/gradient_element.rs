//! The element types that gradients can have.

use half::{bf16, f16};

use crate::dtype::{DType, Element};
use crate::float::half_precision::{bf16_to_f32, f64_to_bf16, f64_to_f16, widen_f16s};
use crate::float::lanes::Widen;
use crate::instruction_set::Instructions;

/// An element of a gradient. Sums over replicas are float64. Every element is first widened to
/// float64, which is exact.
pub trait GradientElement: Element + Widen {
    /// The number, rounded once to this type.
    fn rounded(value: f64) -> Self;

    /// The given elements in float64.
    fn widened<const N: usize>(instructions: Instructions, elements: [Self; N]) -> [f64; N];
}

impl GradientElement for f64 {
    #[inline(always)]
    fn rounded(value: f64) -> f64 {
        value
    }

    #[inline(always)]
    fn widened<const N: usize>(_: Instructions, elements: [f64; N]) -> [f64; N] {
        elements
    }
}

impl GradientElement for f32 {
    #[inline(always)]
    fn rounded(value: f64) -> f32 {
        value as f32
    }

    #[inline(always)]
    fn widened<const N: usize>(_: Instructions, elements: [f32; N]) -> [f64; N] {
        elements.map(f64::from)
    }
}

impl GradientElement for bf16 {
    fn rounded(value: f64) -> bf16 {
        f64_to_bf16(value)
    }

    #[inline(always)]
    fn widened<const N: usize>(_: Instructions, elements: [bf16; N]) -> [f64; N] {
        // Not `map`: compilers leave a call for each element in it if there are many elements.
        let mut wide = [0.0; N];
        for (wide, element) in wide.iter_mut().zip(elements) {
            *wide = f64::from(bf16_to_f32(element));
        }
        wide
    }
}

impl GradientElement for f16 {
    fn rounded(value: f64) -> f16 {
        f64_to_f16(value)
    }

    #[inline(always)]
    fn widened<const N: usize>(instructions: Instructions, elements: [f16; N]) -> [f64; N] {
        let mut wide = [0.0; N];
        for (wide, element) in wide.iter_mut().zip(widen_f16s(instructions, elements)) {
            *wide = f64::from(element);
        }
        wide
    }
}

/// Whether a variable of this element type can have gradients of type `gradient`. Gradients can
/// have the type of the variable. Those of variables that are updated in float32 can also be
/// float32 and 16-bit floats.
pub fn is_supported(variable: DType, gradient: DType) -> bool {
    match variable {
        DType::Float32 | DType::BFloat16 => {
            matches!(gradient, DType::Float32 | DType::BFloat16 | DType::Float16)
        }
        DType::Float64 => gradient == DType::Float64,
        _ => false,
    }
}

/// Runs an expression in which `$element` stands for the Rust type of a gradient's dtype. Any other
/// dtype is a defect of the caller.
#[macro_export]
macro_rules! for_gradient_dtype {
    ($dtype:expr, $element:ident => $body:expr) => {
        $crate::dtype::for_float!(
            $dtype, $element => $body, else unreachable!("no gradient is of {}", $dtype)
        )
    };
}
pub use for_gradient_dtype;
