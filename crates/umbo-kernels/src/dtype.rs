//! The element types.

use std::fmt;

use half::{bf16, f16};

enum_with_all! {
    /// The type of a tensor's elements. The numbers are those of the C constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[repr(i32)]
    #[expect(missing_docs, reason = "the names say all")]
    pub enum DType {
        Float16 = 1,
        BFloat16 = 2,
        Float32 = 3,
        Float64 = 4,
        Int8 = 5,
        Int16 = 6,
        Int32 = 7,
        Int64 = 8,
        UInt8 = 9,
        UInt16 = 10,
        UInt32 = 11,
        UInt64 = 12,
        Bool = 13,
    }
}

impl DType {
    /// The numeric types: all types except bool.
    pub const NUMERIC: &[DType] = match DType::ALL.split_last() {
        Some((DType::Bool, numbers)) => numbers,
        _ => panic!("bool is the last of all"),
    };

    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            DType::Int8 | DType::UInt8 | DType::Bool => 1,
            DType::Float16 | DType::BFloat16 | DType::Int16 | DType::UInt16 => 2,
            DType::Float32 | DType::Int32 | DType::UInt32 => 4,
            DType::Float64 | DType::Int64 | DType::UInt64 => 8,
        }
    }

    /// Whether it is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(
            self,
            DType::Float16 | DType::BFloat16 | DType::Float32 | DType::Float64
        )
    }

    /// Whether it is an integer type. bool is not.
    pub fn is_integer(self) -> bool {
        !self.is_float() && self != DType::Bool
    }

    /// The dtype of a MEAN over elements of this type. Floats keep their type, 8- and 16-bit
    /// integers give float32, and wider integers give float64. bool has no mean.
    pub fn mean_dtype(self) -> Option<DType> {
        match self {
            DType::Bool => None,
            DType::Int8 | DType::UInt8 | DType::Int16 | DType::UInt16 => Some(DType::Float32),
            DType::Int32 | DType::UInt32 | DType::Int64 | DType::UInt64 => Some(DType::Float64),
            DType::Float16 | DType::BFloat16 | DType::Float32 | DType::Float64 => Some(self),
        }
    }

    /// The usual name, such as `float32`.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; DType::ALL.len()] = [
            "float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64",
            "uint8", "uint16", "uint32", "uint64", "bool",
        ];
        NAMES[self as usize - 1]
    }
}

impl fmt::Display for DType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A Rust type whose values are elements of one [`DType`].
///
/// # Safety
/// `DTYPE.size()` is the size of `Self`, and every bit pattern that a tensor of `DTYPE` can hold
/// is a value of `Self`.
pub unsafe trait Element: Copy + Send + Sync + PartialEq + fmt::Debug + 'static {
    /// The element type.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {
        $(
            // SAFETY: the sizes agree (asserted below) and the type has no invalid bit pattern.
            unsafe impl Element for $rust {
                const DTYPE: DType = DType::$dtype;
            }
        )*
        #[cfg(test)]
        #[test]
        fn sizes_agree() {
            $(assert_eq!(size_of::<$rust>(), DType::$dtype.size());)*
        }
    };
}

elements! {
    f16 => Float16, bf16 => BFloat16, f32 => Float32, f64 => Float64,
    i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64,
    u8 => UInt8, u16 => UInt16, u32 => UInt32, u64 => UInt64,
}

/// Runs an expression in which `$element` stands for the Rust type that is listed for a dtype. For
/// the others it runs the expression after `else`. The compiler notices if a dtype is neither
/// listed nor one of the others.
#[macro_export]
macro_rules! for_listed {
    (
        $dtype:expr, $element:ident => $body:expr, else $others:pat => $fallback:expr;
        $($($listed:ident)|+ => $rust:ty),+
    ) => {{
        use $crate::dtype::DType as D;
        match $dtype {
            $($(D::$listed)|+ => {
                type $element = $rust;
                $body
            })+
            $others => $fallback,
        }
    }};
}
pub use for_listed;

/// Runs an expression in which `$element` stands for the Rust type of a numeric dtype. For bool it
/// runs the expression after `else`.
///
/// ```ignore
/// for_numeric!(dtype, T => sum::<T>(..), else Err(..))
/// ```
#[macro_export]
macro_rules! for_numeric {
    ($dtype:expr, $element:ident => $body:expr, else $fallback:expr) => {
        $crate::dtype::for_listed!(
            $dtype, $element => $body, else $crate::dtype::DType::Bool => $fallback;
            Float16 => $crate::half::f16, BFloat16 => $crate::half::bf16,
            Float32 => f32, Float64 => f64,
            Int8 => i8, Int16 => i16, Int32 => i32, Int64 => i64,
            UInt8 => u8, UInt16 => u16, UInt32 => u32, UInt64 => u64
        )
    };
}
pub use for_numeric;

/// The same for operations that choose one of the elements. bool is like uint8: false is 0.
macro_rules! for_ordered {
    ($dtype:expr, $element:ident => $body:expr) => {
        $crate::dtype::for_numeric!(
            match $dtype {
                $crate::dtype::DType::Bool => $crate::dtype::DType::UInt8,
                number => number,
            },
            $element => $body, else unreachable!("bool was replaced")
        )
    };
}
pub(crate) use for_ordered;

/// As [`for_numeric`], for operations that give equal bits for signed and unsigned integers, such
/// as sums that wrap. `$element` stands for the unsigned type of both.
macro_rules! for_wrapping {
    ($dtype:expr, $element:ident => $body:expr, else $fallback:expr) => {
        $crate::dtype::for_listed!(
            $dtype, $element => $body, else $crate::dtype::DType::Bool => $fallback;
            Float16 => $crate::half::f16, BFloat16 => $crate::half::bf16,
            Float32 => f32, Float64 => f64,
            Int8 | UInt8 => u8, Int16 | UInt16 => u16, Int32 | UInt32 => u32, Int64 | UInt64 => u64
        )
    };
}
pub(crate) use for_wrapping;

/// Runs an expression in which `$element` stands for the Rust type of a floating-point dtype. For
/// others it runs the expression after `else`.
#[macro_export]
macro_rules! for_float {
    ($dtype:expr, $element:ident => $body:expr, else $fallback:expr) => {
        $crate::dtype::for_listed!(
            $dtype, $element => $body, else _ => $fallback;
            Float16 => $crate::half::f16, BFloat16 => $crate::half::bf16,
            Float32 => f32, Float64 => f64
        )
    };
}
pub use for_float;
