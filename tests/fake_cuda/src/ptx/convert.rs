//! Conversions between types.

use super::arithmetic::Value;
use super::bits16::{BFLOAT, Format, HALF, Rounding};
use super::types::Type;

/// A conversion from a register to a register.
pub type Conversion = fn(u64) -> u64;

/// To which integer a number is rounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Integral {
    Nearest,
    Zero,
    Down,
    Up,
}

trait Round {
    fn round(value: f64) -> f64;
}

macro_rules! rounds {
    ($($name:ident => $how:expr;)*) => {$(
        struct $name;
        impl Round for $name {
            fn round(value: f64) -> f64 {
                let how: fn(f64) -> f64 = $how;
                how(value)
            }
        }
    )*};
}

rounds! {
    ToNearest => f64::round_ties_even;
    ToZero => f64::trunc;
    ToDown => f64::floor;
    ToUp => f64::ceil;
}

/// A number as `f64`, which holds every f32 and f16 exactly.
trait Source {
    const IS_DOUBLE: bool;
    fn get(register: u64) -> f64;
}

impl Source for f32 {
    const IS_DOUBLE: bool = false;
    fn get(register: u64) -> f64 {
        f64::from(<f32 as Value>::get(register))
    }
}

impl Source for f64 {
    const IS_DOUBLE: bool = true;
    fn get(register: u64) -> f64 {
        <f64 as Value>::get(register)
    }
}

struct Half;
struct Bfloat;

impl Source for Half {
    const IS_DOUBLE: bool = false;
    fn get(register: u64) -> f64 {
        HALF.widen(register as u16)
    }
}

impl Source for Bfloat {
    const IS_DOUBLE: bool = false;
    fn get(register: u64) -> f64 {
        BFLOAT.widen(register as u16)
    }
}

/// An integer that numbers are converted to: too large ones become the nearest.
trait Target: Value {
    fn clamp(value: f64) -> Self;
    const NAN: u64;
}

macro_rules! targets {
    ($($type:ident, $nan:expr;)*) => {$(
        impl Target for $type {
            fn clamp(value: f64) -> Self {
                value as $type
            }
            const NAN: u64 = $nan;
        }
    )*};
}

const TOP: u64 = 1 << 63;
targets! { i8, 0x80; u8, 0x80; i16, 0x8000; u16, 0x8000; i32, 1 << 31; u32, 1 << 31; i64, TOP; u64, TOP; }

fn to_integer<S: Source, T: Target, R: Round>(a: u64) -> u64 {
    let value = S::get(a);
    if value.is_nan() {
        // What is no number becomes zero, but where one side has 64 bits.
        return if S::IS_DOUBLE || size_of::<T>() == 8 { T::NAN } else { 0 };
    }
    T::clamp(R::round(value)).put()
}

fn integral<T: Source, R: Round>(a: u64) -> u64 {
    let rounded = R::round(T::get(a));
    if T::IS_DOUBLE { Value::put(rounded) } else { Value::put(rounded as f32) }
}

trait Whole: Value {
    fn single(self) -> f32;
    fn double(self) -> f64;
}

macro_rules! wholes {
    ($($type:ident)*) => {$(
        impl Whole for $type {
            fn single(self) -> f32 {
                self as f32
            }
            fn double(self) -> f64 {
                self as f64
            }
        }
    )*};
}

wholes! { i8 u8 i16 u16 i32 u32 i64 u64 }

fn to_single<T: Whole>(a: u64) -> u64 {
    T::get(a).single().put()
}

fn to_double<T: Whole>(a: u64) -> u64 {
    T::get(a).double().put()
}

/// To an integer of the type's width; a signed source is continued with its sign.
fn to_width<T: Value, const SIGNED: bool, const BYTES: usize>(a: u64) -> u64 {
    let value = T::get(a).put();
    let bits = size_of::<T>() * 8;
    let wide = if SIGNED && bits < 64 && value >> (bits - 1) & 1 != 0 {
        value | u64::MAX << bits
    } else {
        value
    };
    wide & super::types::mask(BYTES as u32)
}

fn narrow(value: f64, rounding: Rounding) -> f32 {
    let nearest = value as f32;
    let wide = f64::from(nearest);
    match rounding {
        Rounding::Zero if wide.abs() > value.abs() => {
            if value > 0.0 {
                nearest.next_down()
            } else {
                nearest.next_up()
            }
        }
        Rounding::Down if wide > value => nearest.next_down(),
        Rounding::Up if wide < value => nearest.next_up(),
        _ => nearest,
    }
}

fn single_of_double(a: u64) -> u64 {
    Value::put(<f64 as Value>::get(a) as f32)
}

fn single_of_double_to_zero(a: u64) -> u64 {
    Value::put(narrow(<f64 as Value>::get(a), Rounding::Zero))
}

fn single_of_double_down(a: u64) -> u64 {
    Value::put(narrow(<f64 as Value>::get(a), Rounding::Down))
}

fn single_of_double_up(a: u64) -> u64 {
    Value::put(narrow(<f64 as Value>::get(a), Rounding::Up))
}

fn double_of_single(a: u64) -> u64 {
    Value::put(f64::from(<f32 as Value>::get(a)))
}

fn single_of_16<S: Source>(a: u64) -> u64 {
    Value::put(S::get(a) as f32)
}

fn double_of_16<S: Source>(a: u64) -> u64 {
    Value::put(S::get(a))
}

trait Narrow {
    const FORMAT: Format;
}

impl Narrow for Half {
    const FORMAT: Format = HALF;
}

impl Narrow for Bfloat {
    const FORMAT: Format = BFLOAT;
}

fn to_16<S: Source, T: Narrow>(a: u64) -> u64 {
    u64::from(T::FORMAT.narrow(S::get(a), Rounding::Nearest))
}

fn to_16_zero<S: Source, T: Narrow>(a: u64) -> u64 {
    u64::from(T::FORMAT.narrow(S::get(a), Rounding::Zero))
}

fn float_to_integer<S: Source, R: Round>(to: Type) -> Option<Conversion> {
    use Type::*;
    Some(match to {
        S8 => to_integer::<S, i8, R>,
        U8 => to_integer::<S, u8, R>,
        S16 => to_integer::<S, i16, R>,
        U16 => to_integer::<S, u16, R>,
        S32 => to_integer::<S, i32, R>,
        U32 => to_integer::<S, u32, R>,
        S64 => to_integer::<S, i64, R>,
        U64 => to_integer::<S, u64, R>,
        _ => return None,
    })
}

fn rounded<R: Round>(to: Type, from: Type) -> Option<Conversion> {
    use Type::*;
    Some(match (to, from) {
        (F32, F32) => integral::<f32, R>,
        (F64, F64) => integral::<f64, R>,
        (_, F32) => return float_to_integer::<f32, R>(to),
        (_, F64) => return float_to_integer::<f64, R>(to),
        (_, F16) => return float_to_integer::<Half, R>(to),
        (_, Bf16) => return float_to_integer::<Bfloat, R>(to),
        _ => return None,
    })
}

/// A conversion that rounds to an integer.
pub fn to_integral(to: Type, from: Type, how: Integral) -> Option<Conversion> {
    match how {
        Integral::Nearest => rounded::<ToNearest>(to, from),
        Integral::Zero => rounded::<ToZero>(to, from),
        Integral::Down => rounded::<ToDown>(to, from),
        Integral::Up => rounded::<ToUp>(to, from),
    }
}

/// A conversion to a floating-point number, rounded in a given way where it needs to be.
pub fn to_float(to: Type, from: Type, rounding: Option<Rounding>) -> Option<Conversion> {
    use Type::*;
    Some(match (to, from, rounding) {
        (F32, F64, Some(Rounding::Nearest)) => single_of_double,
        (F32, F64, Some(Rounding::Zero)) => single_of_double_to_zero,
        (F32, F64, Some(Rounding::Down)) => single_of_double_down,
        (F32, F64, Some(Rounding::Up)) => single_of_double_up,
        (F64, F32, None) => double_of_single,
        (F32, F16, None) => single_of_16::<Half>,
        (F32, Bf16, None) => single_of_16::<Bfloat>,
        (F64, F16, None) => double_of_16::<Half>,
        (F64, Bf16, None) => double_of_16::<Bfloat>,
        (F16, F32, Some(Rounding::Nearest)) => to_16::<f32, Half>,
        (F16, F64, Some(Rounding::Nearest)) => to_16::<f64, Half>,
        (Bf16, F32, Some(Rounding::Nearest)) => to_16::<f32, Bfloat>,
        (Bf16, F64, Some(Rounding::Nearest)) => to_16::<f64, Bfloat>,
        (F16, F32, Some(Rounding::Zero)) => to_16_zero::<f32, Half>,
        (Bf16, F32, Some(Rounding::Zero)) => to_16_zero::<f32, Bfloat>,
        (F32, _, Some(Rounding::Nearest)) => match from {
            S8 => to_single::<i8>,
            U8 => to_single::<u8>,
            S16 => to_single::<i16>,
            U16 => to_single::<u16>,
            S32 => to_single::<i32>,
            U32 => to_single::<u32>,
            S64 => to_single::<i64>,
            U64 => to_single::<u64>,
            _ => return None,
        },
        (F64, _, Some(Rounding::Nearest)) => match from {
            S8 => to_double::<i8>,
            U8 => to_double::<u8>,
            S16 => to_double::<i16>,
            U16 => to_double::<u16>,
            S32 => to_double::<i32>,
            U32 => to_double::<u32>,
            S64 => to_double::<i64>,
            U64 => to_double::<u64>,
            _ => return None,
        },
        _ => return None,
    })
}

/// A conversion between integers, to so many bytes.
pub fn between_integers(from: Type, bytes: u32) -> Option<Conversion> {
    macro_rules! to {
        ($source:ty, $signed:literal) => {
            match bytes {
                1 => to_width::<$source, $signed, 1>,
                2 => to_width::<$source, $signed, 2>,
                4 => to_width::<$source, $signed, 4>,
                8 => to_width::<$source, $signed, 8>,
                _ => return None,
            }
        };
    }
    use Type::*;
    Some(match from {
        S8 => to!(u8, true),
        S16 => to!(u16, true),
        S32 => to!(u32, true),
        S64 => to!(u64, true),
        U8 | B8 => to!(u8, false),
        U16 | B16 => to!(u16, false),
        U32 | B32 => to!(u32, false),
        U64 | B64 => to!(u64, false),
        _ => return None,
    })
}
