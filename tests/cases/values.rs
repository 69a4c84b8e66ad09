//! Values of the library: made, taken apart, looked into.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::ptr;
use std::sync::Arc;

use umbo::*;

use crate::environment::Bound;
use crate::failure::{Result, wrong};
use crate::handle::{Handle, Value, c_text, made, read, read_text};
use crate::literal::{Dtype, Literal};
use crate::outcome::Outcome;

/// An empty view, to be filled.
fn empty_view() -> umbo_view {
    // SAFETY: all bytes zero is a value of the struct.
    unsafe { std::mem::zeroed() }
}

fn info(value: &Handle<umbo_value>) -> Result<umbo_value_info> {
    // SAFETY: the output is a variable.
    read(umbo_value_info::default(), |info| unsafe {
        umbo_value_get_info(value.get(), info)
    })
}

/// What kind of value it is.
pub fn kind(value: &Handle<umbo_value>) -> Result<umbo_value_kind> {
    Ok(info(value)?.kind)
}

/// How many items it has.
pub fn count(value: &Handle<umbo_value>) -> Result<i64> {
    Ok(info(value)?.item_count)
}

/// An item, field or component by position.
pub fn item(value: &Handle<umbo_value>, index: i64) -> Result<Handle<umbo_value>> {
    // SAFETY: the output is a variable.
    made(|item| unsafe { umbo_value_item(value.get(), index, item) })
}

/// All items, fields or components.
pub fn items(value: &Handle<umbo_value>) -> Result<Vec<Handle<umbo_value>>> {
    (0..count(value)?).map(|index| item(value, index)).collect()
}

/// The name of a field.
pub fn field_name(value: &Handle<umbo_value>, index: i64) -> Result<String> {
    // SAFETY: the output is a variable.
    read_text(|name| unsafe { umbo_value_field_name(value.get(), index, name) })
}

/// The tensor of a value that is one.
pub fn tensor(value: &Handle<umbo_value>) -> Result<Handle<umbo_tensor>> {
    // SAFETY: the output is a variable.
    made(|tensor| unsafe { umbo_value_tensor(value.get(), tensor) })
}

/// What a variable is.
pub fn variable_info(variable: &Handle<umbo_variable>) -> Result<umbo_variable_info> {
    // SAFETY: the output is a variable.
    read(umbo_variable_info::default(), |info| unsafe {
        umbo_variable_get_info(variable.get(), info)
    })
}

/// The variable of a value that is one.
pub fn variable(value: &Handle<umbo_value>) -> Result<Handle<umbo_variable>> {
    // SAFETY: the output is a variable.
    made(|variable| unsafe { umbo_value_variable(value.get(), variable) })
}

/// The value that is this tensor.
pub fn from_tensor(tensor: &Handle<umbo_tensor>) -> Result<Handle<umbo_value>> {
    // SAFETY: the output is a variable.
    made(|value| unsafe { umbo_value_from_tensor(tensor.get(), value) })
}

/// The value that is this variable.
pub fn from_variable(variable: *const umbo_variable) -> Result<Handle<umbo_value>> {
    // SAFETY: the output is a variable.
    made(|value| unsafe { umbo_value_from_variable(variable, value) })
}

fn pointers(items: &[Value]) -> Vec<*mut umbo_value> {
    items.iter().map(|item| item.get()).collect()
}

/// A tuple of values.
pub fn tuple(items: &[Value]) -> Result<Handle<umbo_value>> {
    let items = pointers(items);
    // SAFETY: the array has as many handles as stated, the output is a variable.
    made(|value| unsafe { umbo_value_create_tuple(items.len() as i64, items.as_ptr(), value) })
}

/// A list of values.
pub fn list(items: &[Value]) -> Result<Handle<umbo_value>> {
    let items = pointers(items);
    // SAFETY: the array has as many handles as stated, the output is a variable.
    made(|value| unsafe { umbo_value_create_list(items.len() as i64, items.as_ptr(), value) })
}

/// A struct of values.
pub fn structure(fields: &[(String, Value)]) -> Result<Handle<umbo_value>> {
    let texts = fields
        .iter()
        .map(|(name, _)| c_text(name))
        .collect::<Result<Vec<CString>>>()?;
    let names: Vec<_> = texts.iter().map(|name| name.as_ptr()).collect();
    let items: Vec<_> = fields.iter().map(|(_, item)| item.get()).collect();
    // SAFETY: both arrays are as long as stated, the output is a variable.
    made(|value| unsafe {
        umbo_value_create_struct(items.len() as i64, names.as_ptr(), items.as_ptr(), value)
    })
}

/// A per-replica value.
pub fn per_replica(components: &[Value]) -> Result<Handle<umbo_value>> {
    let items = pointers(components);
    // SAFETY: the array has as many handles as stated, the output is a variable.
    made(|value| unsafe {
        umbo_value_create_per_replica(items.len() as i64, items.as_ptr(), value)
    })
}

/// Whether there is a per-replica value in it.
pub fn has_per_replica(value: &Handle<umbo_value>) -> Result<bool> {
    match kind(value)? {
        UMBO_VALUE_PER_REPLICA => Ok(true),
        UMBO_VALUE_TUPLE | UMBO_VALUE_LIST | UMBO_VALUE_STRUCT => items(value)?
            .iter()
            .try_fold(false, |any, item| Ok(any || has_per_replica(item)?)),
        _ => Ok(false),
    }
}

/// The nest in which `leaf` has replaced the leaves; per-replica values are leaves.
pub fn map_leaves(
    value: &Handle<umbo_value>,
    leaf: &impl Fn(&Handle<umbo_value>) -> Result<Handle<umbo_value>>,
) -> Result<Handle<umbo_value>> {
    let mapped = || -> Result<Vec<Value>> {
        items(value)?
            .iter()
            .map(|item| map_leaves(item, leaf).map(Arc::new))
            .collect()
    };
    match kind(value)? {
        UMBO_VALUE_TUPLE => tuple(&mapped()?),
        UMBO_VALUE_LIST => list(&mapped()?),
        UMBO_VALUE_STRUCT => {
            let names = (0..count(value)?).map(|index| field_name(value, index));
            let names = names.collect::<Result<Vec<_>>>()?;
            structure(&names.into_iter().zip(mapped()?).collect::<Vec<_>>())
        }
        _ => leaf(value),
    }
}

/// A new handle to the same object.
pub fn clone(value: &Handle<umbo_value>) -> Result<Handle<umbo_value>> {
    // SAFETY: the output is a variable.
    made(|clone: *mut *mut umbo_value| unsafe {
        umbo_retain(value.get().cast(), UMBO_HANDLE_VALUE, clone.cast())
    })
}

/// The device that a replica's literals are made on: that of the context this thread is in.
pub fn current_device() -> Result<Option<CString>> {
    // SAFETY: the output is a variable.
    let context = read(ptr::null_mut(), |context| unsafe {
        umbo_replica_context_current(context)
    })?;
    if context.is_null() {
        return Ok(None);
    }
    // SAFETY: the name lives as long as the process.
    Ok(Some(
        unsafe { CStr::from_ptr(context_info(context)?.device) }.to_owned(),
    ))
}

/// What a replica's context says.
pub fn context_info(context: *mut umbo_replica_context) -> Result<umbo_replica_context_info> {
    // SAFETY: the context is this thread's, the output is a variable.
    read(Default::default(), |info| unsafe {
        umbo_replica_context_get_info(context, info)
    })
}

/// Makes the tensor of a literal on a device; None means CPU:0.
pub fn make_on(literal: &Literal, device: Option<&CString>) -> Result<Handle<umbo_value>> {
    let memory = literal.memory();
    let device = device.map_or(ptr::null(), |name| name.as_ptr());
    let ndim = literal.shape.len() as i32;
    let shape = literal.shape.as_ptr();
    // SAFETY: the memory holds the elements of the shape, whose length is the rank; the output is
    // a variable.
    let tensor = made(|tensor| unsafe {
        let data = memory.as_ptr().cast();
        umbo_tensor_from_data(literal.dtype.code, ndim, shape, data, device, tensor)
    })?;
    from_tensor(&tensor)
}

/// Makes the tensor of a literal where this thread computes.
pub fn make(literal: &Literal) -> Result<Handle<umbo_value>> {
    make_on(literal, current_device()?.as_ref())
}

fn view(tensor: &Handle<umbo_tensor>) -> Result<umbo_view> {
    // SAFETY: the output is a variable.
    read(empty_view(), |view| unsafe {
        umbo_tensor_view(tensor.get(), view)
    })
}

/// The canonical name of the device that has the elements of a tensor.
pub fn device_name(tensor: &Handle<umbo_tensor>) -> Result<String> {
    let device = view(tensor)?.device;
    let kind = if device.r#type == UMBO_DEVICE_GPU {
        "GPU"
    } else {
        "CPU"
    };
    let name = c_text(&format!("{kind}:{}", device.ordinal))?;
    let mut info = umbo_device_info::default();
    read_text(|place| {
        // SAFETY: the name is a text, the outputs are variables.
        unsafe {
            let status = umbo_device_get_info(name.as_ptr(), &raw mut info);
            place.write(info.name);
            status
        }
    })
}

/// The type, shape and elements of a tensor, read through the library.
pub fn read_tensor(tensor: &Handle<umbo_tensor>) -> Result<Literal> {
    let view = view(tensor)?;
    let dtype = Dtype::of_code(view.dtype)?;
    let shape = view.shape[..view.ndim as usize].to_vec();
    let bytes = shape.iter().product::<i64>() as usize * dtype.size;
    let mut memory = vec![0u64; bytes.div_ceil(8)];
    // SAFETY: the memory has at least the bytes stated.
    crate::failure::check(unsafe {
        umbo_tensor_download(tensor.get(), memory.as_mut_ptr().cast(), bytes)
    })?;
    Ok(Literal::from_memory(dtype, shape, &memory))
}

/// The literal of a value that is a tensor.
pub fn literal(value: &Handle<umbo_value>) -> Result<Literal> {
    read_tensor(&tensor(value)?)
}

/// What a variable holds now.
pub fn variable_now(value: &Handle<umbo_value>) -> Result<Handle<umbo_tensor>> {
    let variable = variable(value)?;
    // SAFETY: the output is a variable.
    made(|tensor| unsafe { umbo_variable_read(variable.get(), tensor) })
}

/// What a value is, in the form of an expectation.
pub fn outcome(value: &Handle<umbo_value>) -> Result<Outcome> {
    let all = || {
        items(value)?
            .iter()
            .map(outcome)
            .collect::<Result<Vec<_>>>()
    };
    Ok(match kind(value)? {
        UMBO_VALUE_TENSOR => Outcome::Tensor(literal(value)?),
        UMBO_VALUE_PER_REPLICA => Outcome::PerReplica(all()?),
        UMBO_VALUE_TUPLE => Outcome::Tuple(all()?),
        UMBO_VALUE_LIST => Outcome::ListNest(all()?),
        UMBO_VALUE_VARIABLE => Outcome::Variable(read_tensor(&variable_now(value)?)?),
        UMBO_VALUE_STRUCT => {
            let names = (0..count(value)?).map(|index| field_name(value, index));
            let names = names.collect::<Result<Vec<_>>>()?;
            Outcome::Struct(names.into_iter().zip(all()?).collect::<BTreeMap<_, _>>())
        }
        UMBO_VALUE_INDEXED_SLICES => {
            let mut indices = ptr::null_mut();
            // SAFETY: the outputs are variables.
            let values = made(|values| unsafe {
                umbo_value_indexed_slices(value.get(), values, &raw mut indices)
            })?;
            let indices = Handle::own(indices);
            let info = info(value)?;
            Outcome::IndexedSlices {
                values: read_tensor(&values)?,
                indices: read_tensor(&indices)?,
                dense_shape: info.shape[..info.ndim as usize].to_vec(),
            }
        }
        other => return wrong(format!("the library gave a value of kind {other}")),
    })
}

/// The name of the compute device of a replica.
pub fn compute_device(strategy: &Handle<umbo_strategy>, replica: i32) -> Result<String> {
    // SAFETY: the output is a variable.
    read_text(|name| unsafe { umbo_strategy_compute_device(strategy.get(), replica, name) })
}

/// A scalar as a bound value, made where this thread computes.
pub fn fact(literal: Result<Literal>) -> Result<Bound> {
    Ok(Bound::Value(Arc::new(make(&literal?)?)))
}
