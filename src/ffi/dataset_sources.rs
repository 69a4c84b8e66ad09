//! Where the elements of datasets come from.

use super::prelude::*;

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

/// Makes a dataset of the rows of the array in a NumPy `.npy` file.
///
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: not such a file, or a scalar.
/// - UMBO_STATUS_NOT_FOUND, UMBO_STATUS_PERMISSION_DENIED: the file, as the system says.
/// - UMBO_STATUS_UNIMPLEMENTED: a dtype that Umbo does not have.
/// - UMBO_STATUS_DATA_LOSS: the file is damaged.
///
/// A file in C order and the machine's byte order, of any dtype but bool, is mapped into memory:
/// nobody may rewrite or shorten it while the dataset or an element is in use. Others are read by
/// this call.
#[c_call(out(dataset), text(path))]
pub fn umbo_dataset_from_npy_file(path: *const c_char, dataset: *mut *mut umbo_dataset) {
    dataset.write(make(Dataset::from_npy_file(path)?)?);
}

/// Makes a dataset of the rows of arrays in a NumPy `.npz` file: structs, with a field for each
/// array.
///
/// @param[in] names The arrays. `names` may be NULL: all, in the order of the file.
/// @return As umbo_dataset_from_npy_file(), or:
/// - UMBO_STATUS_NOT_FOUND: no array of a name.
/// - UMBO_STATUS_UNIMPLEMENTED: the file is encrypted, or compressed in another way than by
///   DEFLATE.
/// - UMBO_STATUS_INVALID_ARGUMENT: the arrays differ in the size of dimension 0.
///
/// The call reads the arrays.
#[c_call(out(dataset), text(path), optional_texts(names, count))]
pub fn umbo_dataset_from_npz_file(
    path: *const c_char,
    count: i64,
    names: *const *const c_char,
    dataset: *mut *mut umbo_dataset,
) {
    dataset.write(make(Dataset::from_npz_file(path, names.as_deref())?)?);
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
    tensors: *const *const umbo_tensor,
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
