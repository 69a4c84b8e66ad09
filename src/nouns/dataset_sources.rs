//! The sources of datasets.

use crate::machinery::prelude::*;

/// Makes a dataset of the rows of tensors.
///
/// @param[in] components A tensor or a nest of tensors, all with the same size of dimension 0.
///   Element i has its structure, and row i of each tensor.
#[c_call(out(dataset), get(components))]
pub fn umbo_dataset_from_tensor_slices(
    components: *const umbo_value,
    dataset: *mut *mut umbo_dataset,
) {
    dataset.write(make(Dataset::from_tensor_slices(&components)?)?);
}

/// Makes a dataset of one element.
///
/// @param[in] element A tensor or a nest of tensors.
#[c_call(out(dataset), get(element))]
pub fn umbo_dataset_from_tensors(element: *const umbo_value, dataset: *mut *mut umbo_dataset) {
    dataset.write(make(Dataset::from_tensors(&element)?)?);
}

/// Makes a dataset of tensors: each is an element.
///
/// @param[in] count How many tensors there are, 1 or more.
/// @param[in] tensors They have the same dtype and number of dimensions. Their sizes may differ,
///   and are unknown in the element spec.
#[c_call(out(dataset), handles(tensors, count))]
pub fn umbo_dataset_from_elements(
    count: i64,
    tensors: *const *mut umbo_tensor,
    dataset: *mut *mut umbo_dataset,
) {
    dataset.write(make(Dataset::elements(&tensors)?)?);
}

/// Makes a dataset of int64 scalars: `start`, `start` + `step` and so on, as long as they are
/// before `stop`.
///
/// @param[in] step The distance between numbers, not 0. It may be negative.
#[c_call(out(dataset))]
pub fn umbo_dataset_from_range(start: i64, stop: i64, step: i64, dataset: *mut *mut umbo_dataset) {
    dataset.write(make(Dataset::range(start, stop, step)?)?);
}

/// Makes a dataset of the rows of arrays, which are copied.
///
/// @param[in] count How many arrays there are, 1 or more.
/// @param[in] names A name for each array, all different: elements are structs. `names` may be
///   NULL: elements are tuples or, of a single array, its rows.
/// @param[in] views The arrays, all with the same size of dimension 0. umbo_view_of_memory() makes
///   the view of an array.
#[c_call(
    counted(count),
    out(dataset),
    optional_texts(names, count),
    array(views, count)
)]
pub fn umbo_dataset_from_arrays(
    count: i64,
    names: *const *const c_char,
    views: *const umbo_view,
    dataset: *mut *mut umbo_dataset,
) {
    // SAFETY: the caller promises that the elements are where the views say.
    let copies = collect(
        views
            .iter()
            .map(|view| unsafe { tensor_of_view(view, "views") }),
        "views",
    )?;
    dataset.write(make(Dataset::from_named_arrays(
        copies,
        names.as_deref(),
        "views",
    )?)?);
}
