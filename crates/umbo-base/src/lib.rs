//! The base of all crates of Umbo: errors, names that C reads, too, logs and spans.

#![deny(unsafe_code)]

/// Declares an enum with a list of all its variants, `ALL`.
#[macro_export]
macro_rules! enum_with_all {
    (
        $(#[$about:meta])*
        $visibility:vis enum $Enum:ident {
            $($(#[$documentation:meta])* $Variant:ident = $number:literal,)+
        }
    ) => {
        $(#[$about])*
        $visibility enum $Enum {
            $($(#[$documentation])* $Variant = $number,)+
        }

        impl $Enum {
            /// All variants, in the order of their numbers.
            $visibility const ALL: [$Enum; [$($Enum::$Variant),+].len()] = [$($Enum::$Variant),+];
        }
    };
}

/// The error for a wrong value, shape, dtype or name of an argument: the argument's name, then the
/// message as for `format!`.
#[macro_export]
macro_rules! invalid {
    ($argument:expr, $($problem:tt)+) => {
        $crate::error::Error::invalid($argument, format!($($problem)+))
    };
}

/// The error for an axis, index or position that is out of range: as `invalid!`.
#[macro_export]
macro_rules! out_of_range {
    ($argument:expr, $($problem:tt)+) => {
        $crate::error::Error::out_of_range($argument, format!($($problem)+))
    };
}

/// Leaves the function with UNIMPLEMENTED in a build without a feature of the crate: what the
/// feature's part offers, and the feature are said. The compiler leaves out what follows.
#[macro_export]
macro_rules! built_with {
    ($feature:literal, $part:expr) => {
        if cfg!(not(feature = $feature)) {
            return Err($crate::error::Error::left_out($part, $feature));
        }
    };
}

pub mod checksum;
pub mod error;
pub mod files;
pub mod observe;
pub mod text;
