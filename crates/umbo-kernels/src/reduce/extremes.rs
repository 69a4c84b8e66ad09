//! The work of MIN and MAX on one element: elements become keys, and the earliest key is the
//! result's.
//!
//! Keys are in the order of the numbers, -0 before +0, and every NaN comes back as the quiet NaN.
//! So the result does not depend on the order of the elements. Keys of integers and of 16-bit
//! floats are signed integers; those of wider floats are floats, for which processors have
//! instructions.

use half::{bf16, f16};

use crate::dtype::Element;
use crate::reduce::reduction::ReductionLoop;

/// An element type whose values have an order.
pub trait Ordered: Element {
    /// The type of keys.
    type Key: Key;
    /// The key of an element. The first one is the smallest element's, or, if `LARGEST` is true,
    /// the largest element's.
    fn key<const LARGEST: bool>(self) -> Self::Key;
    /// The element of a key.
    fn of_key<const LARGEST: bool>(key: Self::Key) -> Self;
}

/// A type of keys.
pub trait Key: Copy + Send + Sync {
    /// The key that no other one is behind: that of no elements.
    const LAST: Self;
    /// The earlier one of two keys.
    fn earlier(self, other: Self) -> Self;
}

macro_rules! integers_as_keys {
    ($($key:ty)*) => {$(
        impl Key for $key {
            const LAST: $key = <$key>::MAX;

            #[inline(always)]
            fn earlier(self, other: $key) -> $key {
                self.min(other)
            }
        }
    )*};
}

integers_as_keys! { i8 i16 i32 i64 }

macro_rules! floats_as_keys {
    ($($key:ty)*) => {$(
        impl Key for $key {
            const LAST: $key = <$key>::INFINITY;

            #[inline(always)]
            fn earlier(self, other: $key) -> $key {
                // Two instructions that take the second number if one is NaN or both are zeros. The
                // bits of both together are those of -0 if one is, and of a NaN if one is.
                let one = if self < other { self } else { other };
                let two = if other < self { other } else { self };
                <$key>::from_bits(one.to_bits() | two.to_bits())
            }
        }
    )*};
}

floats_as_keys! { f32 f64 }

/// The smallest element; if `LARGEST` is true, the largest one.
pub struct Extreme<T, const LARGEST: bool>(std::marker::PhantomData<T>);

impl<T: Ordered, const LARGEST: bool> ReductionLoop for Extreme<T, LARGEST> {
    type Input = T;
    type Accumulator = T::Key;
    type Output = T;
    const ZERO: T::Key = T::Key::LAST;
    const IS_CHOICE: bool = true;

    #[inline(always)]
    fn widen(element: T) -> T::Key {
        element.key::<LARGEST>()
    }

    #[inline(always)]
    fn add(left: T::Key, right: T::Key) -> T::Key {
        left.earlier(right)
    }

    #[inline(always)]
    fn finish(key: T::Key, _count: f64) -> T {
        T::of_key::<LARGEST>(key)
    }
}

/// All bits, which turn the order of keys round.
#[inline(always)]
const fn turn<const LARGEST: bool>() -> i64 {
    if LARGEST { -1 } else { 0 }
}

macro_rules! integer_keys {
    ($($integer:ty, $key:ty, $offset:expr;)*) => {$(
        impl Ordered for $integer {
            type Key = $key;

            #[inline(always)]
            fn key<const LARGEST: bool>(self) -> $key {
                self as $key ^ $offset ^ turn::<LARGEST>() as $key
            }

            #[inline(always)]
            fn of_key<const LARGEST: bool>(key: $key) -> $integer {
                (key ^ $offset ^ turn::<LARGEST>() as $key) as $integer
            }
        }
    )*};
}

// An unsigned integer whose first bit is inverted has the order of signed ones.
integer_keys! {
    i8, i8, 0;
    i16, i16, 0;
    i32, i32, 0;
    i64, i64, 0;
    u8, i8, i8::MIN;
    u16, i16, i16::MIN;
    u32, i32, i32::MIN;
    u64, i64, i64::MIN;
}

/// The bits of a float in the order of the numbers, as a signed integer; and back.
macro_rules! in_order {
    ($bits:expr, $key:ty) => {
        $bits ^ ($bits >> (<$key>::BITS - 1) & <$key>::MAX)
    };
}

macro_rules! float_keys {
    ($($float:ty, $key:ty, $nan:expr;)*) => {$(
        impl Ordered for $float {
            type Key = $key;

            #[inline(always)]
            fn key<const LARGEST: bool>(self) -> $key {
                let bits = self.to_bits() as $key;
                let number = in_order!(bits, $key) ^ turn::<LARGEST>() as $key;
                let is_nan = bits & <$key>::MAX > <$float>::INFINITY.to_bits() as $key;
                if is_nan { <$key>::MIN } else { number }
            }

            #[inline(always)]
            fn of_key<const LARGEST: bool>(key: $key) -> $float {
                let number = key ^ turn::<LARGEST>() as $key;
                let number = in_order!(number, $key);
                let is_nan = key == <$key>::MIN;
                <$float>::from_bits(if is_nan { $nan } else { number as _ })
            }
        }
    )*};
}

float_keys! {
    f16, i16, 0x7e00;
    bf16, i16, 0x7fc0;
}

macro_rules! own_keys {
    ($($float:ty, $nan:expr;)*) => {$(
        impl Ordered for $float {
            type Key = $float;

            #[inline(always)]
            fn key<const LARGEST: bool>(self) -> $float {
                if LARGEST { -self } else { self }
            }

            #[inline(always)]
            fn of_key<const LARGEST: bool>(key: $float) -> $float {
                if key.is_nan() {
                    <$float>::from_bits($nan)
                } else if LARGEST {
                    -key
                } else {
                    key
                }
            }
        }
    )*};
}

own_keys! {
    f32, 0x7fc0_0000;
    f64, 0x7ff8_0000_0000_0000;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result for two elements.
    fn of<const LARGEST: bool, T: Ordered>(left: T, right: T) -> T {
        let key = left.key::<LARGEST>().earlier(right.key::<LARGEST>());
        T::of_key::<LARGEST>(key)
    }

    #[test]
    fn every_pair_of_16_bit_floats_has_its_extremes() {
        let interesting = [
            0, 1, 0x8000, 0x8001, 0x3c00, 0xbc00, 0x7bff, 0x7c00, 0xfc00, 0x7c01,
        ];
        for left in 0..=u16::MAX {
            for right in interesting {
                let (a, b) = (f16::from_bits(left), f16::from_bits(right));
                let is_less = a < b || a == b && a.is_sign_negative();
                let (least, most) = match (a.is_nan() || b.is_nan(), is_less) {
                    (true, _) => (0x7e00, 0x7e00),
                    (_, true) => (left, right),
                    _ => (right, left),
                };
                assert_eq!(of::<false, _>(a, b).to_bits(), least, "{left:x} {right:x}");
                assert_eq!(of::<true, _>(a, b).to_bits(), most, "{left:x} {right:x}");
            }
        }
    }

    #[test]
    fn wider_floats_are_in_order() {
        let ordered = [
            f64::NEG_INFINITY,
            -1.5,
            -5e-324,
            -0.0,
            0.0,
            5e-324,
            1.5,
            f64::INFINITY,
        ];
        for (position, &low) in ordered.iter().enumerate() {
            for &high in &ordered[position..] {
                assert_eq!(of::<false, _>(high, low).to_bits(), low.to_bits());
                assert_eq!(of::<true, _>(low, high).to_bits(), high.to_bits());
                let pair = (low as f32, high as f32);
                assert_eq!(of::<false, _>(pair.1, pair.0).to_bits(), pair.0.to_bits());
                assert_eq!(of::<true, _>(pair.0, pair.1).to_bits(), pair.1.to_bits());
            }
            for nan in [f64::NAN, -f64::NAN, f64::from_bits(0x7ff0_0000_0000_0001)] {
                assert_eq!(of::<false, _>(low, nan).to_bits(), f64::NAN.to_bits());
                assert_eq!(of::<true, _>(nan, low).to_bits(), f64::NAN.to_bits());
            }
        }
    }

    #[test]
    fn integers_are_in_order() {
        assert_eq!(
            (of::<false, _>(200u8, 3), of::<true, _>(200u8, 3)),
            (3, 200)
        );
        assert_eq!(
            (of::<false, _>(-100i8, 3), of::<true, _>(-100i8, 3)),
            (-100, 3)
        );
        assert_eq!(
            (of::<false, _>(u64::MAX, 0), of::<true, _>(u64::MAX, 0)),
            (0, u64::MAX)
        );
        let all = i64::MIN..=i64::MAX;
        assert_eq!(of::<false, _>(*all.start(), *all.end()), i64::MIN);
        assert_eq!(of::<true, _>(*all.start(), *all.end()), i64::MAX);
    }
}
