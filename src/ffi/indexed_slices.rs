//! Indexed slices.

use super::prelude::*;
use crate::values::indexed_slices::IndexedSlices;

/// Makes indexed slices: some rows of a tensor, by number.
///
/// @param[in] values The rows: k of them, each with the shape of a row of `dense_shape`.
/// @param[in] indices The row numbers: an int64 tensor of shape [k]. Row i of `values` belongs to
///   row `indices[i]`.
/// @param[in] rank How many dimensions `dense_shape` has, 1 to UMBO_MAX_RANK.
/// @param[in] dense_shape The shape of the tensor that the rows are a part of.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `indices` is not int64 of one dimension, `rank` or a
///   size is out of its limits, `values` has another shape than `dense_shape` with k rows, or a handle is not
///   valid.
///
/// A row that is named several times stands for the sum. The value keeps both tensors and does not
/// copy them; the caller still releases its own handles. Whether the row numbers are in range is
/// checked where they are used.
#[c_call(out(value), shape(dense_shape, rank), get(values), get(indices))]
pub fn umbo_value_create_indexed_slices(
    values: *const umbo_tensor,
    indices: *const umbo_tensor,
    rank: i32,
    dense_shape: *const i64,
    value: *mut *mut umbo_value,
) {
    value.write(make(Value::indexed_slices(values, indices, dense_shape)?)?);
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

/// Gives the rows of indexed slices.
///
/// @param[in] value A value that is indexed slices.
/// @param[out] tensor A new handle to the tensor of the rows. Release it with
///   umbo_tensor_release().
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `value` is not indexed slices, or is not a valid handle.
#[c_call(out(tensor), borrow(value))]
pub fn umbo_value_slices_values(value: *const umbo_value, tensor: *mut *mut umbo_tensor) {
    tensor.write(make(slices_of(value, "value")?.values().clone())?);
}

/// Gives the row numbers of indexed slices.
///
/// @param[in] value A value that is indexed slices.
/// @param[out] tensor A new handle to the tensor of the row numbers. Release it with
///   umbo_tensor_release().
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `value` is not indexed slices, or is not a valid handle.
#[c_call(out(tensor), borrow(value))]
pub fn umbo_value_slices_indices(value: *const umbo_value, tensor: *mut *mut umbo_tensor) {
    tensor.write(make(slices_of(value, "value")?.indices().clone())?);
}

/// Gives the shape of the tensor that the rows are a part of.
///
/// @param[in] value A value that is indexed slices.
/// @param[out] rank How many dimensions there are.
/// @param[out] shape The size of each dimension. It has room for UMBO_MAX_RANK sizes; those from
///   `rank` on are set to 0.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `value` is not indexed slices, or is not a valid handle,
///   or an output is a null pointer.
#[c_call(out(rank), sizes(shape), borrow(value))]
pub fn umbo_value_slices_dense_shape(value: *const umbo_value, rank: *mut i32, shape: *mut i64) {
    let dense = slices_of(value, "value")?.dense_shape();
    rank.write(dense.rank() as i32);
    shape.write(padded(dense.iter().map(|&size| size as i64)));
}
