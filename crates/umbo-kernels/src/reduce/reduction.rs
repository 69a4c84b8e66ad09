//! The work of SUM and MEAN over replicas on one element: how they widen it, add it and round it.
//! That of MIN and MAX is in [`extremes`](super::extremes).
//!
//! 16-bit floats accumulate in float32, and float32 in float64. The sum is rounded once, at the
//! end. Integers wrap in SUM; for MEAN they are added exactly and divided in float64.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use half::{bf16, f16};

use crate::dtype::Element;
use crate::float::half_precision::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use crate::instruction_set::Instructions;
use crate::reduce::half_sums::{reduce_bf16s, reduce_f16s};

enum_with_all! {
    /// The kinds of reductions. The numbers are those of the C constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(i32)]
    pub enum ReduceOp {
        /// The sum.
        Sum = 1,
        /// The sum divided by the number of addends.
        Mean = 2,
        /// The smallest element.
        Min = 3,
        /// The largest element.
        Max = 4,
    }
}

impl ReduceOp {
    /// The operation's name: `SUM`, `MEAN`, `MIN` or `MAX`.
    pub fn name(self) -> &'static str {
        match self {
            ReduceOp::Sum => "SUM",
            ReduceOp::Mean => "MEAN",
            ReduceOp::Min => "MIN",
            ReduceOp::Max => "MAX",
        }
    }

    /// Whether it chooses one of the elements. The result of equal elements is such an element.
    pub fn is_choice(self) -> bool {
        matches!(self, ReduceOp::Min | ReduceOp::Max)
    }
}

/// How elements of one type become a result.
pub trait ReductionLoop: 'static {
    /// The type of the elements that are reduced.
    type Input: Element;
    /// The type of the sums.
    type Accumulator: Copy + Send + Sync;
    /// The type of the result.
    type Output: Element;
    /// The sum of no elements.
    const ZERO: Self::Accumulator;
    /// Whether the result is one of the elements.
    const IS_CHOICE: bool = false;
    /// One element as a sum.
    fn widen(element: Self::Input) -> Self::Accumulator;
    /// The sum of two sums.
    fn add(left: Self::Accumulator, right: Self::Accumulator) -> Self::Accumulator;
    /// The result for a sum of `count` elements.
    fn finish(sum: Self::Accumulator, count: f64) -> Self::Output;

    /// The result for one element of each of `R` inputs, added from the first to the last.
    #[inline(always)]
    fn element<const R: usize>(elements: [Self::Input; R]) -> Self::Output {
        let mut sum = Self::widen(elements[0]);
        for &element in &elements[1..] {
            sum = Self::add(sum, Self::widen(element));
        }
        Self::finish(sum, R as f64)
    }

    /// The results of [`ReductionLoop::element`] for a block of each input. A block is `N`
    /// elements: one cache line or several. It may use `instructions`.
    #[inline(always)]
    fn block<const R: usize, const N: usize>(
        _: Instructions,
        inputs: [&[Self::Input; N]; R],
        output: &mut [MaybeUninit<Self::Output>; N],
    ) {
        for (position, output) in output.iter_mut().enumerate() {
            output.write(Self::element(inputs.map(|input| input[position])));
        }
    }
}

/// SUM.
pub struct Sum<T>(PhantomData<T>);
/// MEAN.
pub struct Mean<T>(PhantomData<T>);

macro_rules! reduction {
    (
        $name:ident<$input:ty> -> $output:ty, $accumulator:ty, $zero:expr,
        |$element:ident| $widen:expr,
        |$left:ident, $right:ident| $add:expr,
        |$sum:ident, $count:ident| $finish:expr
        $(, { $($more:item)* })?
    ) => {
        impl ReductionLoop for $name<$input> {
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

            $($($more)*)?
        }
    };
}

macro_rules! float_reductions {
    ($($float:ty, $wide:ty, $widen:expr, $narrow:expr, $more:tt, $more_mean:tt;)*) => {$(
        reduction!(Sum<$float> -> $float, $wide, 0.0,
            |element| $widen(element), |left, right| left + right, |sum, _count| $narrow(sum),
            $more);
        reduction!(Mean<$float> -> $float, $wide, 0.0,
            |element| $widen(element), |left, right| left + right,
            |sum, count| $narrow(sum / count as $wide),
            $more_mean);
    )*};
}

#[inline(always)]
fn f64_to_f32(value: f64) -> f32 {
    value as f32
}

/// Reduces a block of a 16-bit float by `$reduce` with `$divisor` if the processor can, else
/// element by element.
macro_rules! narrow_block {
    ($float:ty, $reduce:ident, $divisor:expr) => {
        #[inline(always)]
        fn block<const R: usize, const N: usize>(
            instructions: Instructions,
            inputs: [&[$float; N]; R],
            output: &mut [MaybeUninit<$float>; N],
        ) {
            if !$reduce(instructions, inputs, $divisor, output) {
                for (position, output) in output.iter_mut().enumerate() {
                    output.write(Self::element(inputs.map(|input| input[position])));
                }
            }
        }
    };
}

/// The means of two blocks of float32, by additions in float32. If a sum is not finite it returns
/// false, and the output has no meaning.
///
/// The bits are those of a sum in float64 that is halved and rounded once. Half of the sum that was
/// rounded first is exact unless it is denormal, and if it is denormal, the sum was exact.
#[inline(always)]
fn mean_of_two<const N: usize>(
    first: &[f32; N],
    second: &[f32; N],
    output: &mut [MaybeUninit<f32>; N],
) -> bool {
    const EXPONENT: u32 = 0x7f80_0000;
    let mut overflow = 0;
    for (position, output) in output.iter_mut().enumerate() {
        let sum = first[position] + second[position];
        overflow |= u32::from(sum.to_bits() & EXPONENT == EXPONENT);
        output.write(sum * 0.5);
    }
    overflow == 0
}

float_reductions! {
    f16, f32, f16_to_f32, f32_to_f16,
        { narrow_block! { f16, reduce_f16s, None } },
        { narrow_block! { f16, reduce_f16s, Some(R as f32) } };
    bf16, f32, bf16_to_f32, f32_to_bf16,
        { narrow_block! { bf16, reduce_bf16s, None } },
        { narrow_block! { bf16, reduce_bf16s, Some(R as f32) } };
    f32, f64, f64::from, f64_to_f32, {
        #[inline(always)]
        fn element<const R: usize>(elements: [f32; R]) -> f32 {
            if R == 2 {
                // A float64 has more than twice as many digits, so first rounding the sum to it
                // would change nothing.
                return elements[0] + elements[1];
            }
            let mut sum = f64::from(elements[0]);
            for &element in &elements[1..] {
                sum += f64::from(element);
            }
            sum as f32
        }
    }, {
        #[inline(always)]
        fn block<const R: usize, const N: usize>(
            _: Instructions,
            inputs: [&[f32; N]; R],
            output: &mut [MaybeUninit<f32>; N],
        ) {
            if R == 2 && mean_of_two(inputs[0], inputs[R - 1], output) {
                return;
            }
            for (position, output) in output.iter_mut().enumerate() {
                output.write(Self::element(inputs.map(|input| input[position])));
            }
        }
    };
    f64, f64, f64::from, f64::from, {}, {};
}

/// The largest number of elements that are added over replicas.
pub const MAX_ADDENDS: usize = 1 << 15;

macro_rules! integer_sums {
    ($($integer:ty)*) => {$(
        reduction!(Sum<$integer> -> $integer, $integer, 0,
            |element| element, |left, right| left.wrapping_add(right), |sum, _count| sum);
    )*};
}

// Sums of signed integers have the same bits as those of unsigned ones.
integer_sums! { u8 u16 u32 u64 }

/// The wide type can hold the sum of [`MAX_ADDENDS`] elements. A float64 has more than twice the
/// digits of a float32, so a quotient of numbers that float32 holds exactly may be rounded to it
/// first.
macro_rules! integer_means {
    ($($integer:ty => $mean:ty, $wide:ty;)*) => {$(
        reduction!(Mean<$integer> -> $mean, $wide, 0,
            |element| <$wide>::from(element), |left, right| left + right,
            |sum, count| (sum as f64 / count) as $mean);
    )*};
}

integer_means! {
    i8 => f32, i32;
    u8 => f32, i32;
    i16 => f32, i32;
    u16 => f32, i32;
    i64 => f64, i128;
    u64 => f64, i128;
}

// The sum of [`MAX_ADDENDS`] 32-bit integers is exact in float64.
reduction!(Mean<i32> -> f64, f64, 0.0,
    |element| f64::from(element), |left, right| left + right, |sum, count| sum / count);
reduction!(Mean<u32> -> f64, f64, 0.0,
    |element| f64::from(element), |left, right| left + right, |sum, count| sum / count);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_two_is_rounded_once() {
        const BLOCK: usize = 16;
        let interesting = [
            0.0,
            -0.0,
            1.0,
            f32::MAX,
            -f32::MAX,
            f32::MIN_POSITIVE,
            1e-40,
            -1e-45,
            3e-39,
            1.5e38,
        ];
        let noise = (0..40_000u32).map(|i| f32::from_bits(i.wrapping_mul(0x9e37_79b9)));
        let small = (0..20_000u32).map(|i| f32::from_bits(i.wrapping_mul(0x9e37_79b9) >> 7));
        let values: Vec<f32> = interesting.into_iter().chain(noise).chain(small).collect();
        let mut quick = 0;
        let mut slow = 0;
        for shift in [0, 1, 7, 4097] {
            for start in (0..values.len() - BLOCK - shift).step_by(BLOCK) {
                let block = |at: usize| -> [f32; BLOCK] { std::array::from_fn(|i| values[at + i]) };
                let first = block(start);
                let second = block(start + shift);
                let mut output = [MaybeUninit::uninit(); BLOCK];
                let all = mean_of_two(&first, &second, &mut output);
                *(if all { &mut quick } else { &mut slow }) += 1;
                Mean::<f32>::block(Instructions::chosen(), [&first, &second], &mut output);
                for lane in 0..BLOCK {
                    // SAFETY: the block was written.
                    let ours = unsafe { output[lane].assume_init() };
                    let exact = ((f64::from(first[lane]) + f64::from(second[lane])) / 2.0) as f32;
                    let same = ours.to_bits() == exact.to_bits() || ours.is_nan() && exact.is_nan();
                    assert!(same, "{} {}", first[lane], second[lane]);
                }
            }
        }
        assert!(quick > 100 && slow > 100, "{quick} {slow}");
    }
}
