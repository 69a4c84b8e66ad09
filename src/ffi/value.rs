//! Values: nests of tensors and variables, per-replica values.

use super::prelude::*;
use crate::values::limits::MAX_NEST_DEPTH;

/// How many tuples, lists and structs may lie in one another, in a value or an element spec.
///
/// A tuple of tensors has depth 1. A nest has at most 1,048,576 values, each counted as often as it
/// appears. A function that would build a deeper or larger nest fails with
/// UMBO_STATUS_INVALID_ARGUMENT.
pub const UMBO_MAX_NEST_DEPTH: i32 = 64;

const _: () = assert!(UMBO_MAX_NEST_DEPTH as usize == MAX_NEST_DEPTH);

/// Makes a value that is a tensor.
///
/// @param[in] tensor The tensor. The value keeps it, and shares its memory; the caller still
///   releases its own handle.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `tensor` is not a valid handle, or `value` is a null
///   pointer.
#[c_call(out(value), get(tensor))]
pub fn umbo_value_from_tensor(tensor: *const umbo_tensor, value: *mut *mut umbo_value) {
    value.write(make(Value::Tensor(tensor))?);
}

/// Makes a value with a copy of elements in host memory.
///
/// @param[in] dtype The type of the elements.
/// @param[in] rank The number of dimensions, 0 to UMBO_MAX_RANK. A number has none.
/// @param[in] shape The size of each dimension, 0 or more. `shape` may be NULL if `rank` is 0.
/// @param[in] data As many elements as `shape` has, in row-major order, in host memory. The program keeps them.
///   `data` may be NULL if there are none.
/// @param[in] device The name of the device that is to hold the copy. `device` may be NULL: in a replica's callback
///   the replica's device, elsewhere CPU:0.
/// @return UMBO_OK, or a status that umbo_tensor_from_data() can return, for the same causes.
///
/// It does what umbo_tensor_from_data() and umbo_value_from_tensor() do, in one call.
#[c_call(out(value), shape(shape, rank), device(device), dtype(dtype))]
pub fn umbo_value_from_data(
    dtype: umbo_dtype,
    rank: i32,
    shape: *const i64,
    data: *const c_void,
    device: *const c_char,
    value: *mut *mut umbo_value,
) {
    // SAFETY: the caller promises as many elements as the shape has.
    let tensor = unsafe { tensor_of_data(dtype, shape, data, device) }?;
    value.write(make(Value::Tensor(tensor))?);
}

/// Makes a value that is a variable.
///
/// @param[in] variable The variable. The value keeps it; the caller still releases its own handle.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `variable` is not a valid handle, or `value` is a null
///   pointer.
///
/// The value is the variable itself. It is not a copy of what the variable holds now.
#[c_call(out(value), get(variable))]
pub fn umbo_value_from_variable(variable: *const umbo_variable, value: *mut *mut umbo_value) {
    value.write(make(Value::Variable(variable))?);
}

/// Makes a tuple of values.
///
/// @param[in] count How many items there are, 0 or more.
/// @param[in] items The items. The tuple keeps them; the caller still releases its own handles.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: the tuple would be deeper or larger than
///   UMBO_MAX_NEST_DEPTH allows, `count` is negative, or an item is not a valid handle.
#[c_call(out(value), handles(items, count))]
pub fn umbo_value_create_tuple(
    count: i64,
    items: *const *const umbo_value,
    value: *mut *mut umbo_value,
) {
    value.write(make(Value::tuple(items)?)?);
}

/// Makes a list of values.
///
/// @param[in] count How many items there are, 0 or more.
/// @param[in] items The items. The list keeps them; the caller still releases its own handles.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: the list would be deeper or larger than
///   UMBO_MAX_NEST_DEPTH allows, `count` is negative, or an item is not a valid handle.
///
/// All that is done with nests treats a list as a tuple, but a list and a tuple of the same items differ in
/// structure. umbo_strategy_make_numpy_dataset() stacks lists of arrays.
#[c_call(out(value), handles(items, count))]
pub fn umbo_value_create_list(
    count: i64,
    items: *const *const umbo_value,
    value: *mut *mut umbo_value,
) {
    value.write(make(Value::list(items)?)?);
}

/// Makes a struct of values with names.
///
/// @param[in] count How many fields there are, 0 or more.
/// @param[in] names The name of each field, all different. They are copied.
/// @param[in] items The value of each field. The struct keeps them; the caller still releases its
///   own handles.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: two fields have the same name, the struct would be
///   deeper or larger than UMBO_MAX_NEST_DEPTH allows, `count` is negative, or an item is not a valid handle.
#[c_call(out(value), array(names, count), array(items, count))]
pub fn umbo_value_create_struct(
    count: i64,
    names: *const *const c_char,
    items: *const *const umbo_value,
    value: *mut *mut umbo_value,
) {
    let fields = collect(names.iter().zip(items).map(|(&name, &item)| {
        // SAFETY: the caller promises that each name is NULL or a text.
        let name = unsafe { text(name, "names") }?;
        Ok((name.into(), get(item, "items")?))
    }))?;
    value.write(make(Value::structure(fields)?)?);
}

/// Makes a per-replica value: one component for each replica.
///
/// @param[in] count How many components there are, 1 or more.
/// @param[in] components The components, each a tensor or indexed slices. They may differ in shape
///   and dtype. The value keeps them; the caller still releases its own handles.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `count` is less than 1, or a component is not a valid
///   handle or neither a tensor nor indexed slices.
#[c_call(out(value), handles(components, count))]
pub fn umbo_value_create_per_replica(
    count: i64,
    components: *const *const umbo_value,
    value: *mut *mut umbo_value,
) {
    value.write(make(Value::per_replica_of(components)?)?);
}
