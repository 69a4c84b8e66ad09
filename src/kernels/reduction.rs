//! What SUM and MEAN do with one element: how it is widened, added and rounded.
//!
//! Over replicas 16-bit floats accumulate in float32 and float32 in float64; over axes all floats
//! accumulate in float64. The sum is rounded once, at the end. Integers wrap in SUM; for MEAN they
//! are added exactly and divided in float64.

use std::marker::PhantomData;

use half::{bf16, f16};

use crate::kernels::dtype::Element;
use crate::kernels::half_precision::{
    bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16, f64_to_bf16, f64_to_f16,
};

/// What a reduction computes. The numbers are those of the C constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum ReduceOp {
    /// The sum.
    Sum = 1,
    /// The sum divided by the number of addends.
    Mean = 2,
}

impl ReduceOp {
    /// The operation with this number, if there is one.
    pub fn from_code(code: i32) -> Option<ReduceOp> {
        match code {
            1 => Some(ReduceOp::Sum),
            2 => Some(ReduceOp::Mean),
            _ => None,
        }
    }

    /// The operation's name, `SUM` or `MEAN`.
    pub fn name(self) -> &'static str {
        match self {
            ReduceOp::Sum => "SUM",
            ReduceOp::Mean => "MEAN",
        }
    }
}

/// How elements of one type become a result.
pub trait Reduction: 'static {
    /// What is reduced.
    type Input: Element;
    /// What is added up.
    type Accumulator: Copy + Send + Sync;
    /// What comes out.
    type Output: Element;
    /// The sum of nothing.
    const ZERO: Self::Accumulator;
    /// One element as a sum.
    fn widen(element: Self::Input) -> Self::Accumulator;
    /// The sum of two sums.
    fn add(left: Self::Accumulator, right: Self::Accumulator) -> Self::Accumulator;
    /// The result for a sum of `count` elements.
    fn finish(sum: Self::Accumulator, count: f64) -> Self::Output;
}

/// SUM over replicas.
pub struct Sum<T>(PhantomData<T>);
/// MEAN over replicas.
pub struct Mean<T>(PhantomData<T>);
/// SUM over axes and replicas.
pub struct SumOverAxes<T>(PhantomData<T>);
/// MEAN over axes and replicas.
pub struct MeanOverAxes<T>(PhantomData<T>);

macro_rules! reduction {
    (
        $name:ident<$input:ty> -> $output:ty, $accumulator:ty, $zero:expr,
        |$element:ident| $widen:expr,
        |$left:ident, $right:ident| $add:expr,
        |$sum:ident, $count:ident| $finish:expr
    ) => {
        impl Reduction for $name<$input> {
            type Input = $input;
            type Accumulator = $accumulator;
            type Output = $output;
            const ZERO: $accumulator = $zero;

            #[inline(always)]
            fn widen($element: $input) -> $accumulator {
                $widen
            }

            #[inline(always)]
            fn add($left: $accumulator, $right: $accumulator) -> $accumulator {
                $add
            }

            #[inline(always)]
            fn finish($sum: $accumulator, $count: f64) -> $output {
                $finish
            }
        }
    };
}

macro_rules! float_reductions {
    ($($float:ty, $wide:ty, $widen:expr, $narrow:expr, $from_f64:expr;)*) => {$(
        reduction!(Sum<$float> -> $float, $wide, 0.0,
            |element| $widen(element), |left, right| left + right, |sum, _count| $narrow(sum));
        reduction!(Mean<$float> -> $float, $wide, 0.0,
            |element| $widen(element), |left, right| left + right,
            |sum, count| $narrow(sum / count as $wide));
        reduction!(SumOverAxes<$float> -> $float, f64, 0.0,
            |element| f64::from($widen(element)), |left, right| left + right,
            |sum, _count| $from_f64(sum));
        reduction!(MeanOverAxes<$float> -> $float, f64, 0.0,
            |element| f64::from($widen(element)), |left, right| left + right,
            |sum, count| $from_f64(sum / count));
    )*};
}

#[inline(always)]
fn f64_to_f32(value: f64) -> f32 {
    value as f32
}

float_reductions! {
    f16, f32, f16_to_f32, f32_to_f16, f64_to_f16;
    bf16, f32, bf16_to_f32, f32_to_bf16, f64_to_bf16;
    f32, f64, f64::from, f64_to_f32, f64_to_f32;
    f64, f64, f64::from, f64::from, f64::from;
}

macro_rules! integer_reductions {
    // The wide type holds the sum of as many elements as memory can hold.
    ($($integer:ty, $wide:ty, $mean:ty;)*) => {$(
        integer_reductions!(Sum, Mean, $integer, $wide, $mean);
        integer_reductions!(SumOverAxes, MeanOverAxes, $integer, $wide, $mean);
    )*};
    ($sum:ident, $mean_of:ident, $integer:ty, $wide:ty, $mean:ty) => {
        reduction!($sum<$integer> -> $integer, $integer, 0,
            |element| element, |left, right| left.wrapping_add(right), |sum, _count| sum);
        reduction!($mean_of<$integer> -> $mean, $wide, 0,
            |element| <$wide>::from(element), |left, right| left + right,
            |sum, count| (sum as f64 / count) as $mean);
    };
}

integer_reductions! {
    i8, i64, f32;
    u8, i64, f32;
    i16, i64, f32;
    u16, i64, f32;
    i32, i128, f64;
    u32, i128, f64;
    i64, i128, f64;
    u64, i128, f64;
}
