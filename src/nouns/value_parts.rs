//! The components of a value: `umbo/value.h`.

use std::cell::RefCell;

use crate::machinery::prelude::*;
use umbo_core::strategy::variables;
use umbo_core::values::nest::NestKind;

/// The kinds of values.
pub type umbo_value_kind = i32;

/// A tensor.
pub const UMBO_VALUE_TENSOR: umbo_value_kind = 501;
/// One tensor, or indexed slices, for each replica.
pub const UMBO_VALUE_PER_REPLICA: umbo_value_kind = 502;
/// Values in order.
pub const UMBO_VALUE_TUPLE: umbo_value_kind = 503;
/// Values with names, in order.
pub const UMBO_VALUE_STRUCT: umbo_value_kind = 504;
/// A variable.
pub const UMBO_VALUE_VARIABLE: umbo_value_kind = 505;
/// Indexed slices: some rows of a tensor, by number.
pub const UMBO_VALUE_INDEXED_SLICES: umbo_value_kind = 506;
/// Values in order. A list is used like a tuple, but does not have the same structure.
pub const UMBO_VALUE_LIST: umbo_value_kind = 507;

pub(crate) fn nest_kind(kind: &NestKind) -> umbo_value_kind {
    match kind {
        NestKind::Tuple => UMBO_VALUE_TUPLE,
        NestKind::List => UMBO_VALUE_LIST,
        NestKind::Struct(_) => UMBO_VALUE_STRUCT,
    }
}

/// The tensor of a leaf.
fn leaf(value: &Value) -> Result<&Tensor> {
    let problem = match value {
        Value::Tensor(tensor) => return Ok(tensor),
        Value::PerReplica(_) => "is a per-replica value; take one component of it",
        Value::IndexedSlices(_) => "is indexed slices; take their values or their indices",
        Value::Variable(_) => "is a variable; umbo_variable_view shows its value",
        Value::Nest(nest) => &match nest.names() {
            Some(names) if !names.is_empty() => {
                let names: Vec<_> = names.iter().map(|name| format!("'{name}'")).collect();
                format!("is a struct of {}; name one tensor in it", names.join(", "))
            }
            _ => format!("is {}; name one tensor in it", nest.kind_name()),
        },
    };
    Err(Error::invalid("value", problem))
}

/// The kind and the components of a value. Start from UMBO_VALUE_INFO_INIT.
#[c_struct]
pub struct umbo_value_info {
    /// Its kind.
    pub kind: umbo_value_kind,
    /// The type of the elements of a tensor, a variable or indexed slices; else UMBO_DTYPE_NONE.
    pub dtype: umbo_dtype,
    /// The number of items, fields or components; 1 for a tensor, a variable or indexed slices.
    pub item_count: i64,
    /// The number of dimensions of a tensor or a variable, or of the tensor that indexed slices are
    /// rows of; else 0.
    pub ndim: i32,
    /// The size of each dimension; 0 from `ndim` on.
    pub shape: [i64; 8],
}

/// Gets what a value is.
#[c_call(result(info), borrow(value))]
pub fn umbo_value_get_info(value: *const umbo_value, info: *mut umbo_value_info) {
    let (kind, elements) = match value {
        Value::Tensor(tensor) => (UMBO_VALUE_TENSOR, Some((tensor.dtype(), tensor.shape()))),
        Value::Variable(variable) => (
            UMBO_VALUE_VARIABLE,
            Some((variable.dtype(), variable.shape())),
        ),
        Value::IndexedSlices(slices) => (
            UMBO_VALUE_INDEXED_SLICES,
            Some((slices.values().dtype(), slices.dense_shape())),
        ),
        Value::PerReplica(_) => (UMBO_VALUE_PER_REPLICA, None),
        Value::Nest(nest) => (nest_kind(nest.kind()), None),
    };
    let mut found = umbo_value_info {
        kind,
        dtype: UMBO_DTYPE_NONE,
        item_count: value.count() as i64,
        ..Default::default()
    };
    if let Some((dtype, shape)) = elements {
        found.dtype = dtype.to_c();
        found.ndim = shape.rank() as i32;
        found.shape = padded(shape.iter().map(|&size| size as i64));
    }
    info.write(found);
}

/// Gets a new handle to the item, field or component at a position.
///
/// @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: there is nothing at `index`. A tensor, a variable
///   and indexed slices have no items: UMBO_STATUS_INVALID_ARGUMENT.
#[c_call(out(item), index(index), borrow(value))]
pub fn umbo_value_item(value: *const umbo_value, index: i64, item: *mut *mut umbo_value) {
    item.write(make(value.item(index)?)?);
}

/// Gets a new handle to a field, by its name.
///
/// @param[in] name A name, a path such as "a.b", the field b of field a, or the decimal number of
///   an item of a tuple or a list. A field whose own name is "a.b" comes first.
/// @return UMBO_OK, or UMBO_STATUS_NOT_FOUND: no such field.
#[c_call(out(field), text(name), borrow(value))]
pub fn umbo_value_field(
    value: *const umbo_value,
    name: *const c_char,
    field: *mut *mut umbo_value,
) {
    field.write(make(value.at_path(name)?.clone())?);
}

/// Gets the name of a struct's field.
///
/// @param[out] name The name, which lives as long as the value.
/// @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: there is no field at `index`.
#[c_call(out(name), index(index), borrow(value))]
pub fn umbo_value_field_name(value: *const umbo_value, index: i64, name: *mut *const c_char) {
    let names = match value {
        Value::Nest(nest) => nest.names(),
        _ => None,
    };
    let names = names.ok_or_else(|| {
        let problem = format!("is {}; only a struct has field names", value.kind_name());
        Error::invalid("value", problem)
    })?;
    let fields = Listed {
        count: names.len(),
        elements: "the fields",
    };
    let found = at(index as i64, "index", fields, |index| names.get(index))?;
    name.write(found.as_c_str().as_ptr());
}

/// Gets a new handle to the tensor of a value that is a tensor.
#[c_call(out(tensor), borrow(value))]
pub fn umbo_value_tensor(value: *const umbo_value, tensor: *mut *mut umbo_tensor) {
    tensor.write(make(leaf(value)?.clone())?);
}

/// Gets a new handle to the variable of a value that is a variable.
#[c_call(out(variable), borrow(value))]
pub fn umbo_value_variable(value: *const umbo_value, variable: *mut *mut umbo_variable) {
    let Value::Variable(found) = value else {
        return Err(invalid!(
            "value",
            "is {}, not a variable",
            value.kind_name()
        ));
    };
    variable.write(make(found.clone())?);
}

/// Gets a view of a tensor in a value, for reading.
///
/// @param[in] name Which tensor, as for umbo_value_field(). `name` may be NULL: the value itself.
/// @param[in] dtype The type of its elements, as a check, or UMBO_DTYPE_NONE.
/// @param[out] view Valid as long as the tensor's memory; in a callback, until the callback
///   returns.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_NOT_FOUND: no such field.
/// - UMBO_STATUS_INVALID_ARGUMENT: it is not a tensor, or one of another dtype.
///
/// The memory of a batch is used again once nobody holds the batch. To use the view for longer than
/// the callback, retain the value, or its tensor (umbo_value_tensor()).
#[c_call(out(view), optional_text(name), borrow(value))]
pub fn umbo_value_view(
    value: *const umbo_value,
    name: *const c_char,
    dtype: umbo_dtype,
    view: *mut umbo_view,
) {
    let asked = dtype_or_any(dtype, "dtype")?;
    let tensor = leaf(name.map_or(Ok(value), |name| value.at_path(name))?)?;
    let found = tensor.dtype();
    if let Some(asked) = asked.filter(|asked| *asked != found) {
        let described = name.map_or("the value".to_owned(), |name| format!("'{name}'"));
        return Err(invalid!("dtype", "{asked}, but {described} is {found}"));
    }
    view.write(view_to_read(tensor));
}

/// Describes a value in words: dtype, shape, device and elements of each tensor, without the middle
/// of long axes.
///
/// @param[out] buffer The text. `buffer` may be NULL if `capacity` is 0.
/// @return As umbo_variable_read(), if the value contains a variable.
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
        read.map_err(|error| failure.borrow_mut().get_or_insert(error).status())
            .ok()
    };
    let text = value.text_with(&contents).to_string();
    failure.take().map_or(Ok(()), Err)?;
    buffer.write(&text, length)
}

/// Counts the examples of the global batch that a value holds.
///
/// @param[in] value An element of a distributed dataset, or a value that contains a per-replica
///   value.
/// @param[in] replica Whose part is counted, from 0, or UMBO_ALL.
/// @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such replica.
#[c_call(out(count), borrow(value))]
pub fn umbo_value_example_count(value: *const umbo_value, replica: i32, count: *mut i64) {
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
        Err(_) if i64::from(replica) == UMBO_ALL => 0..parts,
        _ => {
            let problem = format!(
                "{} is not in [0, {parts}), the replicas, nor {}",
                described(replica),
                described(UMBO_ALL)
            );
            return Err(Error::out_of_range("replica", problem));
        }
    };
    chosen
        .map(|replica| value.examples_of(replica))
        .sum::<Option<u64>>()
        .ok_or_else(|| invalid!("value", "it is not an element of a distributed dataset"))
}
