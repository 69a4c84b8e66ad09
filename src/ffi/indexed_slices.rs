//! Indexed slices.

use super::boundary::{boundary, c_call, check, out};
use super::dtype::{UMBO_MAX_RANK, shape_from};
use super::handle::{borrow, get, make};
use super::object::{umbo_tensor, umbo_value};
use super::status::umbo_status;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use crate::values::Value;
use crate::values::indexed_slices::IndexedSlices;

/// Makes indexed slices: some rows of a tensor, by number.
///
/// @param[in] values The rows: k of them, each with the shape of a row of `dense_shape`.
/// @param[in] indices The row numbers: an int64 tensor of shape [k]. Row i of `values` belongs to
///   row `indices[i]`.
/// @param[in] rank How many dimensions `dense_shape` has, 1 to UMBO_MAX_RANK.
/// @param[in] dense_shape The shape of the tensor that the rows are a part of.
/// @param[out] value The new value. Release it with umbo_value_release().
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: `indices` is not int64 of one dimension, `rank` or a size is out
///   of its limits, `values` has another shape than `dense_shape` with k rows, or a handle is not
///   valid.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is no memory or no handle left.
///
/// A row that is named several times stands for the sum. The value keeps both tensors and does not
/// copy them; the caller still releases its own handles. Whether the row numbers are in range is
/// checked where they are used.
#[c_call(out(value))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_value_create_indexed_slices(
    values: *const umbo_tensor,
    indices: *const umbo_tensor,
    rank: i32,
    dense_shape: *const i64,
    value: *mut *mut umbo_value,
) -> umbo_status {
    // SAFETY: the caller keeps the header's promise on pointers.
    let shape = unsafe { shape_from(rank, dense_shape, "dense_shape") }?;
    let (values, indices) = (get(values, "values")?, get(indices, "indices")?);
    value.write(make(Value::indexed_slices(values, indices, shape)?)?);
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

/// Gives the rows of indexed slices.
///
/// @param[in] value A value that is indexed slices.
/// @param[out] tensor A new handle to the tensor of the rows. Release it with
///   umbo_tensor_release().
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: `value` is not indexed slices, or is not a valid handle.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is no memory or no handle left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_value_slices_values(
    value: *const umbo_value,
    tensor: *mut *mut umbo_tensor,
) -> umbo_status {
    part("umbo_value_slices_values", value, tensor, |slices| slices.values().clone())
}

/// Gives the row numbers of indexed slices.
///
/// @param[in] value A value that is indexed slices.
/// @param[out] tensor A new handle to the tensor of the row numbers. Release it with
///   umbo_tensor_release().
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: `value` is not indexed slices, or is not a valid handle.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is no memory or no handle left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_value_slices_indices(
    value: *const umbo_value,
    tensor: *mut *mut umbo_tensor,
) -> umbo_status {
    part("umbo_value_slices_indices", value, tensor, |slices| slices.indices().clone())
}

/// Gives the shape of the tensor that the rows are a part of.
///
/// @param[in] value A value that is indexed slices.
/// @param[out] rank How many dimensions there are.
/// @param[out] shape The size of each dimension. It has room for UMBO_MAX_RANK sizes; those from
///   `rank` on are set to 0.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: `value` is not indexed slices, or is not a valid handle, or an
///   output is a null pointer.
#[c_call(out(rank))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_value_slices_dense_shape(
    value: *const umbo_value,
    rank: *mut i32,
    shape: *mut i64,
) -> umbo_status {
    check(shape, "shape", "room for UMBO_MAX_RANK sizes is expected")?;
    let dense = with_slices(value, IndexedSlices::dense_shape)?;
    let mut sizes = [0i64; UMBO_MAX_RANK as usize];
    for (size, &dense) in sizes.iter_mut().zip(dense.iter()) {
        *size = dense as i64;
    }
    // SAFETY: the caller gives room for as many sizes, which was just checked not to be NULL.
    unsafe { shape.cast::<[i64; UMBO_MAX_RANK as usize]>().write(sizes) };
    rank.write(dense.rank() as i32);
}
