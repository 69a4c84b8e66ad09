//! Element types and shapes.

use crate::machinery::prelude::*;
use umbo_core::tensor::{DType, MAX_RANK, Shape};

/// The type of a tensor's elements.
pub type umbo_dtype = i32;

/// Any type, or none.
pub const UMBO_DTYPE_NONE: umbo_dtype = 0;
/// IEEE 754 binary16.
pub const UMBO_DTYPE_FLOAT16: umbo_dtype = 301;
/// The upper half of an IEEE 754 binary32.
pub const UMBO_DTYPE_BFLOAT16: umbo_dtype = 302;
/// `float`.
pub const UMBO_DTYPE_FLOAT32: umbo_dtype = 303;
/// `double`.
pub const UMBO_DTYPE_FLOAT64: umbo_dtype = 304;
/// `int8_t`.
pub const UMBO_DTYPE_INT8: umbo_dtype = 305;
/// `int16_t`.
pub const UMBO_DTYPE_INT16: umbo_dtype = 306;
/// `int32_t`.
pub const UMBO_DTYPE_INT32: umbo_dtype = 307;
/// `int64_t`.
pub const UMBO_DTYPE_INT64: umbo_dtype = 308;
/// `uint8_t`.
pub const UMBO_DTYPE_UINT8: umbo_dtype = 309;
/// `uint16_t`.
pub const UMBO_DTYPE_UINT16: umbo_dtype = 310;
/// `uint32_t`.
pub const UMBO_DTYPE_UINT32: umbo_dtype = 311;
/// `uint64_t`.
pub const UMBO_DTYPE_UINT64: umbo_dtype = 312;
/// One byte, 0 or 1. The library does not check elements that a program gives; with other bytes,
/// results are unspecified. Readers of files make every byte but 0 a 1.
pub const UMBO_DTYPE_BOOL: umbo_dtype = 313;

/// The largest number of dimensions.
pub const UMBO_MAX_NDIM: i32 = 8;

const _: () = assert!(UMBO_MAX_NDIM as usize == MAX_RANK);

constants! { DType {
    UMBO_DTYPE_FLOAT16 = Float16, UMBO_DTYPE_BFLOAT16 = BFloat16, UMBO_DTYPE_FLOAT32 = Float32,
    UMBO_DTYPE_FLOAT64 = Float64, UMBO_DTYPE_INT8 = Int8, UMBO_DTYPE_INT16 = Int16,
    UMBO_DTYPE_INT32 = Int32, UMBO_DTYPE_INT64 = Int64, UMBO_DTYPE_UINT8 = UInt8,
    UMBO_DTYPE_UINT16 = UInt16, UMBO_DTYPE_UINT32 = UInt32, UMBO_DTYPE_UINT64 = UInt64,
    UMBO_DTYPE_BOOL = Bool,
} }

/// An element type.
pub(crate) fn dtype(code: umbo_dtype, argument: &'static str) -> Result<DType> {
    constant(code, argument)
}

/// An element type, or `None` for whatever there is.
pub(crate) fn dtype_or_any(code: umbo_dtype, argument: &'static str) -> Result<Option<DType>> {
    (code != UMBO_DTYPE_NONE)
        .then(|| dtype(code, argument))
        .transpose()
}

/// A shape argument.
///
/// # Safety
/// `sizes` is NULL or leads to `ndim` numbers.
pub(crate) unsafe fn shape(
    sizes: *const i64,
    ndim: Count<i32>,
    argument: &'static str,
) -> Result<Shape> {
    if !(0..=UMBO_MAX_NDIM).contains(&ndim.number) {
        return Err(invalid!(
            ndim.argument,
            "{}; valid are 0 to {UMBO_MAX_NDIM}",
            ndim.number
        ));
    }
    // SAFETY: the caller's promise is the same.
    let sizes = unsafe { array(sizes, ndim, argument) }?;
    let mut checked = [0usize; MAX_RANK];
    for (axis, (to, &size)) in checked.iter_mut().zip(sizes).enumerate() {
        *to = usize::try_from(size)
            .map_err(|_| invalid!(argument, "dimension {axis} is {size}; sizes are 0 or more"))?;
    }
    Shape::new(&checked[..sizes.len()])
}

/// Numbers for as many axes as there may be, with 0 for those that are not there.
pub(crate) fn padded(numbers: impl Iterator<Item = i64>) -> [i64; MAX_RANK] {
    let mut all = [0; MAX_RANK];
    all.iter_mut()
        .zip(numbers)
        .for_each(|(to, number)| *to = number);
    all
}
