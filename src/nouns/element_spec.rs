//! The structure of the elements of datasets.

use super::value_parts::nest_kind;
use crate::machinery::prelude::*;
use umbo_core::input::{ElementSpec, LeafSpec};
use umbo_core::tensor::MAX_RANK;

/// A spec of one's own.
pub(crate) fn spec(spec: *const umbo_element_spec, argument: &'static str) -> Result<ElementSpec> {
    borrow(spec, argument, |spec| ElementSpec::clone(spec))
}

/// A spec in options, which may be NULL.
pub(crate) fn optional_spec(spec: *const umbo_element_spec) -> Result<Option<ElementSpec>> {
    Ok(get_optional(spec, "options.element_spec")?.map(Arc::unwrap_or_clone))
}

/// Makes the spec of a tensor.
///
/// @param[in] shape The size of each dimension, or UMBO_SIZE_UNKNOWN. `shape` may be NULL if `ndim`
///   is 0.
#[c_call(out(spec), array(shape, ndim), dtype(dtype))]
pub fn umbo_element_spec_create_tensor(
    dtype: umbo_dtype,
    ndim: i32,
    shape: *const i64,
    spec: *mut *mut umbo_element_spec,
) {
    if shape.len() > MAX_RANK {
        return Err(invalid!("ndim", "{ndim}; at most {MAX_RANK} is supported"));
    }
    let shape = shape.iter().map(|&size| match size {
        UMBO_SIZE_UNKNOWN => Ok(None),
        size => usize::try_from(size).map(Some).map_err(|_| {
            let problem = format!(
                "a size of {}; sizes are 0 or more, or {}",
                described(size),
                described(UMBO_SIZE_UNKNOWN)
            );
            Error::invalid("shape", problem)
        }),
    });
    let shape = collect(shape, "shape")?;
    spec.write(make(Arc::new(ElementSpec::Leaf(LeafSpec {
        dtype,
        shape,
    })))?);
}

/// Makes the spec of a tuple.
#[c_call(out(spec), array(items, count))]
pub fn umbo_element_spec_create_tuple(
    count: i64,
    items: *const *mut umbo_element_spec,
    spec: *mut *mut umbo_element_spec,
) {
    let items = items.iter().map(|&item| arguments::spec(item, "items"));
    let items = collect(items, "items")?;
    spec.write(make(Arc::new(ElementSpec::tuple(items)?))?);
}

/// Makes the spec of a struct.
///
/// @param[in] names The names of the fields, all different.
#[c_call(out(spec), array(names, count), array(items, count))]
pub fn umbo_element_spec_create_struct(
    count: i64,
    names: *const *const c_char,
    items: *const *mut umbo_element_spec,
    spec: *mut *mut umbo_element_spec,
) {
    let fields = names.iter().zip(items).map(|(&name, &item)| {
        // SAFETY: the caller promises that each name is NULL or a text.
        let name = unsafe { text(name, "names") }?;
        Ok((name.into(), arguments::spec(item, "items")?))
    });
    let fields = collect(fields, "items")?;
    spec.write(make(Arc::new(ElementSpec::structure(fields)?))?);
}

/// The structure of elements. Start from UMBO_ELEMENT_SPEC_INFO_INIT.
#[c_struct]
pub struct umbo_element_spec_info {
    /// UMBO_VALUE_TENSOR, _PER_REPLICA, _TUPLE, _LIST or _STRUCT.
    pub kind: umbo_value_kind,
    /// The type of the elements of a tensor, or of each component; else UMBO_DTYPE_NONE.
    pub dtype: umbo_dtype,
    /// The number of items, fields or components; 1 for a tensor.
    pub item_count: i64,
    /// The number of dimensions of a tensor, or of each component; else 0.
    pub ndim: i32,
    /// The size of each dimension, or UMBO_SIZE_UNKNOWN; 0 from `ndim` on.
    pub shape: [i64; 8],
}

/// Gets what elements are.
#[c_call(result(info), borrow(spec))]
pub fn umbo_element_spec_get_info(
    spec: *const umbo_element_spec,
    info: *mut umbo_element_spec_info,
) {
    let (kind, leaf) = match &**spec {
        ElementSpec::Leaf(leaf) => (UMBO_VALUE_TENSOR, Some(leaf)),
        ElementSpec::PerReplica(_, leaf) => (UMBO_VALUE_PER_REPLICA, Some(leaf)),
        ElementSpec::Nest(nest) => (nest_kind(nest.kind()), None),
    };
    let mut found = umbo_element_spec_info {
        kind,
        dtype: UMBO_DTYPE_NONE,
        item_count: spec.count() as i64,
        ..Default::default()
    };
    if let Some(leaf) = leaf {
        let size = |size: &Option<usize>| size.map_or(UMBO_SIZE_UNKNOWN, |size| size as i64);
        found.dtype = leaf.dtype.to_c();
        found.ndim = leaf.shape.len() as i32;
        found.shape = padded(leaf.shape.iter().map(size));
    }
    info.write(found);
}

/// Gets a new handle to the spec of an item, field or component.
///
/// @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: there is nothing at `index`.
#[c_call(out(item), index(index), get(spec))]
pub fn umbo_element_spec_item(
    spec: *const umbo_element_spec,
    index: i64,
    item: *mut *mut umbo_element_spec,
) {
    item.write(make(Arc::new(spec.item(index)?))?);
}

/// Gets the name of a struct's field.
///
/// @param[out] name The name, which lives as long as the spec.
/// @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: there is no field at `index`.
#[c_call(out(name), index(index), borrow(spec))]
pub fn umbo_element_spec_field_name(
    spec: *const umbo_element_spec,
    index: i64,
    name: *mut *const c_char,
) {
    name.write(spec.field_name(index)?.as_c_str().as_ptr());
}
