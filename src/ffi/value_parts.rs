//! What is in a value: `umbo/value.h`.

use std::cell::RefCell;

use super::prelude::*;
use crate::strategy::variables;

/// What a value is.
pub type umbo_value_kind = i32;

/// A tensor.
pub const UMBO_VALUE_TENSOR: umbo_value_kind = 1;
/// One tensor, or indexed slices, for each replica.
pub const UMBO_VALUE_PER_REPLICA: umbo_value_kind = 2;
/// Values in order.
pub const UMBO_VALUE_TUPLE: umbo_value_kind = 3;
/// Values with names, in order.
pub const UMBO_VALUE_STRUCT: umbo_value_kind = 4;
/// A variable.
pub const UMBO_VALUE_VARIABLE: umbo_value_kind = 5;
/// Indexed slices: some rows of a tensor, by number.
pub const UMBO_VALUE_INDEXED_SLICES: umbo_value_kind = 6;
/// Values in order, as in a tuple, but a nest of another kind: a list and a tuple do not have the same
/// structure.
pub const UMBO_VALUE_LIST: umbo_value_kind = 7;

/// The tensor of a leaf.
fn leaf(value: &Value) -> Result<&Tensor> {
    let problem = match value {
        Value::Tensor(tensor) => return Ok(tensor),
        Value::PerReplica(_) => "is a per-replica value; take one component of it",
        Value::IndexedSlices(_) => "is indexed slices; take their values or their indices",
        Value::Variable(_) => "is a variable; umbo_variable_view shows its value",
        Value::Tuple(_) => "is a tuple; name one tensor in it",
        Value::List(_) => "is a list; name one tensor in it",
        Value::Struct(_) => "is a struct; name one tensor in it",
    };
    Err(Error::invalid("value", problem))
}

/// Tells what a value is: a tensor, a tuple and so on.
///
/// @param[out] kind One of the `UMBO_VALUE_` constants.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `value` is not a valid handle, or `kind` is a null
///   pointer.
#[c_call(out(kind), borrow(value))]
pub fn umbo_value_get_kind(value: *const umbo_value, kind: *mut umbo_value_kind) {
    kind.write(match value {
        Value::Tensor(_) => UMBO_VALUE_TENSOR,
        Value::PerReplica(_) => UMBO_VALUE_PER_REPLICA,
        Value::Tuple(_) => UMBO_VALUE_TUPLE,
        Value::List(_) => UMBO_VALUE_LIST,
        Value::Struct(_) => UMBO_VALUE_STRUCT,
        Value::Variable(_) => UMBO_VALUE_VARIABLE,
        Value::IndexedSlices(_) => UMBO_VALUE_INDEXED_SLICES,
    });
}

/// Counts the items, fields or components of a value.
///
/// @param[out] count How many there are; 1 for a tensor, indexed slices or a variable.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `value` is not a valid handle, or `count` is a null
///   pointer.
#[c_call(out(count), borrow(value))]
pub fn umbo_value_count(value: *const umbo_value, count: *mut i64) {
    count.write(value.count() as i64);
}

/// Gives the item, field or component at a position.
///
/// @param[in] value A tuple, a list, a struct or a per-replica value.
/// @param[in] index The position, from 0 on.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_OUT_OF_RANGE: there is nothing at `index`.
/// - UMBO_STATUS_INVALID_ARGUMENT: `value` is a tensor, indexed slices or a variable, or is not a
///   valid handle.
#[c_call(out(item), index(index), borrow(value))]
pub fn umbo_value_item(value: *const umbo_value, index: i64, item: *mut *mut umbo_value) {
    item.write(make(value.item(index)?)?);
}

/// Gives the field of a struct by its name.
///
/// @param[in] name The name. In "a.b", b is a field of field a, unless there is a field "a.b": the longest name
///   counts. A decimal number without sign and leading zeros is an item of a tuple or a list.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_NOT_FOUND: there is no such field.
/// - UMBO_STATUS_INVALID_ARGUMENT: `value` is not a valid handle, or `name` or `field` is a null
///   pointer.
#[c_call(out(field), text(name), borrow(value))]
pub fn umbo_value_field(
    value: *const umbo_value,
    name: *const c_char,
    field: *mut *mut umbo_value,
) {
    field.write(make(value.at_path(name)?.clone())?);
}

/// Gives the name of the field of a struct at a position.
///
/// @param[in] value A struct.
/// @param[in] index The position, from 0 on.
/// @param[out] name The name, a text that lives as long as the value.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_OUT_OF_RANGE: there is no field at `index`.
/// - UMBO_STATUS_INVALID_ARGUMENT: `value` is not a struct, or is not a valid handle, or `name` is
///   a null pointer.
#[c_call(out(name), index(index), borrow(value))]
pub fn umbo_value_field_name(value: *const umbo_value, index: i64, name: *mut *const c_char) {
    let Value::Struct(fields) = value else {
        let problem = format!("is {}; only a struct has field names", value.kind_name());
        return Err(Error::invalid("value", problem));
    };
    let fields_there = (fields.len(), "the fields");
    let (field, _) = at(index as i64, "index", fields_there, |index| fields.get(index))?;
    name.write(field.as_c_str().as_ptr());
}

/// Gives the tensor of a value that is a tensor.
///
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `value` is not a tensor, or is not a valid handle.
#[c_call(out(tensor), borrow(value))]
pub fn umbo_value_tensor(value: *const umbo_value, tensor: *mut *mut umbo_tensor) {
    tensor.write(make(leaf(value)?.clone())?);
}

/// Gives the variable of a value that is a variable.
///
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `value` is not a variable, or is not a valid handle.
#[c_call(out(variable), borrow(value))]
pub fn umbo_value_variable(value: *const umbo_value, variable: *mut *mut umbo_variable) {
    let Value::Variable(found) = value else {
        let problem = format!("is {}, not a variable", value.kind_name());
        return Err(Error::invalid("value", problem));
    };
    variable.write(make(found.clone())?);
}

/// Gives a view of a tensor in a value, for reading only.
///
/// @param[in] name Which tensor: "x" is a field, "a.b" a field of a field, "0" the item of a tuple, as of
///   umbo_value_field(). `name` may be NULL: the value itself.
/// @param[out] view Where the elements are. It is valid as long as the tensor's memory; in a
///   callback, until the callback returns.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_NOT_FOUND: there is nothing of this name.
/// - UMBO_STATUS_INVALID_ARGUMENT: what has this name is not a tensor, `value` is not a valid
///   handle, or `view` is a null pointer.
///
/// The memory of a batch serves a later one once nobody holds the batch. Whoever keeps the view for longer
/// than the callback, such as a tensor of an engine that is made over it, holds the value (umbo_value_retain())
/// or its tensor (umbo_value_tensor()) for as long.
#[c_call(out(view), optional_text(name), borrow(value))]
pub fn umbo_value_view(value: *const umbo_value, name: *const c_char, view: *mut umbo_view) {
    let named = name.map_or(Ok(value), |name| value.at_path(name))?;
    view.write(view_to_read(leaf(named)?));
}

/// Writes a value in words: dtype, shape, device and elements.
///
/// @param[out] buffer The text, ended by a NUL. `buffer` may be NULL if `capacity` is 0.
/// @param[in] capacity The size of `buffer` in bytes.
/// @param[out] length The length of the text in bytes, without the NUL.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_OUT_OF_RANGE: `capacity` is too small. `buffer` is not written, but `length` is.
/// - UMBO_STATUS_INVALID_ARGUMENT: `value` is not a valid handle, or an output is a null pointer.
/// - Any status of umbo_variable_read(), if the value contains a variable.
///
/// The text describes each tensor in the value. The middle of a long axis is left out.
#[c_call(out(length), buffer(buffer, capacity), get(value))]
pub fn umbo_value_text(
    value: *const umbo_value,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) {
    let failure = RefCell::new(None);
    let contents = |variable: &Variable| {
        let read = variables::read(variable);
        read.map_err(|error| failure.borrow_mut().get_or_insert(error).status()).ok()
    };
    let text = value.text_with(&contents).to_string();
    failure.take().map_or(Ok(()), Err)?;
    buffer.write(&text, length)
}

/// Tells how many examples of the global batch a value holds.
///
/// @param[in] value An element of a distributed dataset, or a value that has a per-replica value in
///   it.
/// @param[in] replica Whose part is counted, from 0 on; -1 counts all parts together.
/// @param[out] count How many examples there are.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_OUT_OF_RANGE: there is no such replica.
/// - UMBO_STATUS_INVALID_ARGUMENT: `value` is not an element of a distributed dataset and has no
///   per-replica value in it, is not a valid handle, or `count` is a null pointer.
#[c_call(out(count), borrow(value))]
pub fn umbo_value_examples(value: *const umbo_value, replica: i32, count: *mut i64) {
    count.write(examples(value, replica)? as i64);
}

fn examples(value: &Value, replica: i32) -> Result<u64> {
    let parts = value.find_leaf(&mut |leaf| match leaf {
        Value::PerReplica(components) => Some(components.count()),
        _ => None,
    });
    let parts = parts.unwrap_or(1);
    let chosen = match usize::try_from(replica) {
        Ok(replica) if replica < parts => replica..replica + 1,
        Err(_) if replica == -1 => 0..parts,
        _ => {
            let problem =
                format!("{replica} is not in [0, {parts}), the replicas, nor -1, for all");
            return Err(Error::out_of_range("replica", problem));
        }
    };
    chosen
        .map(|replica| value.examples_of(replica))
        .sum::<Option<u64>>()
        .ok_or_else(|| Error::invalid("value", "it is not an element of a distributed dataset"))
}
