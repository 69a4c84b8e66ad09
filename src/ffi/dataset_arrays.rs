//! Datasets of several arrays at once.

use super::prelude::*;

/// Makes a dataset of the rows of arrays in memory of the program's.
///
/// @param[in] count How many arrays there are, 1 or more.
/// @param[in] names A name for each array, all different: elements are structs with these fields. `names` may be
///   NULL: elements are tuples or, of a single array, its rows themselves.
/// @param[in] views Where the arrays are, all with the same size of dimension 0. umbo_view_of_memory() makes the
///   view of an array.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: `count` is less than 1, an array is a scalar, the sizes of dimension 0 differ,
///   two names are the same, a view shows no elements, or a null pointer.
/// - UMBO_STATUS_NOT_FOUND: an array is on a device that does not exist.
///
/// Element i consists of row i of each array. The arrays are copied before the call returns.
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

/// Makes a dataset of the rows of the arrays in IDX files, such as images and labels.
///
/// @param[in] count How many files there are, 1 or more.
/// @param[in] paths The files, plain or compressed by gzip. IDX is the format of MNIST. The arrays have the same
///   size of dimension 0.
/// @param[in] names A name for each array, all different: elements are structs with these fields. `names` may be
///   NULL: elements are tuples or, of a single file, its rows themselves.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a file is not an IDX file, or holds a scalar; `count` is less than 1, the
///   sizes of dimension 0 differ, two names are the same, or a null pointer.
/// - UMBO_STATUS_DATA_LOSS: a file is shorter or longer than its header says, or is damaged.
/// - UMBO_STATUS_NOT_FOUND: there is no such file.
/// - UMBO_STATUS_PERMISSION_DENIED: the system does not let the process read it.
///
/// Element i consists of row i of each array. The rows are the slices along dimension 0. A plain file of 8-bit
/// elements is mapped into memory: nobody may rewrite or shorten it while the dataset or an element of it is in
/// use. Other files are read by this call.
#[c_call(counted(count), out(dataset), optional_texts(names, count), texts(paths, count))]
pub fn umbo_dataset_from_idx_files(
    count: i64,
    paths: *const *const c_char,
    names: *const *const c_char,
    dataset: *mut *mut umbo_dataset,
) {
    dataset.write(make(Dataset::from_idx_files(&paths, names.as_deref())?)?);
}
