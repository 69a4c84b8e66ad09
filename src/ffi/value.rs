//! Values: nests of tensors and variables, per-replica values.

use std::cell::RefCell;
use std::ffi::c_char;

use super::boundary::{array, boundary, check, collect, out, quietly};
use super::handle::{self, borrow, get, make};
use super::object::{umbo_tensor, umbo_value, umbo_variable};
use super::status::umbo_status;
use super::tensor::{umbo_view, view_to_read};
use super::text::{optional_text, text, write_text};
use crate::error::{Error, Result};
use crate::memory;
use crate::strategy::variables;
use crate::tensor::Tensor;
use crate::values::Value;
use crate::values::limits::MAX_NEST_DEPTH;
use crate::values::variable::Variable;

/// What a value is.
pub type umbo_value_kind = i32;

/// A tensor.
pub const UMBO_VALUE_TENSOR: umbo_value_kind = 1;
/// One tensor, or indexed slices, per replica.
pub const UMBO_VALUE_PER_REPLICA: umbo_value_kind = 2;
/// Values in order.
pub const UMBO_VALUE_TUPLE: umbo_value_kind = 3;
/// Values with names, in order.
pub const UMBO_VALUE_STRUCT: umbo_value_kind = 4;
/// A variable.
pub const UMBO_VALUE_VARIABLE: umbo_value_kind = 5;
/// Indexed slices: some rows of a tensor, by number.
pub const UMBO_VALUE_INDEXED_SLICES: umbo_value_kind = 6;

/// The most tuples and structs that may lie in one another, in a value or an element spec: a tuple of
/// tensors has depth 1. A nest also consists of at most 1,048,576 values, each counted as often as it
/// appears. The functions that would build another nest fail with INVALID_ARGUMENT.
pub const UMBO_MAX_NEST_DEPTH: i32 = 64;

const _: () = assert!(UMBO_MAX_NEST_DEPTH as usize == MAX_NEST_DEPTH);

/// The tensor of a leaf.
fn leaf(value: &Value) -> Result<&Tensor> {
    let problem = match value {
        Value::Tensor(tensor) => return Ok(tensor),
        Value::PerReplica(_) => "is a per-replica value; take one component of it",
        Value::IndexedSlices(_) => "is indexed slices; take their values or their indices",
        Value::Variable(_) => "is a variable; umbo_variable_view shows its value",
        Value::Tuple(_) => "is a tuple; name one tensor in it",
        Value::Struct(_) => "is a struct; name one tensor in it",
    };
    Err(Error::invalid("value", problem))
}

/// An index argument.
pub(super) fn index_from(index: i64) -> Result<usize> {
    usize::try_from(index)
        .map_err(|_| Error::out_of_range("index", format!("{index}; indices are 0 or more")))
}

/// A value that is a tensor: the same object, so that the value and the tensor share memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_value_from_tensor(
    tensor: *const umbo_tensor,
    value: *mut *mut umbo_value,
) -> umbo_status {
    boundary("umbo_value_from_tensor", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let value = unsafe { out(value, "value") }?;
        value.write(make(Value::Tensor(get(tensor, "tensor")?))?);
        Ok(())
    })
}

/// A value that is a variable, passed as itself and not as what it holds now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_value_from_variable(
    variable: *const umbo_variable,
    value: *mut *mut umbo_value,
) -> umbo_status {
    boundary("umbo_value_from_variable", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let value = unsafe { out(value, "value") }?;
        value.write(make(Value::Variable(get(variable, "variable")?))?);
        Ok(())
    })
}

/// A nest, once memory is set aside for lists of its leaves.
fn with_room(nest: Value) -> Result<Value> {
    memory::provide(nest.leaves())?;
    Ok(nest)
}

/// A tuple of `count` values. The items stay the caller's to release. INVALID_ARGUMENT if it would be
/// deeper than UMBO_MAX_NEST_DEPTH.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_value_create_tuple(
    count: i64,
    items: *const *const umbo_value,
    value: *mut *mut umbo_value,
) -> umbo_status {
    boundary("umbo_value_create_tuple", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (value, items) = unsafe { (out(value, "value")?, array(items, count, "items")?) };
        let items = collect(items.iter().map(|&item| get(item, "items")))?;
        value.write(make(with_room(Value::tuple(items)?)?)?);
        Ok(())
    })
}

/// A struct of `count` values with names, which must differ. Names are copied; the items stay the
/// caller's to release. INVALID_ARGUMENT also if it would be deeper than UMBO_MAX_NEST_DEPTH.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_value_create_struct(
    count: i64,
    names: *const *const c_char,
    items: *const *const umbo_value,
    value: *mut *mut umbo_value,
) -> umbo_status {
    boundary("umbo_value_create_struct", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (value, names, items) = unsafe {
            (out(value, "value")?, array(names, count, "names")?, array(items, count, "items")?)
        };
        let fields = collect(names.iter().zip(items).map(|(&name, &item)| {
            // SAFETY: the caller promises that each name is NULL or a text.
            let name = unsafe { text(name, "names") }?;
            Ok((name.into(), get(item, "items")?))
        }))?;
        value.write(make(with_room(Value::structure(fields)?)?)?);
        Ok(())
    })
}

/// A per-replica value: one component per replica, each of them a tensor or indexed slices. The
/// components need not agree in anything. They stay the caller's to release.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_value_create_per_replica(
    count: i64,
    components: *const *const umbo_value,
    value: *mut *mut umbo_value,
) -> umbo_status {
    boundary("umbo_value_create_per_replica", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (value, components) =
            unsafe { (out(value, "value")?, array(components, count, "components")?) };
        let components = collect(components.iter().map(|&component| get(component, "components")))?;
        value.write(make(Value::per_replica_of(components)?)?);
        Ok(())
    })
}

/// What the value is: one of the `UMBO_VALUE_` constants.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_value_get_kind(
    value: *const umbo_value,
    kind: *mut umbo_value_kind,
) -> umbo_status {
    boundary("umbo_value_get_kind", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let kind = unsafe { out(kind, "kind") }?;
        kind.write(borrow(value, "value", |value| match value {
            Value::Tensor(_) => UMBO_VALUE_TENSOR,
            Value::PerReplica(_) => UMBO_VALUE_PER_REPLICA,
            Value::Tuple(_) => UMBO_VALUE_TUPLE,
            Value::Struct(_) => UMBO_VALUE_STRUCT,
            Value::Variable(_) => UMBO_VALUE_VARIABLE,
            Value::IndexedSlices(_) => UMBO_VALUE_INDEXED_SLICES,
        })?);
        Ok(())
    })
}

/// How many items, fields or components there are; 1 for a tensor, indexed slices or a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_value_count(
    value: *const umbo_value,
    count: *mut i64,
) -> umbo_status {
    boundary("umbo_value_count", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let count = unsafe { out(count, "count") }?;
        count.write(borrow(value, "value", Value::count)? as i64);
        Ok(())
    })
}

/// The item of a tuple, the field of a struct by position, or the component of a per-replica
/// value: the same object, a new handle. OUT_OF_RANGE if there is none at `index`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_value_item(
    value: *const umbo_value,
    index: i64,
    item: *mut *mut umbo_value,
) -> umbo_status {
    boundary("umbo_value_item", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let item = unsafe { out(item, "item") }?;
        let index = index_from(index)?;
        item.write(make(borrow(value, "value", |value| value.item(index))??)?);
        Ok(())
    })
}

/// The field `name` of a struct; "a.b" is field b of field a, and a number is the item of a tuple.
/// The same object, a new handle. NOT_FOUND if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_value_field(
    value: *const umbo_value,
    name: *const c_char,
    field: *mut *mut umbo_value,
) -> umbo_status {
    boundary("umbo_value_field", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (field, name) = unsafe { (out(field, "field")?, text(name, "name")?) };
        field.write(make(borrow(value, "value", |value| value.at_path(name).cloned())??)?);
        Ok(())
    })
}

/// The name of the field of a struct at `index`. Lives as long as the value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_value_field_name(
    value: *const umbo_value,
    index: i64,
    name: *mut *const c_char,
) -> umbo_status {
    boundary("umbo_value_field_name", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let name = unsafe { out(name, "name") }?;
        let index = index_from(index)?;
        name.write(borrow(value, "value", |value| {
            let Value::Struct(fields) = value else {
                let problem = format!("is {}; only a struct has field names", value.kind_name());
                return Err(Error::invalid("value", problem));
            };
            let (field, _) = fields.get(index).ok_or_else(|| {
                let problem = format!("{index} is not in [0, {}), the fields", fields.len());
                Error::out_of_range("index", problem)
            })?;
            Ok(field.as_c_str().as_ptr())
        })??);
        Ok(())
    })
}

/// The tensor of a value that is one: the same object, a new handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_value_tensor(
    value: *const umbo_value,
    tensor: *mut *mut umbo_tensor,
) -> umbo_status {
    boundary("umbo_value_tensor", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let tensor = unsafe { out(tensor, "tensor") }?;
        tensor.write(make(borrow(value, "value", |value| leaf(value).cloned())??)?);
        Ok(())
    })
}

/// The variable of a value that is one: the same variable, a new handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_value_variable(
    value: *const umbo_value,
    variable: *mut *mut umbo_variable,
) -> umbo_status {
    boundary("umbo_value_variable", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let variable = unsafe { out(variable, "variable") }?;
        let object = borrow(value, "value", |value| match value {
            Value::Variable(variable) => Ok(variable.clone()),
            other => {
                let problem = format!("is {}, not a variable", other.kind_name());
                Err(Error::invalid("value", problem))
            }
        })??;
        variable.write(make(object)?);
        Ok(())
    })
}

/// Where the elements of a tensor in the value lie. `name` is NULL for the value itself, "x" for a
/// field, "a.b" for a field of a field, "0" for the item of a tuple. NOT_FOUND if there is none.
///
/// The view is valid as long as the tensor's memory; in a callback, as long as the callback.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_value_view(
    value: *const umbo_value,
    name: *const c_char,
    view: *mut umbo_view,
) -> umbo_status {
    boundary("umbo_value_view", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (view, name) = unsafe { (out(view, "view")?, optional_text(name, "name")?) };
        view.write(borrow(value, "value", |value| {
            value.at_path(name.unwrap_or_default()).and_then(leaf).map(view_to_read)
        })??);
        Ok(())
    })
}

/// The value in words: dtype, shape, device and elements of each tensor in it, the middle of long
/// axes left out. Variables are read as by umbo_variable_read().
///
/// `length` gets the length without the NUL, also if `capacity`, the size of `buffer` in bytes, is
/// not enough: then the result is OUT_OF_RANGE and `buffer`, which may be NULL if `capacity` is 0,
/// is not written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_value_text(
    value: *const umbo_value,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> umbo_status {
    boundary("umbo_value_text", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let length = unsafe { out(length, "length") }?;
        if capacity > 0 {
            check(buffer.cast_const(), "buffer", "room for the text is expected")?;
        }
        let failure = RefCell::new(None);
        let contents = |variable: &Variable| {
            let read = variables::read(variable);
            read.map_err(|error| failure.borrow_mut().get_or_insert(error).status()).ok()
        };
        let text = get(value, "value")?.text_with(&contents).to_string();
        failure.take().map_or(Ok(()), Err)?;
        // SAFETY: the caller promises `capacity` bytes, and NULL goes with none.
        unsafe { write_text(&text, buffer, capacity, length) }
    })
}

/// How many examples of the global batch an element of a distributed dataset holds: the part of
/// `replica`, or all parts together if `replica` is -1. INVALID_ARGUMENT for a value that is not
/// such an element and has no per-replica value in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_value_examples(
    value: *const umbo_value,
    replica: i32,
    count: *mut i64,
) -> umbo_status {
    boundary("umbo_value_examples", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let count = unsafe { out(count, "count") }?;
        count.write(borrow(value, "value", |value| examples(value, replica))?? as i64);
        Ok(())
    })
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

/// Another handle to the same object, to be released like the first; also of what a callback was
/// only lent, which then stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_value_retain(
    value: *const umbo_value,
    retained: *mut *mut umbo_value,
) -> umbo_status {
    boundary("umbo_value_retain", || {
        // SAFETY: the caller gives NULL or a place for the output.
        unsafe { handle::retain(value, "value", retained) }
    })
}

/// Releases a reference. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_value_release(value: *const umbo_value) {
    quietly("umbo_value_release", || handle::release(value, "value"));
}
