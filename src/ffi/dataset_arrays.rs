//! Datasets of several arrays at once.

use super::prelude::*;

/// Makes a dataset of the rows of arrays, which are copied.
///
/// @param[in] count How many arrays there are, 1 or more.
/// @param[in] names A name for each array, all different: elements are structs. `names` may be
///   NULL: elements are tuples or, of a single array, its rows.
/// @param[in] views The arrays, all with the same size of dimension 0. umbo_view_of_memory() makes
///   the view of an array.
#[c_call(counted(count), out(dataset), optional_texts(names, count), array(views, count))]
pub fn umbo_dataset_from_arrays(
    count: i64,
    names: *const *const c_char,
    views: *const umbo_view,
    dataset: *mut *mut umbo_dataset,
) {
    // SAFETY: the caller promises that the elements are where the views say.
    let copies = collect(views.iter().map(|view| unsafe { tensor_of_view(view, "views") }))?;
    dataset.write(make(Dataset::from_named_arrays(copies, names.as_deref())?)?);
}
