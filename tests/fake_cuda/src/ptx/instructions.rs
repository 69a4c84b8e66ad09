//! The instructions that only compute: from registers to a register. A register has 64 bits; a
//! narrower value has zeros above it.

#[derive(Clone, Copy)]
pub enum Function {
    One(fn(u64) -> u64),
    Two(fn(u64, u64) -> u64),
    Three(fn(u64, u64, u64) -> u64),
}

/// A value of a type in a register.
trait Value {
    fn get(register: u64) -> Self;
    fn put(self) -> u64;
}

macro_rules! integers {
    ($($type:ty, $unsigned:ty;)*) => {$(
        impl Value for $type {
            fn get(register: u64) -> Self {
                register as $type
            }
            fn put(self) -> u64 {
                self as $unsigned as u64
            }
        }
    )*};
}

integers! { u8, u8; u16, u16; u32, u32; u64, u64; i8, u8; i16, u16; i32, u32; i64, u64; }

impl Value for bool {
    fn get(register: u64) -> Self {
        register != 0
    }
    fn put(self) -> u64 {
        u64::from(self)
    }
}

impl Value for f32 {
    fn get(register: u64) -> Self {
        f32::from_bits(register as u32)
    }
    /// A result that is not a number is always the same one, as on a device.
    fn put(self) -> u64 {
        if self.is_nan() {
            0x7fff_ffff
        } else {
            u64::from(self.to_bits())
        }
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

macro_rules! function {
    ($a:ident: $x:ty => $result:expr) => {
        Function::One(|a| {
            let $a = <$x>::get(a);
            Value::put($result)
        })
    };
    ($a:ident: $x:ty, $b:ident: $y:ty => $result:expr) => {
        Function::Two(|a, b| {
            let $a = <$x>::get(a);
            let $b = <$y>::get(b);
            Value::put($result)
        })
    };
    ($a:ident: $x:ty, $b:ident: $y:ty, $c:ident: $z:ty => $result:expr) => {
        Function::Three(|a, b, c| {
            let $a = <$x>::get(a);
            let $b = <$y>::get(b);
            let $c = <$z>::get(c);
            Value::put($result)
        })
    };
}

macro_rules! instructions {
    ($($text:literal $(| $other:literal)* => ($($operands:tt)*) $result:expr;)*) => {
        /// What an instruction computes; `None` if it is not known.
        pub fn named(text: &str) -> Option<Function> {
            Some(match text {
                $($text $(| $other)* => function!($($operands)* => $result),)*
                _ => return None,
            })
        }
    };
}

instructions! {
    "mov.b16" | "mov.b32" | "mov.b64" | "mov.f32" | "mov.f64" | "mov.pred" | "mov.s16" | "mov.s32"
        | "mov.s64" | "mov.u16" | "mov.u32" | "mov.u64" | "cvta.to.global.u64" => (a: u64) a;
    "selp.b16" | "selp.b32" | "selp.b64" | "selp.f32" | "selp.f64" | "selp.s16" | "selp.s32"
        | "selp.s64" | "selp.u16" | "selp.u32" | "selp.u64" =>
        (a: u64, b: u64, first: bool) if first { a } else { b };

    "add.rn.f32" => (a: f32, b: f32) a + b;
    "add.rn.f64" => (a: f64, b: f64) a + b;
    "sub.rn.f32" => (a: f32, b: f32) a - b;
    "sub.rn.f64" => (a: f64, b: f64) a - b;
    "mul.rn.f32" => (a: f32, b: f32) a * b;
    "mul.rn.f64" => (a: f64, b: f64) a * b;
    "div.rn.f32" => (a: f32, b: f32) a / b;
    "div.rn.f64" => (a: f64, b: f64) a / b;
    "rcp.rn.f64" => (a: f64) 1.0 / a;
    "sqrt.rn.f32" => (a: f32) a.sqrt();
    "sqrt.rn.f64" => (a: f64) a.sqrt();
    "fma.rn.f32" => (a: f32, b: f32, c: f32) a.mul_add(b, c);
    "fma.rn.f64" => (a: f64, b: f64, c: f64) a.mul_add(b, c);
    "max.f32" => (a: f32, b: f32) a.max(b);
    "min.f32" => (a: f32, b: f32) a.min(b);
    // A device computes them to within 2^-22; here they are exact except for the last rounding.
    "ex2.approx.f32" => (a: f32) a.exp2();
    "lg2.approx.f32" => (a: f32) a.log2();
    "abs.f32" => (a: u32) a & !(1 << 31);
    "abs.f64" => (a: u64) a & !(1 << 63);
    "neg.f32" => (a: u32) a ^ 1 << 31;
    "neg.f64" => (a: u64) a ^ 1 << 63;
    "setp.eq.f32" => (a: f32, b: f32) a == b;
    "setp.lt.f32" => (a: f32, b: f32) a < b;
    "setp.le.f32" => (a: f32, b: f32) a <= b;
    "setp.gt.f32" => (a: f32, b: f32) a > b;
    "setp.ge.f32" => (a: f32, b: f32) a >= b;
    "setp.ne.f32" => (a: f32, b: f32) a != b && !unordered(a, b);
    "setp.equ.f32" => (a: f32, b: f32) a == b || unordered(a, b);
    "setp.neu.f32" => (a: f32, b: f32) a != b;
    "setp.ltu.f32" => (a: f32, b: f32) a < b || unordered(a, b);
    "setp.leu.f32" => (a: f32, b: f32) a <= b || unordered(a, b);
    "setp.gtu.f32" => (a: f32, b: f32) a > b || unordered(a, b);
    "setp.geu.f32" => (a: f32, b: f32) a >= b || unordered(a, b);
    "setp.num.f32" => (a: f32, b: f32) !unordered(a, b);
    "setp.nan.f32" => (a: f32, b: f32) unordered(a, b);
    "setp.eq.f64" => (a: f64, b: f64) a == b;
    "setp.lt.f64" => (a: f64, b: f64) a < b;
    "setp.le.f64" => (a: f64, b: f64) a <= b;
    "setp.gt.f64" => (a: f64, b: f64) a > b;
    "setp.ge.f64" => (a: f64, b: f64) a >= b;
    "setp.ne.f64" => (a: f64, b: f64) a != b && !unordered(a, b);
    "setp.equ.f64" => (a: f64, b: f64) a == b || unordered(a, b);
    "setp.neu.f64" => (a: f64, b: f64) a != b;
    "setp.ltu.f64" => (a: f64, b: f64) a < b || unordered(a, b);
    "setp.leu.f64" => (a: f64, b: f64) a <= b || unordered(a, b);
    "setp.gtu.f64" => (a: f64, b: f64) a > b || unordered(a, b);
    "setp.geu.f64" => (a: f64, b: f64) a >= b || unordered(a, b);
    "setp.num.f64" => (a: f64, b: f64) !unordered(a, b);
    "setp.nan.f64" => (a: f64, b: f64) unordered(a, b);

    "add.s16" | "add.u16" => (a: u16, b: u16) a.wrapping_add(b);
    "add.s32" | "add.u32" => (a: u32, b: u32) a.wrapping_add(b);
    "add.s64" | "add.u64" => (a: u64, b: u64) a.wrapping_add(b);
    "sub.s16" | "sub.u16" => (a: u16, b: u16) a.wrapping_sub(b);
    "sub.s32" | "sub.u32" => (a: u32, b: u32) a.wrapping_sub(b);
    "sub.s64" | "sub.u64" => (a: u64, b: u64) a.wrapping_sub(b);
    "mul.lo.s16" | "mul.lo.u16" => (a: u16, b: u16) a.wrapping_mul(b);
    "mul.lo.s32" | "mul.lo.u32" => (a: u32, b: u32) a.wrapping_mul(b);
    "mul.lo.s64" | "mul.lo.u64" => (a: u64, b: u64) a.wrapping_mul(b);
    "neg.s16" => (a: u16) a.wrapping_neg();
    "neg.s32" => (a: u32) a.wrapping_neg();
    "neg.s64" => (a: u64) a.wrapping_neg();
    "abs.s16" => (a: i16) a.wrapping_abs();
    "abs.s32" => (a: i32) a.wrapping_abs();
    "abs.s64" => (a: i64) a.wrapping_abs();
    "mul.hi.u16" => (a: u16, b: u16) ((u32::from(a) * u32::from(b)) >> 16) as u16;
    "mul.hi.u32" => (a: u32, b: u32) ((u64::from(a) * u64::from(b)) >> 32) as u32;
    "mul.hi.u64" => (a: u64, b: u64) ((u128::from(a) * u128::from(b)) >> 64) as u64;
    "mul.wide.u16" => (a: u16, b: u16) u32::from(a) * u32::from(b);
    "mad.wide.u16" => (a: u16, b: u16, c: u32) (u32::from(a) * u32::from(b)).wrapping_add(c);
    "mul.wide.u32" => (a: u32, b: u32) u64::from(a) * u64::from(b);
    "mad.wide.u32" => (a: u32, b: u32, c: u64) (u64::from(a) * u64::from(b)).wrapping_add(c);
    "mul.hi.s16" => (a: i16, b: i16) ((i32::from(a) * i32::from(b)) >> 16) as i16;
    "mul.hi.s32" => (a: i32, b: i32) ((i64::from(a) * i64::from(b)) >> 32) as i32;
    "mul.hi.s64" => (a: i64, b: i64) ((i128::from(a) * i128::from(b)) >> 64) as i64;
    "mul.wide.s16" => (a: i16, b: i16) i32::from(a) * i32::from(b);
    "mad.wide.s16" => (a: i16, b: i16, c: i32) (i32::from(a) * i32::from(b)).wrapping_add(c);
    "mul.wide.s32" => (a: i32, b: i32) i64::from(a) * i64::from(b);
    "mad.wide.s32" => (a: i32, b: i32, c: i64) (i64::from(a) * i64::from(b)).wrapping_add(c);
    "mad.lo.s16" | "mad.lo.u16" => (a: u16, b: u16, c: u16) a.wrapping_mul(b).wrapping_add(c);
    "mad.lo.s32" | "mad.lo.u32" => (a: u32, b: u32, c: u32) a.wrapping_mul(b).wrapping_add(c);
    "mad.lo.s64" | "mad.lo.u64" => (a: u64, b: u64, c: u64) a.wrapping_mul(b).wrapping_add(c);
    "div.u16" => (a: u16, b: u16) if b == 0 { !0 } else { a.wrapping_div(b) };
    "rem.u16" => (a: u16, b: u16) if b == 0 { a } else { a.wrapping_rem(b) };
    "min.u16" => (a: u16, b: u16) a.min(b);
    "max.u16" => (a: u16, b: u16) a.max(b);
    "div.u32" => (a: u32, b: u32) if b == 0 { !0 } else { a.wrapping_div(b) };
    "rem.u32" => (a: u32, b: u32) if b == 0 { a } else { a.wrapping_rem(b) };
    "min.u32" => (a: u32, b: u32) a.min(b);
    "max.u32" => (a: u32, b: u32) a.max(b);
    "div.u64" => (a: u64, b: u64) if b == 0 { !0 } else { a.wrapping_div(b) };
    "rem.u64" => (a: u64, b: u64) if b == 0 { a } else { a.wrapping_rem(b) };
    "min.u64" => (a: u64, b: u64) a.min(b);
    "max.u64" => (a: u64, b: u64) a.max(b);
    "div.s16" => (a: i16, b: i16) if b == 0 { !0 } else { a.wrapping_div(b) };
    "rem.s16" => (a: i16, b: i16) if b == 0 { a } else { a.wrapping_rem(b) };
    "min.s16" => (a: i16, b: i16) a.min(b);
    "max.s16" => (a: i16, b: i16) a.max(b);
    "div.s32" => (a: i32, b: i32) if b == 0 { !0 } else { a.wrapping_div(b) };
    "rem.s32" => (a: i32, b: i32) if b == 0 { a } else { a.wrapping_rem(b) };
    "min.s32" => (a: i32, b: i32) a.min(b);
    "max.s32" => (a: i32, b: i32) a.max(b);
    "div.s64" => (a: i64, b: i64) if b == 0 { !0 } else { a.wrapping_div(b) };
    "rem.s64" => (a: i64, b: i64) if b == 0 { a } else { a.wrapping_rem(b) };
    "min.s64" => (a: i64, b: i64) a.min(b);
    "max.s64" => (a: i64, b: i64) a.max(b);
    "setp.eq.b16" | "setp.eq.b32" | "setp.eq.b64" | "setp.eq.s16" | "setp.eq.s32" | "setp.eq.s64"
        | "setp.eq.u16" | "setp.eq.u32" | "setp.eq.u64" => (a: u64, b: u64) a == b;
    "setp.ne.b16" | "setp.ne.b32" | "setp.ne.b64" | "setp.ne.s16" | "setp.ne.s32" | "setp.ne.s64"
        | "setp.ne.u16" | "setp.ne.u32" | "setp.ne.u64" => (a: u64, b: u64) a != b;
    "setp.lt.u16" | "setp.lt.u32" | "setp.lt.u64" => (a: u64, b: u64) a < b;
    "setp.lt.s16" => (a: i16, b: i16) a < b;
    "setp.lt.s32" => (a: i32, b: i32) a < b;
    "setp.lt.s64" => (a: i64, b: i64) a < b;
    "setp.le.u16" | "setp.le.u32" | "setp.le.u64" => (a: u64, b: u64) a <= b;
    "setp.le.s16" => (a: i16, b: i16) a <= b;
    "setp.le.s32" => (a: i32, b: i32) a <= b;
    "setp.le.s64" => (a: i64, b: i64) a <= b;
    "setp.gt.u16" | "setp.gt.u32" | "setp.gt.u64" => (a: u64, b: u64) a > b;
    "setp.gt.s16" => (a: i16, b: i16) a > b;
    "setp.gt.s32" => (a: i32, b: i32) a > b;
    "setp.gt.s64" => (a: i64, b: i64) a > b;
    "setp.ge.u16" | "setp.ge.u32" | "setp.ge.u64" => (a: u64, b: u64) a >= b;
    "setp.ge.s16" => (a: i16, b: i16) a >= b;
    "setp.ge.s32" => (a: i32, b: i32) a >= b;
    "setp.ge.s64" => (a: i64, b: i64) a >= b;

    "and.b16" | "and.b32" | "and.b64" | "and.pred" => (a: u64, b: u64) a & b;
    "or.b16" | "or.b32" | "or.b64" | "or.pred" => (a: u64, b: u64) a | b;
    "xor.b16" | "xor.b32" | "xor.b64" | "xor.pred" => (a: u64, b: u64) a ^ b;
    "not.b16" => (a: u16) !a;
    "not.b32" => (a: u32) !a;
    "not.b64" => (a: u64) !a;
    "not.pred" => (a: bool) !a;
    "shl.b16" => (a: u16, count: u32) a.checked_shl(count).unwrap_or(0);
    "shl.b32" => (a: u32, count: u32) a.checked_shl(count).unwrap_or(0);
    "shl.b64" => (a: u64, count: u32) a.checked_shl(count).unwrap_or(0);
    "shr.u16" | "shr.u32" | "shr.u64" => (a: u64, count: u32) a.checked_shr(count).unwrap_or(0);
    "shr.s16" => (a: i16, count: u32) a >> count.min(15);
    "shr.s32" => (a: i32, count: u32) a >> count.min(31);
    "shr.s64" => (a: i64, count: u32) a >> count.min(63);
    "bfe.u32" =>
        (a: u64, start: u32, length: u32) (a >> start.min(32)) & ((1 << length.min(32)) - 1);
    "popc.b32" => (a: u32) a.count_ones();
    "popc.b64" => (a: u64) a.count_ones();
    "clz.b32" => (a: u32) a.leading_zeros();
    "clz.b64" => (a: u64) a.leading_zeros();

    "cvt.s8.u8" | "cvt.u8.u16" | "cvt.s8.u16" | "cvt.u8.u32" | "cvt.s8.u32" | "cvt.u8.u64"
        | "cvt.s8.u64" | "cvt.u8.s8" | "cvt.u8.s16" | "cvt.s8.s16" | "cvt.u8.s32" | "cvt.s8.s32"
        | "cvt.u8.s64" | "cvt.s8.s64" => (a: u8) a;
    "cvt.u16.u8" | "cvt.s16.u8" => (a: u8) a as u16;
    "cvt.s16.u16" | "cvt.u16.u32" | "cvt.s16.u32" | "cvt.u16.u64" | "cvt.s16.u64"
        | "cvt.u16.s16" | "cvt.u16.s32" | "cvt.s16.s32" | "cvt.u16.s64" | "cvt.s16.s64" =>
        (a: u16) a;
    "cvt.u16.s8" | "cvt.s16.s8" => (a: i8) a as u16;
    "cvt.u32.u8" | "cvt.s32.u8" => (a: u8) a as u32;
    "cvt.u32.u16" | "cvt.s32.u16" => (a: u16) a as u32;
    "cvt.s32.u32" | "cvt.u32.u64" | "cvt.s32.u64" | "cvt.u32.s32" | "cvt.u32.s64"
        | "cvt.s32.s64" => (a: u32) a;
    "cvt.u32.s8" | "cvt.s32.s8" => (a: i8) a as u32;
    "cvt.u32.s16" | "cvt.s32.s16" => (a: i16) a as u32;
    "cvt.u64.u8" | "cvt.s64.u8" => (a: u8) a as u64;
    "cvt.u64.u16" | "cvt.s64.u16" => (a: u16) a as u64;
    "cvt.u64.u32" | "cvt.s64.u32" => (a: u32) a as u64;
    "cvt.s64.u64" | "cvt.u64.s64" => (a: u64) a;
    "cvt.u64.s8" | "cvt.s64.s8" => (a: i8) a as u64;
    "cvt.u64.s16" | "cvt.s64.s16" => (a: i16) a as u64;
    "cvt.u64.s32" | "cvt.s64.s32" => (a: i32) a as u64;
    "cvt.rn.f32.u8" => (a: u8) a as f32;
    "cvt.rn.f32.u16" => (a: u16) a as f32;
    "cvt.rzi.u16.f32" => (a: f32) a as u16;
    "cvt.rn.f32.u32" => (a: u32) a as f32;
    "cvt.rzi.u32.f32" => (a: f32) a as u32;
    "cvt.rn.f32.u64" => (a: u64) a as f32;
    "cvt.rzi.u64.f32" => (a: f32) a as u64;
    "cvt.rn.f32.s8" => (a: i8) a as f32;
    "cvt.rn.f32.s16" => (a: i16) a as f32;
    "cvt.rzi.s16.f32" => (a: f32) a as i16;
    "cvt.rn.f32.s32" => (a: i32) a as f32;
    "cvt.rzi.s32.f32" => (a: f32) a as i32;
    "cvt.rn.f32.s64" => (a: i64) a as f32;
    "cvt.rzi.s64.f32" => (a: f32) a as i64;
    "cvt.rn.f64.u8" => (a: u8) a as f64;
    "cvt.rn.f64.u16" => (a: u16) a as f64;
    "cvt.rzi.u16.f64" => (a: f64) a as u16;
    "cvt.rn.f64.u32" => (a: u32) a as f64;
    "cvt.rzi.u32.f64" => (a: f64) a as u32;
    "cvt.rn.f64.u64" => (a: u64) a as f64;
    "cvt.rzi.u64.f64" => (a: f64) a as u64;
    "cvt.rn.f64.s8" => (a: i8) a as f64;
    "cvt.rn.f64.s16" => (a: i16) a as f64;
    "cvt.rzi.s16.f64" => (a: f64) a as i16;
    "cvt.rn.f64.s32" => (a: i32) a as f64;
    "cvt.rzi.s32.f64" => (a: f64) a as i32;
    "cvt.rn.f64.s64" => (a: i64) a as f64;
    "cvt.rzi.s64.f64" => (a: f64) a as i64;
    "cvt.f64.f32" => (a: f32) f64::from(a);
    "cvt.rn.f32.f64" => (a: f64) a as f32;
    "cvt.f32.f16" => (a: u16) float_of_half(a);
    "cvt.rn.f16.f32" => (a: f32) half_of_float(a);
}

/// Whether one of them is NaN.
fn unordered<T: PartialOrd>(a: T, b: T) -> bool {
    a.partial_cmp(&b).is_none()
}

fn float_of_half(bits: u16) -> f32 {
    let exponent = i32::from(bits >> 10 & 31);
    let fraction = f32::from(bits & 1023) / 1024.0;
    let magnitude = match exponent {
        0 => fraction * 2f32.powi(-14),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1.0 + fraction) * 2f32.powi(exponent - 15),
    };
    if bits >> 15 == 1 {
        -magnitude
    } else {
        magnitude
    }
}

/// To the nearest, ties to even.
fn half_of_float(value: f32) -> u16 {
    if value.is_nan() {
        return 0x7fff;
    }
    let magnitude = f64::from(value.abs());
    // Numbers below the normal ones have the least exponent; the carry of rounding goes into it by
    // itself.
    let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).clamp(-14, 16);
    let units = (magnitude / 2f64.powi(exponent - 10)).round_ties_even();
    let bits = (f64::from((exponent + 14) << 10) + units).min(f64::from(0x7c00)) as u16;
    bits | u16::from(value.is_sign_negative()) << 15
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What two operands give.
    fn of_two(name: &str, a: u64, b: u64) -> u64 {
        match named(name) {
            Some(Function::Two(compute)) => compute(a, b),
            _ => panic!("{name} is not an instruction of two operands"),
        }
    }

    /// Compilers choose among these by their version: a family that lacks a member makes tests
    /// depend on it.
    #[test]
    fn families_of_integer_instructions_are_whole() {
        let operations = "add sub mul.lo mul.hi mad.lo div rem min max";
        let comparisons = "setp.eq setp.ne setp.lt setp.le setp.gt setp.ge selp mov";
        let types = ["s16", "s32", "s64", "u16", "u32", "u64"];
        for operation in operations.split(' ').chain(comparisons.split(' ')) {
            for kind in types {
                assert!(
                    named(&format!("{operation}.{kind}")).is_some(),
                    "{operation}.{kind}"
                );
            }
        }
        for operation in [
            "and", "or", "xor", "not", "shl", "mov", "selp", "setp.eq", "setp.ne",
        ] {
            for kind in ["b16", "b32", "b64"] {
                assert!(
                    named(&format!("{operation}.{kind}")).is_some(),
                    "{operation}.{kind}"
                );
            }
        }
        for (to, from) in types.iter().flat_map(|to| types.map(|from| (*to, from))) {
            assert!(
                to == from || named(&format!("cvt.{to}.{from}")).is_some(),
                "cvt.{to}.{from}"
            );
        }
    }

    #[test]
    fn signed_instructions_keep_the_sign_in_their_width() {
        let minus = |value: i64, bits: u32| value.wrapping_neg() as u64 & u64::MAX >> (64 - bits);
        for bits in [16, 32, 64] {
            assert_eq!(
                of_two(&format!("mul.hi.s{bits}"), minus(3, bits), 5),
                minus(1, bits)
            );
            assert_eq!(of_two(&format!("mul.hi.u{bits}"), minus(3, bits), 5), 4);
            assert_eq!(
                of_two(&format!("shr.s{bits}"), minus(8, bits), 2),
                minus(2, bits)
            );
            assert_eq!(
                of_two(&format!("shr.s{bits}"), minus(8, bits), 99),
                minus(1, bits)
            );
            assert_eq!(
                of_two(&format!("div.s{bits}"), minus(7, bits), 2),
                minus(3, bits)
            );
            assert_eq!(
                of_two(&format!("rem.s{bits}"), minus(7, bits), 2),
                minus(1, bits)
            );
            assert_eq!(of_two(&format!("setp.lt.s{bits}"), minus(1, bits), 0), 1);
            assert_eq!(of_two(&format!("setp.lt.u{bits}"), minus(1, bits), 0), 0);
        }
        let Some(Function::One(widen)) = named("cvt.s64.s32") else {
            panic!("cvt.s64.s32")
        };
        assert_eq!(widen(minus(5, 32)), minus(5, 64));
        let Some(Function::One(narrow)) = named("cvt.s16.s64") else {
            panic!("cvt.s16.s64")
        };
        assert_eq!(narrow(minus(5, 64)), minus(5, 16));
    }

    #[test]
    fn numbers_of_16_bits_come_back_and_the_nearest_wins() {
        for bits in 0..0x7c00 {
            let low = float_of_half(bits);
            let high = float_of_half(bits + 1).min(65536.0);
            assert_eq!(
                (half_of_float(low), half_of_float(-low)),
                (bits, bits | 0x8000)
            );
            let middle = low + (high - low) / 2.0;
            assert_eq!(half_of_float(middle), bits + (bits & 1));
            assert_eq!(half_of_float(middle.next_up()), bits + 1);
            assert_eq!(half_of_float(middle.next_down()), bits);
        }
        assert_eq!(half_of_float(f32::INFINITY), 0x7c00);
        assert!(float_of_half(0x7e00).is_nan() && half_of_float(f32::NAN) == 0x7fff);
    }
}
