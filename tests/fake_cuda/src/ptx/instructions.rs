//! The instructions that only compute: from registers to a register. A register has 64 bits; a narrower
//! value has zeros above it.

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

integers! { u16, u16; u32, u32; u64, u64; i16, u16; i32, u32; i64, u64; }

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

macro_rules! function {
    ($a:ident: $x:ty => $result:expr) => {
        Function::One(|a| {
            let $a = <$x>::get(a);
            Value::put($result)
        })
    };
    ($a:ident: $x:ty, $b:ident: $y:ty => $result:expr) => {
        Function::Two(|a, b| {
            let ($a, $b) = (<$x>::get(a), <$y>::get(b));
            Value::put($result)
        })
    };
    ($a:ident: $x:ty, $b:ident: $y:ty, $c:ident: $z:ty => $result:expr) => {
        Function::Three(|a, b, c| {
            let ($a, $b, $c) = (<$x>::get(a), <$y>::get(b), <$z>::get(c));
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
    "mov.b32" | "mov.b64" | "mov.f32" | "mov.f64" | "mov.pred" | "mov.u32" | "mov.u64"
        | "cvta.to.global.u64" => (a: u64) a;
    "selp.b16" | "selp.b32" | "selp.b64" | "selp.f32" | "selp.f64" | "selp.u64"
        => (a: u64, b: u64, first: bool) if first { a } else { b };

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
    "neg.f32" => (a: u32) a ^ 1 << 31;
    "neg.f64" => (a: u64) a ^ 1 << 63;
    "setp.eq.f32" => (a: f32, b: f32) a == b;
    "setp.eq.f64" => (a: f64, b: f64) a == b;
    "setp.lt.f32" => (a: f32, b: f32) a < b;
    "setp.lt.f64" => (a: f64, b: f64) a < b;
    "setp.le.f32" => (a: f32, b: f32) a <= b;
    "setp.le.f64" => (a: f64, b: f64) a <= b;
    "setp.gt.f32" => (a: f32, b: f32) a > b;
    "setp.gt.f64" => (a: f64, b: f64) a > b;
    "setp.nan.f64" => (a: f64, b: f64) a.is_nan() || b.is_nan();

    "add.s16" => (a: u16, b: u16) a.wrapping_add(b);
    "add.s32" => (a: u32, b: u32) a.wrapping_add(b);
    "add.s64" => (a: u64, b: u64) a.wrapping_add(b);
    "sub.s16" => (a: u16, b: u16) a.wrapping_sub(b);
    "sub.s32" => (a: u32, b: u32) a.wrapping_sub(b);
    "sub.s64" => (a: u64, b: u64) a.wrapping_sub(b);
    "neg.s16" => (a: u16) a.wrapping_neg();
    "neg.s32" => (a: u32) a.wrapping_neg();
    "neg.s64" => (a: u64) a.wrapping_neg();
    "mul.lo.s16" => (a: u16, b: u16) a.wrapping_mul(b);
    "mul.lo.s32" => (a: u32, b: u32) a.wrapping_mul(b);
    "mul.lo.s64" => (a: u64, b: u64) a.wrapping_mul(b);
    "mul.hi.u16" => (a: u32, b: u32) (a * b) >> 16;
    "mul.hi.u32" => (a: u64, b: u64) (a * b) >> 32;
    "mul.hi.u64" => (a: u64, b: u64) ((u128::from(a) * u128::from(b)) >> 64) as u64;
    "mul.wide.s32" => (a: i32, b: i32) i64::from(a) * i64::from(b);
    "mul.wide.u32" => (a: u64, b: u64) a * b;
    "mad.lo.s32" => (a: u32, b: u32, c: u32) a.wrapping_mul(b).wrapping_add(c);
    "min.u64" => (a: u64, b: u64) a.min(b);
    "max.u64" => (a: u64, b: u64) a.max(b);
    "setp.eq.s16" | "setp.eq.b32" | "setp.eq.s32" | "setp.eq.s64" => (a: u64, b: u64) a == b;
    "setp.ne.s32" | "setp.ne.s64" => (a: u64, b: u64) a != b;
    "setp.lt.u32" | "setp.lt.u64" => (a: u64, b: u64) a < b;
    "setp.le.u32" | "setp.le.u64" => (a: u64, b: u64) a <= b;
    "setp.gt.u32" | "setp.gt.u64" => (a: u64, b: u64) a > b;
    "setp.ge.u32" | "setp.ge.u64" => (a: u64, b: u64) a >= b;
    "setp.lt.s32" => (a: i32, b: i32) a < b;
    "setp.lt.s64" => (a: i64, b: i64) a < b;
    "setp.gt.s32" => (a: i32, b: i32) a > b;
    "setp.gt.s64" => (a: i64, b: i64) a > b;
    "setp.ge.s32" => (a: i32, b: i32) a >= b;

    "and.b16" | "and.b32" | "and.b64" | "and.pred" => (a: u64, b: u64) a & b;
    "or.b16" | "or.b32" | "or.b64" | "or.pred" => (a: u64, b: u64) a | b;
    "not.b64" => (a: u64) !a;
    "shl.b16" => (a: u16, count: u32) a.checked_shl(count).unwrap_or(0);
    "shl.b32" => (a: u32, count: u32) a.checked_shl(count).unwrap_or(0);
    "shl.b64" => (a: u64, count: u32) a.checked_shl(count).unwrap_or(0);
    "shr.u16" | "shr.u32" | "shr.u64" => (a: u64, count: u32) a.checked_shr(count).unwrap_or(0);
    "shr.s64" => (a: i64, count: u32) a >> count.min(63);
    "bfe.u32" => (a: u64, start: u32, length: u32) (a >> start.min(32)) & ((1 << length.min(32)) - 1);
    "popc.b32" => (a: u32) a.count_ones();

    "cvt.u16.u32" => (a: u16) a;
    "cvt.u32.u16" | "cvt.u32.u64" => (a: u32) a;
    "cvt.u64.u32" => (a: u64) a;
    "cvt.rn.f32.u16" | "cvt.rn.f32.u32" => (a: u32) a as f32;
    "cvt.rn.f32.s32" => (a: i32) a as f32;
    "cvt.rn.f64.u32" | "cvt.rn.f64.u64" => (a: u64) a as f64;
    "cvt.rn.f64.s32" => (a: i32) f64::from(a);
    "cvt.rn.f64.s64" => (a: i64) a as f64;
    "cvt.f64.f32" => (a: f32) f64::from(a);
    "cvt.rn.f32.f64" => (a: f64) a as f32;
    "cvt.f32.f16" => (a: u16) float_of_half(a);
    "cvt.rn.f16.f32" => (a: f32) half_of_float(a);
}

fn float_of_half(bits: u16) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023) / 1024.0);
    let magnitude = match exponent {
        0 => fraction * 2f32.powi(-14),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1.0 + fraction) * 2f32.powi(exponent - 15),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

/// To the nearest, ties to even.
fn half_of_float(value: f32) -> u16 {
    if value.is_nan() {
        return 0x7fff;
    }
    let magnitude = f64::from(value.abs());
    // Numbers below the normal ones have the least exponent; the carry of rounding goes into it by itself.
    let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).clamp(-14, 16);
    let units = (magnitude / 2f64.powi(exponent - 10)).round_ties_even();
    let bits = (f64::from((exponent + 14) << 10) + units).min(f64::from(0x7c00)) as u16;
    bits | u16::from(value.is_sign_negative()) << 15
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_16_bits_come_back_and_the_nearest_wins() {
        for bits in 0..0x7c00 {
            let (low, high) = (float_of_half(bits), float_of_half(bits + 1).min(65536.0));
            assert_eq!((half_of_float(low), half_of_float(-low)), (bits, bits | 0x8000));
            let middle = low + (high - low) / 2.0;
            assert_eq!(half_of_float(middle), bits + (bits & 1));
            assert_eq!(half_of_float(middle.next_up()), bits + 1);
            assert_eq!(half_of_float(middle.next_down()), bits);
        }
        assert_eq!(half_of_float(f32::INFINITY), 0x7c00);
        assert!(float_of_half(0x7e00).is_nan() && half_of_float(f32::NAN) == 0x7fff);
    }
}
