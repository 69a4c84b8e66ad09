//! Constants of C, and what they are in the core.

use super::constant_names::NAMES;
use umbo_core::error::{Error, Result};

/// The type of the core that a set of constants stands for.
pub(crate) trait Constant: Sized {
    /// The value that the code stands for; an error lists the valid ones.
    fn from_c(code: i32, argument: &'static str) -> Result<Self>;
    /// The code.
    fn to_c(self) -> i32;
}

/// The value that the code stands for.
pub(crate) fn constant<T: Constant>(code: i32, argument: &'static str) -> Result<T> {
    T::from_c(code, argument)
}

/// Says once which constant stands for which variant: `constants! { Type { UMBO_A = A, ... } }`.
macro_rules! constants {
    ($type:ident { $($constant:ident = $variant:ident),+ $(,)? }) => {
        impl $crate::machinery::constants::Constant for $type {
            fn from_c(code: i32, argument: &'static str) -> umbo_core::error::Result<Self> {
                $crate::machinery::constants::one_of!(code, argument, {
                    $($constant => $type::$variant),+
                })
            }

            fn to_c(self) -> i32 {
                match self {
                    $($type::$variant => $constant),+
                }
            }
        }
    };
}

/// The value that a code stands for: `one_of!(code, "argument", { UMBO_A => a, ... })` is `Ok(a)`
/// for `UMBO_A`, and an error that lists the valid constants for what is none of them.
macro_rules! one_of {
    ($code:expr, $argument:expr, { $($constant:ident => $value:expr),+ $(,)? }) => {
        match $code {
            $($constant => Ok($value),)+
            code => Err($crate::machinery::constants::invalid(
                code,
                $argument,
                &[$((stringify!($constant), $constant)),+],
            )),
        }
    };
}

pub(crate) use {constants, one_of};

/// The error for a code that is none of these constants, which are in their order.
#[cold]
pub(crate) fn invalid(code: i32, argument: &'static str, valid: &[(&str, i32)]) -> Error {
    let named = |(name, code): &(&str, i32)| format!("{name} ({code})");
    let given = described(code);
    let valid = match valid {
        [one] => named(one),
        [first, second] => format!("{} and {}", named(first), named(second)),
        [first, .., last] => format!("{} to {}", named(first), named(last)),
        [] => "none".to_owned(),
    };
    invalid!(argument, "{given}; valid are {valid}")
}

/// A number in the place of an enum, as messages say it: the constant of another enum, whose
/// numbers are different ones, with its name.
pub(crate) fn described(code: i32) -> String {
    match NAMES.binary_search_by_key(&code, |(number, ..)| *number) {
        Ok(at) => format!("{} ({code}), which is a {}", NAMES[at].1, NAMES[at].2),
        Err(_) => code.to_string(),
    }
}
