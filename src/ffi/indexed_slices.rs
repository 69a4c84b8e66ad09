//! Indexed slices.

use super::boundary::{boundary, check, out};
use super::handle::{borrow, get, make};
use super::object::{umbo_tensor, umbo_value};
use super::status::umbo_status;
use super::tensor::{UMBO_MAX_RANK, shape_from};
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use crate::values::Value;
use crate::values::indexed_slices::IndexedSlices;

/// A value that is indexed slices: some rows of a tensor of shape `dense_shape`, by number. Row i
/// of `values` belongs to row `indices[i]`; a row that is named several times stands for the sum.
///
/// `indices` is int64 of shape [k]; `values` has the shape `dense_shape` but for k rows
/// (INVALID_ARGUMENT if not). Both are kept, not copied, and stay the caller's to release. The
/// range of the indices is checked where they are used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_value_create_indexed_slices(
    values: *const umbo_tensor,
    indices: *const umbo_tensor,
    rank: i32,
    dense_shape: *const i64,
    value: *mut *mut umbo_value,
) -> umbo_status {
    boundary("umbo_value_create_indexed_slices", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (value, shape) =
            unsafe { (out(value, "value")?, shape_from(rank, dense_shape, "dense_shape")?) };
        let (values, indices) = (get(values, "values")?, get(indices, "indices")?);
        value.write(make(Value::indexed_slices(values, indices, shape)?)?);
        Ok(())
    })
}

fn with_slices<R>(value: *const umbo_value, look: impl FnOnce(&IndexedSlices) -> R) -> Result<R> {
    borrow(value, "value", |value| slices_of(value, "value").map(look))?
}

/// An argument that must be indexed slices.
pub(crate) fn slices_of<'a>(value: &'a Value, argument: &'static str) -> Result<&'a IndexedSlices> {
    match value {
        Value::IndexedSlices(slices) => Ok(slices),
        other => {
            Err(Error::invalid(argument, format!("is {}, not indexed slices", other.kind_name())))
        }
    }
}

fn part(
    function: &'static str,
    value: *const umbo_value,
    tensor: *mut *mut umbo_tensor,
    of: impl FnOnce(&IndexedSlices) -> Tensor,
) -> umbo_status {
    boundary(function, || {
        // SAFETY: the caller gives NULL or a place for the output.
        let tensor = unsafe { out(tensor, "tensor") }?;
        tensor.write(make(with_slices(value, of)?)?);
        Ok(())
    })
}

/// The rows of indexed slices: the same tensor, a new handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_value_slices_values(
    value: *const umbo_value,
    tensor: *mut *mut umbo_tensor,
) -> umbo_status {
    part("umbo_value_slices_values", value, tensor, |slices| slices.values().clone())
}

/// The row numbers of indexed slices: the same tensor, a new handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_value_slices_indices(
    value: *const umbo_value,
    tensor: *mut *mut umbo_tensor,
) -> umbo_status {
    part("umbo_value_slices_indices", value, tensor, |slices| slices.indices().clone())
}

/// The shape of the tensor that indexed slices are slices of. `shape` has room for UMBO_MAX_RANK
/// sizes, those past `rank` are set to 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_value_slices_dense_shape(
    value: *const umbo_value,
    rank: *mut i32,
    shape: *mut i64,
) -> umbo_status {
    boundary("umbo_value_slices_dense_shape", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let rank = unsafe { out(rank, "rank") }?;
        check(shape, "shape", "room for UMBO_MAX_RANK sizes is expected")?;
        let dense = with_slices(value, IndexedSlices::dense_shape)?;
        let mut sizes = [0i64; UMBO_MAX_RANK as usize];
        for (size, &dense) in sizes.iter_mut().zip(dense.iter()) {
            *size = dense as i64;
        }
        // SAFETY: the caller gives room for as many sizes, which was just checked not to be NULL.
        unsafe { shape.cast::<[i64; UMBO_MAX_RANK as usize]>().write(sizes) };
        rank.write(dense.rank() as i32);
        Ok(())
    })
}
