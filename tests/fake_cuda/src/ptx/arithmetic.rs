//! What instructions compute, from registers to a register. A register has 64 bits; a narrower
//! value has zeros above it.

/// A value of a type in a register.
pub trait Value: Copy + PartialOrd {
    fn get(register: u64) -> Self;
    fn put(self) -> u64;
}

macro_rules! integer_values {
    ($($signed:ty, $unsigned:ty;)*) => {$(
        impl Value for $unsigned {
            fn get(register: u64) -> Self {
                register as $unsigned
            }
            fn put(self) -> u64 {
                self as u64
            }
        }
        impl Value for $signed {
            fn get(register: u64) -> Self {
                register as $signed
            }
            fn put(self) -> u64 {
                self as $unsigned as u64
            }
        }
    )*};
}

integer_values! { i8, u8; i16, u16; i32, u32; i64, u64; }

impl Value for f32 {
    fn get(register: u64) -> Self {
        f32::from_bits(register as u32)
    }
    /// A result that is no number is always the same one, as on a device.
    fn put(self) -> u64 {
        if self.is_nan() { 0x7fff_ffff } else { u64::from(self.to_bits()) }
    }
}

impl Value for f64 {
    fn get(register: u64) -> Self {
        f64::from_bits(register)
    }
    fn put(self) -> u64 {
        self.to_bits()
    }
}

pub fn copy(a: u64) -> u64 {
    a
}

pub fn select(a: u64, b: u64, condition: u64) -> u64 {
    if condition != 0 { a } else { b }
}

/// What integers of every width can do.
pub trait Integer: Value + Ord {
    const BITS: u32;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn mul_high(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn rem(self, other: Self) -> Self;
    fn shr(self, count: u32) -> Self;
    /// The product in twice the width.
    fn mul_wide(self, other: Self) -> u64;
    fn magnitude(self) -> u64;
    fn zero() -> Self;
}

macro_rules! integers {
    ($($type:ident, $wide:ident, $widest:ident, $unsigned:ident;)*) => {$(
        impl Integer for $type {
            const BITS: u32 = $type::BITS;
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn mul_high(self, other: Self) -> Self {
                ((self as $widest * other as $widest) >> Self::BITS) as $type
            }
            /// Dividing by zero gives ones, as devices do; PTX leaves it open.
            fn div(self, other: Self) -> Self {
                if other == 0 { !0 } else { self.wrapping_div(other) }
            }
            fn rem(self, other: Self) -> Self {
                if other == 0 { self } else { self.wrapping_rem(other) }
            }
            fn shr(self, count: u32) -> Self {
                // A signed value keeps its sign, however far it is shifted.
                if count < Self::BITS { self >> count } else { (self >> (Self::BITS - 1)) >> 1 }
            }
            fn mul_wide(self, other: Self) -> u64 {
                Value::put((self as $wide).wrapping_mul(other as $wide))
            }
            fn magnitude(self) -> u64 {
                #[allow(unused_comparisons, reason = "some are unsigned")]
                let negative = self < 0;
                Value::put(if negative { (self as $unsigned).wrapping_neg() } else { self as $unsigned })
            }
            fn zero() -> Self {
                0
            }
        }
    )*};
}

integers! {
    u16, u32, u128, u16; u32, u64, u128, u32; u64, u64, u128, u64;
    i16, i32, i128, u16; i32, i64, i128, u32; i64, i64, i128, u64;
}

pub fn add<T: Integer>(a: u64, b: u64) -> u64 {
    T::get(a).add(T::get(b)).put()
}

pub fn sub<T: Integer>(a: u64, b: u64) -> u64 {
    T::get(a).sub(T::get(b)).put()
}

pub fn mul_low<T: Integer>(a: u64, b: u64) -> u64 {
    T::get(a).mul(T::get(b)).put()
}

pub fn mul_high<T: Integer>(a: u64, b: u64) -> u64 {
    T::get(a).mul_high(T::get(b)).put()
}

pub fn mul_wide<T: Integer>(a: u64, b: u64) -> u64 {
    T::get(a).mul_wide(T::get(b))
}

pub fn mad_low<T: Integer>(a: u64, b: u64, c: u64) -> u64 {
    T::get(a).mul(T::get(b)).add(T::get(c)).put()
}

pub fn mad_high<T: Integer>(a: u64, b: u64, c: u64) -> u64 {
    T::get(a).mul_high(T::get(b)).add(T::get(c)).put()
}

/// `W` is twice as wide as `T`.
pub fn mad_wide<T: Integer, W: Integer>(a: u64, b: u64, c: u64) -> u64 {
    W::get(T::get(a).mul_wide(T::get(b))).add(W::get(c)).put()
}

pub fn div<T: Integer>(a: u64, b: u64) -> u64 {
    T::get(a).div(T::get(b)).put()
}

pub fn rem<T: Integer>(a: u64, b: u64) -> u64 {
    T::get(a).rem(T::get(b)).put()
}

pub fn min<T: Integer>(a: u64, b: u64) -> u64 {
    T::get(a).min(T::get(b)).put()
}

pub fn max<T: Integer>(a: u64, b: u64) -> u64 {
    T::get(a).max(T::get(b)).put()
}

pub fn neg<T: Integer>(a: u64) -> u64 {
    T::zero().sub(T::get(a)).put()
}

pub fn abs<T: Integer>(a: u64) -> u64 {
    T::get(a).magnitude()
}

pub fn shl<T: Integer>(a: u64, count: u64) -> u64 {
    let count = count as u32;
    if count < T::BITS { T::get(a << count).put() } else { 0 }
}

pub fn shr<T: Integer>(a: u64, count: u64) -> u64 {
    T::get(a).shr(count as u32).put()
}

pub fn and(a: u64, b: u64) -> u64 {
    a & b
}

pub fn or(a: u64, b: u64) -> u64 {
    a | b
}

pub fn xor(a: u64, b: u64) -> u64 {
    a ^ b
}

pub fn not<T: Integer>(a: u64) -> u64 {
    T::get(!a).put()
}

pub fn not_predicate(a: u64) -> u64 {
    u64::from(a == 0)
}

pub fn is_zero<T: Integer>(a: u64) -> u64 {
    u64::from(T::get(a) == T::zero())
}

pub fn count_ones(a: u64) -> u64 {
    u64::from(a.count_ones())
}

pub fn leading_zeros32(a: u64) -> u64 {
    u64::from((a as u32).leading_zeros())
}

pub fn leading_zeros64(a: u64) -> u64 {
    u64::from(a.leading_zeros())
}

pub fn reverse32(a: u64) -> u64 {
    u64::from((a as u32).reverse_bits())
}

pub fn reverse64(a: u64) -> u64 {
    a.reverse_bits()
}

/// Takes `length` bits of `a` from `start` on. A signed value is continued with its highest bit.
pub fn bit_field_extract<T: Integer>(a: u64, start: u64, length: u64) -> u64 {
    let (start, length) = (start as u32 & 255, length as u32 & 255);
    let top = T::BITS - 1;
    let signed = T::get(u64::MAX) < T::zero();
    let bit = |at: u32| a >> at & 1;
    // The bit that continues the value.
    let sign = if !signed || length == 0 { 0 } else { bit((start + length - 1).min(top)) };
    let mut value = 0;
    for at in 0..T::BITS {
        let from = start + at;
        value |= (if at < length && from <= top { bit(from) } else { sign }) << at;
    }
    value
}

/// Puts low bits of `a` into `b`: `place` has the first bit in its low half and how many in its high
/// one.
pub fn bit_field_insert<T: Integer>(a: u64, b: u64, place: u64) -> u64 {
    let (start, length) = (place as u32 & 255, (place >> 16) as u32 & 255);
    if start > 63 || length == 0 {
        return b;
    }
    let ones = if length > 63 { u64::MAX } else { (1 << length) - 1 };
    T::get(b & !(ones << start) | (a & ones) << start).put()
}

/// Picks four bytes of the eight of `b:a`.
pub fn permute(a: u64, b: u64, control: u64) -> u64 {
    let bytes = (a & 0xffff_ffff) | b << 32;
    (0..4).fold(0, |value, at| {
        let pick = control >> (at * 4) & 15;
        let byte = bytes >> ((pick & 7) * 8) & 255;
        let byte = if pick & 8 == 0 { byte } else { (byte >> 7) * 255 };
        value | byte << (at * 8)
    })
}

/// The high half of `b:a` shifted to the left; the count is taken modulo 32.
pub fn funnel_left_wrap(a: u64, b: u64, count: u64) -> u64 {
    ((a & 0xffff_ffff | b << 32) << (count & 31)) >> 32
}

/// As above; a count beyond 32 counts as 32.
pub fn funnel_left_clamp(a: u64, b: u64, count: u64) -> u64 {
    if count >= 32 { a & 0xffff_ffff } else { funnel_left_wrap(a, b, count) }
}

/// The low half of `b:a` shifted to the right; the count is taken modulo 32.
pub fn funnel_right_wrap(a: u64, b: u64, count: u64) -> u64 {
    ((a & 0xffff_ffff | b << 32) >> (count & 31)) & 0xffff_ffff
}

/// As above; a count beyond 32 counts as 32.
pub fn funnel_right_clamp(a: u64, b: u64, count: u64) -> u64 {
    if count >= 32 { b & 0xffff_ffff } else { funnel_right_wrap(a, b, count) }
}

pub fn join32(low: u64, high: u64) -> u64 {
    low & 0xffff_ffff | high << 32
}

pub fn join16(low: u64, high: u64) -> u64 {
    low & 0xffff | (high & 0xffff) << 16
}

/// Part `AT` of `BITS` bits.
pub fn part<const BITS: u32, const AT: u32>(a: u64) -> u64 {
    a >> (BITS * AT) & ((1 << BITS) - 1)
}

/// What floating-point numbers of both widths can do. Results are rounded to nearest, ties to
/// even; denormals are kept.
pub trait Float: Value {
    const SIGN: u64;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn sqrt(self) -> Self;
    fn fma(self, factor: Self, term: Self) -> Self;
    fn one() -> Self;
    fn is_nan(self) -> bool;
    fn class(self) -> std::num::FpCategory;
}

macro_rules! floats {
    ($($type:ident, $bits:ident;)*) => {$(
        impl Float for $type {
            const SIGN: u64 = 1 << ($bits::BITS - 1);
            fn add(self, other: Self) -> Self {
                self + other
            }
            fn sub(self, other: Self) -> Self {
                self - other
            }
            fn mul(self, other: Self) -> Self {
                self * other
            }
            fn div(self, other: Self) -> Self {
                self / other
            }
            fn sqrt(self) -> Self {
                $type::sqrt(self)
            }
            fn fma(self, factor: Self, term: Self) -> Self {
                self.mul_add(factor, term)
            }
            fn one() -> Self {
                1.0
            }
            fn is_nan(self) -> bool {
                $type::is_nan(self)
            }
            fn class(self) -> std::num::FpCategory {
                self.classify()
            }
        }
    )*};
}

floats! { f32, u32; f64, u64; }

pub fn add_float<T: Float>(a: u64, b: u64) -> u64 {
    T::get(a).add(T::get(b)).put()
}

pub fn sub_float<T: Float>(a: u64, b: u64) -> u64 {
    T::get(a).sub(T::get(b)).put()
}

pub fn mul_float<T: Float>(a: u64, b: u64) -> u64 {
    T::get(a).mul(T::get(b)).put()
}

pub fn div_float<T: Float>(a: u64, b: u64) -> u64 {
    T::get(a).div(T::get(b)).put()
}

pub fn fma<T: Float>(a: u64, b: u64, c: u64) -> u64 {
    T::get(a).fma(T::get(b), T::get(c)).put()
}

pub fn sqrt<T: Float>(a: u64) -> u64 {
    T::get(a).sqrt().put()
}

pub fn reciprocal<T: Float>(a: u64) -> u64 {
    T::one().div(T::get(a)).put()
}

pub fn neg_float<T: Float>(a: u64) -> u64 {
    a ^ T::SIGN
}

pub fn abs_float<T: Float>(a: u64) -> u64 {
    a & !T::SIGN
}

/// `b` with the sign of `a`.
pub fn copy_sign<T: Float>(a: u64, b: u64) -> u64 {
    a & T::SIGN | b & !T::SIGN
}

/// The smaller one; what is no number loses, and -0 is smaller than +0.
pub fn min_float<T: Float>(a: u64, b: u64) -> u64 {
    pick::<T>(a, b, |x, y| x < y || x == y && a & T::SIGN != 0)
}

pub fn max_float<T: Float>(a: u64, b: u64) -> u64 {
    pick::<T>(a, b, |x, y| x > y || x == y && a & T::SIGN == 0)
}

fn pick<T: Float>(a: u64, b: u64, first: impl Fn(T, T) -> bool) -> u64 {
    let (x, y) = (T::get(a), T::get(b));
    match (x.is_nan(), y.is_nan()) {
        (true, true) => x.put(),
        (true, false) => b,
        (false, true) => a,
        _ if first(x, y) => a,
        _ => b,
    }
}

/// As the above, but what is no number wins.
pub fn min_float_nan<T: Float>(a: u64, b: u64) -> u64 {
    let nan = [a, b].into_iter().find(|bits| T::get(*bits).is_nan());
    nan.map_or_else(|| min_float::<T>(a, b), |bits| T::get(bits).put())
}

pub fn max_float_nan<T: Float>(a: u64, b: u64) -> u64 {
    let nan = [a, b].into_iter().find(|bits| T::get(*bits).is_nan());
    nan.map_or_else(|| max_float::<T>(a, b), |bits| T::get(bits).put())
}

macro_rules! comparisons {
    ($($name:ident, $unordered:ident, |$a:ident, $b:ident| $holds:expr;)*) => {$(
        pub fn $name<T: Value>(a: u64, b: u64) -> u64 {
            let ($a, $b) = (T::get(a), T::get(b));
            u64::from($holds)
        }
        /// It also holds if one of the two is no number.
        pub fn $unordered<T: Float>(a: u64, b: u64) -> u64 {
            let ($a, $b) = (T::get(a), T::get(b));
            u64::from($a.is_nan() || $b.is_nan() || $holds)
        }
    )*};
}

comparisons! {
    equal, equal_or_nan, |a, b| a == b;
    less, less_or_nan, |a, b| a < b;
    less_equal, less_equal_or_nan, |a, b| a <= b;
    greater, greater_or_nan, |a, b| a > b;
    greater_equal, greater_equal_or_nan, |a, b| a >= b;
}

pub fn not_equal<T: Value>(a: u64, b: u64) -> u64 {
    u64::from(T::get(a) != T::get(b))
}

/// Different, and both are numbers.
pub fn not_equal_ordered<T: Float>(a: u64, b: u64) -> u64 {
    let (a, b) = (T::get(a), T::get(b));
    u64::from(!a.is_nan() && !b.is_nan() && a != b)
}

pub fn both_numbers<T: Float>(a: u64, b: u64) -> u64 {
    u64::from(!T::get(a).is_nan() && !T::get(b).is_nan())
}

pub fn some_nan<T: Float>(a: u64, b: u64) -> u64 {
    u64::from(T::get(a).is_nan() || T::get(b).is_nan())
}

pub fn is_finite<T: Float>(a: u64) -> u64 {
    use std::num::FpCategory::*;
    u64::from(!matches!(T::get(a).class(), Nan | Infinite))
}

pub fn is_infinite<T: Float>(a: u64) -> u64 {
    u64::from(T::get(a).class() == std::num::FpCategory::Infinite)
}

pub fn is_number<T: Float>(a: u64) -> u64 {
    u64::from(!T::get(a).is_nan())
}

pub fn is_nan<T: Float>(a: u64) -> u64 {
    u64::from(T::get(a).is_nan())
}

pub fn is_normal<T: Float>(a: u64) -> u64 {
    u64::from(T::get(a).class() == std::num::FpCategory::Normal)
}

pub fn is_subnormal<T: Float>(a: u64) -> u64 {
    u64::from(T::get(a).class() == std::num::FpCategory::Subnormal)
}
