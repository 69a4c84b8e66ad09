//! Element types and shapes.

use super::boundary::{array, constant};
use crate::error::{Error, Result};
use crate::tensor::{DType, MAX_RANK, Shape};

/// The type of a tensor's elements.
pub type umbo_dtype = i32;

/// No type in particular, for options that may leave the type open.
pub const UMBO_DTYPE_NONE: umbo_dtype = 0;
/// IEEE 754 binary16.
pub const UMBO_DTYPE_FLOAT16: umbo_dtype = 1;
/// The upper half of an IEEE 754 binary32.
pub const UMBO_DTYPE_BFLOAT16: umbo_dtype = 2;
/// `float`.
pub const UMBO_DTYPE_FLOAT32: umbo_dtype = 3;
/// `double`.
pub const UMBO_DTYPE_FLOAT64: umbo_dtype = 4;
/// `int8_t`.
pub const UMBO_DTYPE_INT8: umbo_dtype = 5;
/// `int16_t`.
pub const UMBO_DTYPE_INT16: umbo_dtype = 6;
/// `int32_t`.
pub const UMBO_DTYPE_INT32: umbo_dtype = 7;
/// `int64_t`.
pub const UMBO_DTYPE_INT64: umbo_dtype = 8;
/// `uint8_t`.
pub const UMBO_DTYPE_UINT8: umbo_dtype = 9;
/// `uint16_t`.
pub const UMBO_DTYPE_UINT16: umbo_dtype = 10;
/// `uint32_t`.
pub const UMBO_DTYPE_UINT32: umbo_dtype = 11;
/// `uint64_t`.
pub const UMBO_DTYPE_UINT64: umbo_dtype = 12;
/// One byte, 0 or 1.
pub const UMBO_DTYPE_BOOL: umbo_dtype = 13;

/// The largest rank of a tensor.
pub const UMBO_MAX_RANK: i32 = 8;

const _: () = assert!(UMBO_MAX_RANK as usize == MAX_RANK);

pub(crate) fn dtype_from(code: umbo_dtype) -> Result<DType> {
    constant(
        code,
        DType::from_code(code),
        "dtype",
        "UMBO_DTYPE_FLOAT16 (1) to UMBO_DTYPE_BOOL (13)",
    )
}

/// A shape argument.
///
/// # Safety
/// `sizes` is NULL or leads to `rank` numbers.
pub(crate) unsafe fn shape_from(
    rank: i32,
    sizes: *const i64,
    argument: &'static str,
) -> Result<Shape> {
    if !(0..=UMBO_MAX_RANK).contains(&rank) {
        return Err(Error::invalid("rank", format!("{rank}; valid are 0 to {UMBO_MAX_RANK}")));
    }
    // SAFETY: the caller's promise is the same.
    let sizes = unsafe { array(sizes, rank.into(), argument) }?;
    let mut checked = [0usize; MAX_RANK];
    for (axis, (to, &size)) in checked.iter_mut().zip(sizes).enumerate() {
        *to = usize::try_from(size).map_err(|_| {
            Error::invalid(argument, format!("dimension {axis} is {size}; sizes are 0 or more"))
        })?;
    }
    Shape::new(&checked[..sizes.len()])
}
