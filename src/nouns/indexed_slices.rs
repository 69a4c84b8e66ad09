//! Indexed slices.

use crate::machinery::prelude::*;
use umbo_core::values::indexed_slices::IndexedSlices;

/// Makes indexed slices: some rows of a tensor.
///
/// @param[in] values The rows: k of them.
/// @param[in] indices Their numbers: an int64 tensor of shape [k]. Row i of `values` is row
///   `indices[i]` of the tensor.
/// @param[in] ndim The number of dimensions of the tensor, 1 to UMBO_MAX_NDIM.
/// @param[in] dense_shape The shape of the tensor.
///
/// A row that is named several times stands for the sum. Whether the numbers are in range is
/// checked where the slices are used.
#[c_call(out(value), shape(dense_shape, ndim), get(values), get(indices))]
pub fn umbo_value_create_indexed_slices(
    values: *const umbo_tensor,
    indices: *const umbo_tensor,
    ndim: i32,
    dense_shape: *const i64,
    value: *mut *mut umbo_value,
) {
    value.write(make(Value::indexed_slices(values, indices, dense_shape)?)?);
}

/// An argument that must be indexed slices.
pub(crate) fn slices_of<'a>(value: &'a Value, argument: &'static str) -> Result<&'a IndexedSlices> {
    match value {
        Value::IndexedSlices(slices) => Ok(slices),
        other => Err(invalid!(
            argument,
            "is {}, not indexed slices",
            other.kind_name()
        )),
    }
}

/// Gets new handles to the tensors of indexed slices; umbo_value_get_info() gets the dense shape.
#[c_call(out(values), out(indices), borrow(value))]
pub fn umbo_value_indexed_slices(
    value: *const umbo_value,
    values: *mut *mut umbo_tensor,
    indices: *mut *mut umbo_tensor,
) {
    let slices = slices_of(value, "value")?;
    let of_values = reserve()?;
    let of_indices = reserve()?;
    values.write(of_values.make(slices.values().clone()));
    indices.write(of_indices.make(slices.indices().clone()));
}
