//! Values: nests of tensors and variables, per-replica values.

use crate::machinery::prelude::*;
use umbo_core::values::limits::MAX_NEST_DEPTH;

/// How deep tuples and structs may be nested, in a value or an element spec. A tuple of tensors has
/// depth 1. A nest also has at most 1,048,576 values, each counted as often as it appears. Deeper
/// or larger nests are UMBO_STATUS_INVALID_ARGUMENT.
pub const UMBO_MAX_NEST_DEPTH: i32 = 64;

const _: () = assert!(UMBO_MAX_NEST_DEPTH as usize == MAX_NEST_DEPTH);

/// Makes a value of a tensor, with which it shares memory.
#[c_call(out(value), get(tensor))]
pub fn umbo_value_from_tensor(tensor: *const umbo_tensor, value: *mut *mut umbo_value) {
    value.write(make(Value::Tensor(tensor))?);
}

/// Makes a value of a variable: of the variable itself, not of what it holds now.
#[c_call(out(value), get(variable))]
pub fn umbo_value_from_variable(variable: *const umbo_variable, value: *mut *mut umbo_value) {
    value.write(make(Value::Variable(variable))?);
}

/// Makes a tuple of values.
#[c_call(out(value), handles(items, count))]
pub fn umbo_value_create_tuple(
    count: i64,
    items: *const *mut umbo_value,
    value: *mut *mut umbo_value,
) {
    value.write(make(Value::tuple(items)?)?);
}

/// Makes a struct of values.
///
/// @param[in] names The names of the fields, all different.
#[c_call(out(value), array(names, count), array(items, count))]
pub fn umbo_value_create_struct(
    count: i64,
    names: *const *const c_char,
    items: *const *mut umbo_value,
    value: *mut *mut umbo_value,
) {
    let fields = names.iter().zip(items).map(|(&name, &item)| {
        // SAFETY: the caller promises that each name is NULL or a text.
        let name = unsafe { text(name, "names") }?;
        Ok((name.into(), get(item, "items")?))
    });
    let fields = collect(fields, "items")?;
    value.write(make(Value::structure(fields)?)?);
}

/// Makes a per-replica value.
///
/// @param[in] count How many components there are, 1 or more.
/// @param[in] components Tensors or indexed slices. They may differ in shape and dtype.
#[c_call(out(value), handles(components, count))]
pub fn umbo_value_create_per_replica(
    count: i64,
    components: *const *mut umbo_value,
    value: *mut *mut umbo_value,
) {
    value.write(make(Value::per_replica_of(components)?)?);
}
