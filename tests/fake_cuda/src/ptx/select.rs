//! Which function an instruction without memory, branches or other threads stands for.

use super::arithmetic as on;
use super::bits16::Rounding;
use super::convert::{self, Integral};
use super::kernel::{Binary, Ternary, Unary};
use super::types::Type::{self, *};

#[derive(Clone, Copy)]
pub enum Function {
    Unary(Unary),
    Binary(Binary),
    Ternary(Ternary),
}

use Function::{Binary as Two, Ternary as Three, Unary as One};

/// A function with the types of what it takes.
pub struct Selected {
    pub function: Function,
    pub types: [Type; 3],
    /// After it the result is continued from this type to the width of its register.
    pub extend_from: Option<Type>,
}

macro_rules! by_integer {
    ($type:expr, $function:ident) => {
        match $type {
            S16 => on::$function::<i16>,
            U16 | B16 => on::$function::<u16>,
            S32 => on::$function::<i32>,
            U32 | B32 => on::$function::<u32>,
            S64 => on::$function::<i64>,
            U64 | B64 => on::$function::<u64>,
            _ => return None,
        }
    };
}

macro_rules! by_float {
    ($type:expr, $function:ident) => {
        match $type {
            F32 => on::$function::<f32>,
            F64 => on::$function::<f64>,
            _ => return None,
        }
    };
}

/// The function of an instruction such as `["add", "rn", "f32"]`; `None` if it is not known with
/// all its modifiers.
pub fn select(words: &[String]) -> Option<Selected> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (name, modifiers) = words.split_first()?;
    let (last, modifiers) = modifiers.split_last()?;
    let class = Type::named(last)?;
    if *name == "cvt" {
        return conversion(modifiers, class);
    }
    let float = matches!(class, F32 | F64);
    let (function, types) = match (*name, modifiers) {
        ("mov", []) => (One(on::copy), [class; 3]),
        ("add", [] | ["rn"]) if float => (Two(by_float!(class, add_float)), [class; 3]),
        ("sub", [] | ["rn"]) if float => (Two(by_float!(class, sub_float)), [class; 3]),
        ("mul", [] | ["rn"]) if float => (Two(by_float!(class, mul_float)), [class; 3]),
        ("div", ["rn"]) if float => (Two(by_float!(class, div_float)), [class; 3]),
        ("fma" | "mad", ["rn"]) if float => (Three(by_float!(class, fma)), [class; 3]),
        ("sqrt", ["rn"]) => (One(by_float!(class, sqrt)), [class; 3]),
        ("rcp", ["rn"]) => (One(by_float!(class, reciprocal)), [class; 3]),
        ("neg", []) if float => (One(by_float!(class, neg_float)), [class; 3]),
        ("abs", []) if float => (One(by_float!(class, abs_float)), [class; 3]),
        ("min", []) if float => (Two(by_float!(class, min_float)), [class; 3]),
        ("max", []) if float => (Two(by_float!(class, max_float)), [class; 3]),
        ("min", ["NaN"]) => (Two(by_float!(class, min_float_nan)), [class; 3]),
        ("max", ["NaN"]) => (Two(by_float!(class, max_float_nan)), [class; 3]),
        ("copysign", []) => (Two(by_float!(class, copy_sign)), [class; 3]),
        ("testp", [kind]) => (One(test(kind, class)?), [class; 3]),
        ("add", []) => (Two(by_integer!(class, add)), [class; 3]),
        ("sub", []) => (Two(by_integer!(class, sub)), [class; 3]),
        ("mul", ["lo"]) => (Two(by_integer!(class, mul_low)), [class; 3]),
        ("mul", ["hi"]) => (Two(by_integer!(class, mul_high)), [class; 3]),
        ("mul", ["wide"]) => (Two(wide(class)?), [class; 3]),
        ("mad", ["lo"]) => (Three(by_integer!(class, mad_low)), [class; 3]),
        ("mad", ["hi"]) => (Three(by_integer!(class, mad_high)), [class; 3]),
        ("mad", ["wide"]) => {
            let (function, sum) = mad_wide(class)?;
            (Three(function), [class, class, sum])
        }
        ("div", []) => (Two(by_integer!(class, div)), [class; 3]),
        ("rem", []) => (Two(by_integer!(class, rem)), [class; 3]),
        ("min", []) => (Two(by_integer!(class, min)), [class; 3]),
        ("max", []) => (Two(by_integer!(class, max)), [class; 3]),
        ("neg", []) => (One(by_integer!(class, neg)), [class; 3]),
        ("abs", []) => (One(by_integer!(class, abs)), [class; 3]),
        ("and", []) => (Two(on::and), [class; 3]),
        ("or", []) => (Two(on::or), [class; 3]),
        ("xor", []) => (Two(on::xor), [class; 3]),
        ("not", []) if class == Predicate => (One(on::not_predicate), [class; 3]),
        ("not", []) => (One(by_integer!(class, not)), [class; 3]),
        ("cnot", []) => (One(by_integer!(class, is_zero)), [class; 3]),
        ("shl", []) => (Two(by_integer!(class, shl)), [class, U32, U32]),
        ("shr", []) => (Two(by_integer!(class, shr)), [class, U32, U32]),
        ("shf", ["l", "wrap"]) => (Three(on::funnel_left_wrap), [B32; 3]),
        ("shf", ["l", "clamp"]) => (Three(on::funnel_left_clamp), [B32; 3]),
        ("shf", ["r", "wrap"]) => (Three(on::funnel_right_wrap), [B32; 3]),
        ("shf", ["r", "clamp"]) => (Three(on::funnel_right_clamp), [B32; 3]),
        ("bfe", []) => (Three(by_integer!(class, bit_field_extract)), [class, U32, U32]),
        ("prmt", []) => (Three(on::permute), [B32; 3]),
        ("popc", []) => (One(on::count_ones), [class; 3]),
        ("clz", []) if class == B32 => (One(on::leading_zeros32), [class; 3]),
        ("clz", []) if class == B64 => (One(on::leading_zeros64), [class; 3]),
        ("brev", []) if class == B32 => (One(on::reverse32), [class; 3]),
        ("brev", []) if class == B64 => (One(on::reverse64), [class; 3]),
        ("selp", []) => (Three(on::select), [class, class, Predicate]),
        _ => return None,
    };
    Some(Selected { function, types, extend_from: None })
}

fn test(kind: &str, class: Type) -> Option<Unary> {
    Some(match kind {
        "finite" => by_float!(class, is_finite),
        "infinite" => by_float!(class, is_infinite),
        "number" => by_float!(class, is_number),
        "notanumber" => by_float!(class, is_nan),
        "normal" => by_float!(class, is_normal),
        "subnormal" => by_float!(class, is_subnormal),
        _ => return None,
    })
}

fn wide(class: Type) -> Option<Binary> {
    Some(match class {
        S16 => on::mul_wide::<i16>,
        U16 => on::mul_wide::<u16>,
        S32 => on::mul_wide::<i32>,
        U32 => on::mul_wide::<u32>,
        _ => return None,
    })
}

fn mad_wide(class: Type) -> Option<(Ternary, Type)> {
    Some(match class {
        S16 => (on::mad_wide::<i16, i32>, S32),
        U16 => (on::mad_wide::<u16, u32>, U32),
        S32 => (on::mad_wide::<i32, i64>, S64),
        U32 => (on::mad_wide::<u32, u64>, U64),
        _ => return None,
    })
}

/// The comparison of a `setp` or `set`.
pub fn comparison(name: &str, class: Type) -> Option<Binary> {
    if matches!(class, F32 | F64) {
        return Some(match name {
            "eq" => by_float!(class, equal),
            "ne" => by_float!(class, not_equal_ordered),
            "lt" => by_float!(class, less),
            "le" => by_float!(class, less_equal),
            "gt" => by_float!(class, greater),
            "ge" => by_float!(class, greater_equal),
            "equ" => by_float!(class, equal_or_nan),
            "neu" => by_float!(class, not_equal),
            "ltu" => by_float!(class, less_or_nan),
            "leu" => by_float!(class, less_equal_or_nan),
            "gtu" => by_float!(class, greater_or_nan),
            "geu" => by_float!(class, greater_equal_or_nan),
            "num" => by_float!(class, both_numbers),
            "nan" => by_float!(class, some_nan),
            _ => return None,
        });
    }
    Some(match name {
        "eq" => by_integer!(class, equal),
        "ne" => by_integer!(class, not_equal),
        "lt" => by_integer!(class, less),
        "le" => by_integer!(class, less_equal),
        "gt" => by_integer!(class, greater),
        "ge" => by_integer!(class, greater_equal),
        "lo" if !class.is_signed() => by_integer!(class, less),
        "ls" if !class.is_signed() => by_integer!(class, less_equal),
        "hi" if !class.is_signed() => by_integer!(class, greater),
        "hs" if !class.is_signed() => by_integer!(class, greater_equal),
        _ => return None,
    })
}

/// `cvt.MODIFIERS.TO.FROM`.
fn conversion(modifiers: &[&str], from: Type) -> Option<Selected> {
    let (to, modifiers) = modifiers.split_last()?;
    let to = Type::named(to)?;
    let rounding = match modifiers {
        [] => None,
        ["rn"] => Some(Rounding::Nearest),
        ["rz"] => Some(Rounding::Zero),
        ["rm"] => Some(Rounding::Down),
        ["rp"] => Some(Rounding::Up),
        _ => None,
    };
    let integral = match modifiers {
        ["rni"] => Some(Integral::Nearest),
        ["rzi"] => Some(Integral::Zero),
        ["rmi"] => Some(Integral::Down),
        ["rpi"] => Some(Integral::Up),
        _ => None,
    };
    let function = match (modifiers, integral) {
        (_, Some(how)) => convert::to_integral(to, from, how),
        ([], None) => convert::between_integers(from, to.bytes())
            .filter(|_| convert::between_integers(to, 1).is_some())
            .or(convert::to_float(to, from, None)),
        (_, None) => rounding.and_then(|_| convert::to_float(to, from, rounding)),
    }?;
    let narrow_integer = convert::between_integers(to, 8).is_some();
    Some(Selected {
        function: One(function),
        types: [from; 3],
        extend_from: narrow_integer.then_some(to),
    })
}

/// What an atomic operation makes of the old value and its operand.
pub fn atomic(name: &str, class: Type) -> Option<Binary> {
    Some(match (name, class) {
        ("add", F32 | F64) => by_float!(class, add_float),
        ("add", _) => by_integer!(class, add),
        ("min", _) => by_integer!(class, min),
        ("max", _) => by_integer!(class, max),
        ("and", B32 | B64) => on::and,
        ("or", B32 | B64) => on::or,
        ("xor", B32 | B64) => on::xor,
        ("exch", B32 | B64) => second,
        ("inc", U32) => increment,
        ("dec", U32) => decrement,
        _ => return None,
    })
}

fn second(_: u64, new: u64) -> u64 {
    new
}

fn increment(old: u64, most: u64) -> u64 {
    if old >= most { 0 } else { old + 1 }
}

fn decrement(old: u64, most: u64) -> u64 {
    if old == 0 || old > most { most } else { old - 1 }
}
