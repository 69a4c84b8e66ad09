//! What the elements of datasets look like.

use super::prelude::*;
use crate::input::{ElementSpec, LeafSpec};
use crate::tensor::MAX_RANK;

/// The size of a dimension in which elements may differ.
pub const UMBO_SIZE_UNKNOWN: i64 = -1;

/// A spec of one's own.
pub(crate) fn spec(spec: *const umbo_element_spec, argument: &'static str) -> Result<ElementSpec> {
    borrow(spec, argument, |spec| ElementSpec::clone(spec))
}

/// A spec in options, which may be NULL.
pub(super) fn optional_spec(spec: *const umbo_element_spec) -> Result<Option<ElementSpec>> {
    Ok(get_optional(spec, "options.element_spec")?.map(Arc::unwrap_or_clone))
}

/// Makes the spec of a tensor.
///
/// @param[in] dtype The type of the tensor's elements.
/// @param[in] rank The number of dimensions, 0 to UMBO_MAX_RANK.
/// @param[in] shape The size of each dimension; UMBO_SIZE_UNKNOWN where elements may differ.
///   `shape` may be NULL if `rank` is 0.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `dtype` is none of the types, or `rank` or a size is out
///   of its limits.
#[c_call(out(spec), array(shape, rank), dtype(dtype))]
pub fn umbo_element_spec_create_tensor(
    dtype: umbo_dtype,
    rank: i32,
    shape: *const i64,
    spec: *mut *mut umbo_element_spec,
) {
    if shape.len() > MAX_RANK {
        let problem = format!("{rank}; at most {MAX_RANK} is supported");
        return Err(Error::invalid("rank", problem));
    }
    let shape = collect(shape.iter().map(|&size| match size {
        UMBO_SIZE_UNKNOWN => Ok(None),
        size => usize::try_from(size).map(Some).map_err(|_| {
            let problem = format!("a size of {size}; sizes are 0 or more, or -1 if unknown");
            Error::invalid("shape", problem)
        }),
    }))?;
    spec.write(make(Arc::new(ElementSpec::Leaf(LeafSpec { dtype, shape })))?);
}

/// Makes the spec of a tuple.
///
/// @param[in] count How many items there are, 0 or more.
/// @param[in] items The specs of the items. The tuple keeps them; the caller still releases its own
///   handles.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: the spec would be deeper or larger than
///   UMBO_MAX_NEST_DEPTH allows, `count` is negative, or an item is not a valid handle.
#[c_call(out(spec), array(items, count))]
pub fn umbo_element_spec_create_tuple(
    count: i64,
    items: *const *const umbo_element_spec,
    spec: *mut *mut umbo_element_spec,
) {
    let items = collect(items.iter().map(|&item| arguments::spec(item, "items")))?;
    spec.write(make(Arc::new(ElementSpec::tuple(items)?))?);
}

/// Makes the spec of a list.
///
/// @param[in] count How many items there are, 0 or more.
/// @param[in] items The specs of the items. The list keeps them; the caller still releases its own handles.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: the spec would be deeper or larger than
///   UMBO_MAX_NEST_DEPTH allows, `count` is negative, or an item is not a valid handle.
#[c_call(out(spec), array(items, count))]
pub fn umbo_element_spec_create_list(
    count: i64,
    items: *const *const umbo_element_spec,
    spec: *mut *mut umbo_element_spec,
) {
    let items = collect(items.iter().map(|&item| arguments::spec(item, "items")))?;
    spec.write(make(Arc::new(ElementSpec::list(items)?))?);
}

/// Makes the spec of a struct.
///
/// @param[in] count How many fields there are, 0 or more.
/// @param[in] names The name of each field, all different. They are copied.
/// @param[in] items The spec of each field. The struct keeps them; the caller still releases its
///   own handles.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: two fields have the same name, the spec would be deeper
///   or larger than UMBO_MAX_NEST_DEPTH allows, `count` is negative, or an item is not a valid handle.
#[c_call(out(spec), array(names, count), array(items, count))]
pub fn umbo_element_spec_create_struct(
    count: i64,
    names: *const *const c_char,
    items: *const *const umbo_element_spec,
    spec: *mut *mut umbo_element_spec,
) {
    let fields = collect(names.iter().zip(items).map(|(&name, &item)| {
        // SAFETY: the caller promises that each name is NULL or a text.
        let name = unsafe { text(name, "names") }?;
        Ok((name.into(), arguments::spec(item, "items")?))
    }))?;
    spec.write(make(Arc::new(ElementSpec::structure(fields)?))?);
}

/// Tells what elements are: tensors, tuples and so on.
///
/// @param[out] kind UMBO_VALUE_TENSOR, UMBO_VALUE_PER_REPLICA, UMBO_VALUE_TUPLE,
///   UMBO_VALUE_LIST or UMBO_VALUE_STRUCT.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `spec` is not a valid handle, or `kind` is a null
///   pointer.
#[c_call(out(kind), borrow(spec))]
pub fn umbo_element_spec_get_kind(spec: *const umbo_element_spec, kind: *mut umbo_value_kind) {
    kind.write(match **spec {
        ElementSpec::Leaf(_) => UMBO_VALUE_TENSOR,
        ElementSpec::PerReplica(..) => UMBO_VALUE_PER_REPLICA,
        ElementSpec::Tuple(_) => UMBO_VALUE_TUPLE,
        ElementSpec::List(_) => UMBO_VALUE_LIST,
        ElementSpec::Struct(_) => UMBO_VALUE_STRUCT,
    });
}

/// Counts the items, fields or components of a spec.
///
/// @param[out] count How many there are; 1 for a tensor.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `spec` is not a valid handle, or `count` is a null
///   pointer.
#[c_call(out(count), borrow(spec))]
pub fn umbo_element_spec_count(spec: *const umbo_element_spec, count: *mut i64) {
    count.write(spec.count() as i64);
}

/// Gives the spec of an item, field or component.
///
/// @param[in] spec The spec of a tuple, a list, a struct or a per-replica value.
/// @param[in] index The position, from 0 on.
/// @param[out] item A new handle to the spec of the item. Release it with
///   umbo_element_spec_release().
/// @return UMBO_OK, or:
/// - UMBO_STATUS_OUT_OF_RANGE: there is nothing at `index`.
/// - UMBO_STATUS_INVALID_ARGUMENT: `spec` is that of a tensor, or is not a valid handle.
#[c_call(out(item), index(index), get(spec))]
pub fn umbo_element_spec_item(
    spec: *const umbo_element_spec,
    index: i64,
    item: *mut *mut umbo_element_spec,
) {
    item.write(make(Arc::new(spec.item(index)?))?);
}

/// Gives the name of the field of a struct at a position.
///
/// @param[in] spec The spec of a struct.
/// @param[in] index The position, from 0 on.
/// @param[out] name The name, a text that lives as long as the spec.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_OUT_OF_RANGE: there is no field at `index`.
/// - UMBO_STATUS_INVALID_ARGUMENT: `spec` is not that of a struct, or is not a valid handle, or
///   `name` is a null pointer.
#[c_call(out(name), index(index), borrow(spec))]
pub fn umbo_element_spec_field_name(
    spec: *const umbo_element_spec,
    index: i64,
    name: *mut *const c_char,
) {
    name.write(spec.field_name(index)?.as_c_str().as_ptr());
}

/// Gives the dtype, rank and shape of a tensor.
///
/// @param[in] spec The spec of a tensor or of a per-replica value. Of a per-replica value it tells
///   what each component is.
/// @param[out] dtype The type of the tensor's elements.
/// @param[out] rank The number of dimensions.
/// @param[out] shape The size of each dimension; UMBO_SIZE_UNKNOWN where elements may differ. It
///   has room for UMBO_MAX_RANK sizes; those from `rank` on are set to 0.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `spec` is that of a tuple, a list or a struct, or is not
///   a valid handle, or an output is a null pointer.
#[c_call(out(dtype), out(rank), sizes(shape), borrow(spec))]
pub fn umbo_element_spec_leaf(
    spec: *const umbo_element_spec,
    dtype: *mut umbo_dtype,
    rank: *mut i32,
    shape: *mut i64,
) {
    let leaf = spec.leaf()?;
    let unknown = UMBO_SIZE_UNKNOWN;
    dtype.write(leaf.dtype.to_c());
    rank.write(leaf.shape.len() as i32);
    shape.write(padded(leaf.shape.iter().map(|size| size.map_or(unknown, |size| size as i64))));
}
