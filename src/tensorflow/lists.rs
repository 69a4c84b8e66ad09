//! Lists, which are used as tuples are, and have another structure.

use crate::machinery::prelude::*;
use umbo_core::input::ElementSpec;

/// Creates a list of values, which is used like a tuple but has another structure.
#[c_call(part(tensorflow), out(value), handles(items, count))]
pub fn umbo_value_create_list(
    count: i64,
    items: *const *mut umbo_value,
    value: *mut *mut umbo_value,
) {
    value.write(make(Value::list(items)?)?);
}

/// Creates the spec of a list.
#[c_call(part(tensorflow), out(spec), array(items, count))]
pub fn umbo_element_spec_create_list(
    count: i64,
    items: *const *mut umbo_element_spec,
    spec: *mut *mut umbo_element_spec,
) {
    let items = items.iter().map(|&item| arguments::spec(item, "items"));
    let items = collect(items, "items")?;
    spec.write(make(Arc::new(ElementSpec::list(items)?))?);
}
