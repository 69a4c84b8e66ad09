//! The types as which a reduction over axes reads elements: numbers of which there are sums, and
//! keys of which there is an extreme.

use std::mem::MaybeUninit;

use half::{bf16, f16};

use crate::dtype::DType;
use crate::float::half_precision::{bf16_to_f32, f16_to_f32};
use crate::reduce::extremes::{self, Ordered};

/// Runs an expression for an element type whose keys are integers of at most 32 bits.
macro_rules! for_small {
    ($dtype:expr, $element:ident => $body:expr) => {
        $crate::dtype::for_listed!(
            $dtype, $element => $body,
            else D::Float32 | D::Float64 | D::Int64 | D::UInt64 => unreachable!("other keys");
            Float16 => f16, BFloat16 => bf16, Int8 => i8, Int16 => i16, Int32 => i32,
            UInt8 | Bool => u8, UInt16 => u16, UInt32 => u32
        )
    };
}

pub(super) use for_small;

/// The type as which elements are read. Some types of elements share a number's loops.
pub(super) trait Number: Copy + Send + Sync + Into<Self::Sum> + 'static {
    /// The type of sums, of which the default is that of no elements.
    type Sum: Copy + Send + Sync + Default;

    /// The sum of two sums.
    fn add(left: Self::Sum, right: Self::Sum) -> Self::Sum;

    /// The elements from `raw` on, as many as the buffer has room for: where they lie, or converted
    /// in the buffer.
    ///
    /// # Safety
    /// They are of type `dtype`, which is one of those that share this number, and may be read.
    unsafe fn read(dtype: DType, raw: *const u8, buffer: &mut [MaybeUninit<Self>]) -> &[Self];
}

macro_rules! numbers {
    ($($number:ty: $sum:ty, |$left:ident, $right:ident| $add:expr, {
        $($dtype:ident: $element:ty => $convert:expr,)*
    })*) => {$(
        impl Number for $number {
            type Sum = $sum;

            #[inline(always)]
            fn add($left: $sum, $right: $sum) -> $sum {
                $add
            }

            #[inline(always)]
            unsafe fn read(
                dtype: DType,
                raw: *const u8,
                buffer: &mut [MaybeUninit<$number>],
            ) -> &[$number] {
                match dtype {
                    $(DType::$dtype => {
                        // SAFETY: the caller's promise.
                        let elements = unsafe {
                            std::slice::from_raw_parts(raw.cast::<$element>(), buffer.len())
                        };
                        for (number, &element) in buffer.iter_mut().zip(elements) {
                            number.write($convert(element));
                        }
                        // SAFETY: all of it was just written.
                        unsafe { buffer.assume_init_ref() }
                    })*
                    // SAFETY: they are of this type: the caller's promise.
                    _ => unsafe { std::slice::from_raw_parts(raw.cast(), buffer.len()) },
                }
            }
        }
    )*};
}

numbers! {
    f32: f64, |left, right| left + right, {
        Float16: f16 => f16_to_f32,
        BFloat16: bf16 => bf16_to_f32,
    }
    f64: f64, |left, right| left + right, {}
    // Sums of at most 64 bits that wrap, and of 16 bits that cannot reach the range's end.
    i64: i64, |left, right| left.wrapping_add(right), {
        Int8: i8 => i64::from,
        UInt8: u8 => i64::from,
        Int16: i16 => i64::from,
        UInt16: u16 => i64::from,
        Int32: i32 => i64::from,
        UInt32: u32 => i64::from,
    }
    // Exact sums: memory holds too few elements to reach the range's end.
    i128: i128, |left, right| left + right, {
        Int32: i32 => i128::from,
        UInt32: u32 => i128::from,
        Int64: i64 => i128::from,
        UInt64: u64 => i128::from,
    }
}

/// The [key](Ordered::key) of an element. Integers are widened to 32 or 64 bits.
#[derive(Clone, Copy)]
pub(super) struct Key<K, const LARGEST: bool>(pub(super) K);

macro_rules! keys {
    ($($key:ty, |$dtype:ident, $raw:ident, $buffer:ident| $read:expr;)*) => {$(
        impl<const LARGEST: bool> Default for Key<$key, LARGEST> {
            fn default() -> Self {
                Key(extremes::Key::LAST)
            }
        }

        impl<const LARGEST: bool> Number for Key<$key, LARGEST> {
            type Sum = Self;

            #[inline(always)]
            fn add(left: Self, right: Self) -> Self {
                Key(extremes::Key::earlier(left.0, right.0))
            }

            #[inline(always)]
            unsafe fn read(
                $dtype: DType,
                $raw: *const u8,
                $buffer: &mut [MaybeUninit<Self>],
            ) -> &[Self] {
                // SAFETY: the caller's promise.
                unsafe { $read };
                // SAFETY: all of it was just written.
                unsafe { $buffer.assume_init_ref() }
            }
        }
    )*};
}

keys! {
    i32, |dtype, raw, buffer| for_small!(dtype, T => read_keys::<T, i32, LARGEST>(raw, buffer));
    i64, |dtype, raw, buffer| match dtype {
        DType::Int64 => read_keys::<i64, i64, LARGEST>(raw, buffer),
        _ => read_keys::<u64, i64, LARGEST>(raw, buffer),
    };
    f32, |_dtype, raw, buffer| read_keys::<f32, f32, LARGEST>(raw, buffer);
    f64, |_dtype, raw, buffer| read_keys::<f64, f64, LARGEST>(raw, buffer);
}

/// Writes the keys of the elements from `raw` on, as many as the buffer has room for.
///
/// # Safety
/// They are of type `T`, and may be read.
#[inline(always)]
unsafe fn read_keys<T: Ordered<Key: Into<K>>, K, const LARGEST: bool>(
    raw: *const u8,
    buffer: &mut [MaybeUninit<Key<K, LARGEST>>],
) {
    // SAFETY: the caller's promise.
    let elements = unsafe { std::slice::from_raw_parts(raw.cast::<T>(), buffer.len()) };
    for (key, &element) in buffer.iter_mut().zip(elements) {
        key.write(Key(element.key::<LARGEST>().into()));
    }
}
