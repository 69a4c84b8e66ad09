//! 16-bit floats in the caller's memory.

use crate::machinery::prelude::*;
use umbo_core::kernels::float::half_precision::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};

/// The part that both directions share: which type, and how many elements.
fn checked<A, B>(
    dtype: umbo_dtype,
    count: i64,
    from: *const A,
    to: *const B,
) -> Result<(DType, usize)> {
    length::<A>(Count::new(count, "count"), "from")?;
    let elements = length::<B>(Count::new(count, "count"), "to")?;
    if elements > 0 {
        check(from, "from", "the elements are expected")?;
        check(to, "to", "a place for the elements is expected")?;
    }
    match constant(dtype, "dtype")? {
        dtype @ (DType::Float16 | DType::BFloat16) => Ok((dtype, elements)),
        other => Err(invalid!(
            "dtype",
            "{other}; must be UMBO_DTYPE_FLOAT16 or UMBO_DTYPE_BFLOAT16"
        )),
    }
}

/// Converts each of `count` elements.
///
/// # Safety
/// There are `count` elements at `from`, and room for as many at `to`, elsewhere.
unsafe fn convert<A, B>(count: usize, from: *const A, to: *mut B, one: impl Fn(A) -> B) {
    for index in 0..count {
        // SAFETY: the caller's promise.
        unsafe { ptr::write(to.add(index), one(ptr::read(from.add(index)))) };
    }
}

/// Rounds float32 numbers to float16 or bfloat16, to the nearest, ties to even.
///
/// @param[in] dtype UMBO_DTYPE_FLOAT16 or UMBO_DTYPE_BFLOAT16.
/// @param[in] from Host memory. `from` may be NULL if there are no numbers.
/// @param[out] to Host memory that does not overlap `from`. `to` may be NULL if there are no
///   numbers.
///
/// Numbers that are too large become infinite, and NaN stays NaN.
#[c_call]
pub fn umbo_dtype_convert_from_float(
    dtype: umbo_dtype,
    count: i64,
    from: *const f32,
    to: *mut c_void,
) {
    let to = to.cast::<u16>();
    let (dtype, count) = checked(dtype, count, from, to.cast_const())?;
    // SAFETY: the caller promises `count` numbers, and room for as many.
    unsafe {
        match dtype {
            DType::Float16 => convert(count, from, to, |x| f32_to_f16(x).to_bits()),
            _ => convert(count, from, to, |x| f32_to_bf16(x).to_bits()),
        }
    }
    Ok(())
}

/// Converts float16 or bfloat16 numbers to float32, which is exact.
///
/// The parameters are those of umbo_dtype_convert_from_float().
#[c_call]
pub fn umbo_dtype_convert_to_float(
    dtype: umbo_dtype,
    count: i64,
    from: *const c_void,
    to: *mut f32,
) {
    let from = from.cast::<u16>();
    let (dtype, count) = checked(dtype, count, from, to.cast_const())?;
    // SAFETY: the caller promises `count` numbers, and room for as many.
    unsafe {
        match dtype {
            DType::Float16 => convert(count, from, to, |x| f16_to_f32(half::f16::from_bits(x))),
            _ => convert(count, from, to, |x| bf16_to_f32(half::bf16::from_bits(x))),
        }
    }
    Ok(())
}
