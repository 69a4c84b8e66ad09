//! Where the elements of datasets come from.

use super::prelude::*;

/// Makes a dataset of the rows of tensors.
///
/// @param[in] components A tensor, or a tuple, list or struct of tensors, all with the same size of
///   dimension 0.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: `components` contains a scalar, anything but tensors, or no
///   tensor at all, the sizes of dimension 0 differ, or it is not a valid handle.
/// - UMBO_STATUS_UNAVAILABLE: a tensor is on a GPU that is lost.
///
/// Element i consists of row i of each tensor and has the structure of `components`. The dataset
/// shares the tensors and does not copy them. Nobody may write them while the dataset or an element
/// of it is in use.
#[c_call(out(dataset), get(components))]
pub fn umbo_dataset_from_tensor_slices(
    components: *const umbo_value,
    dataset: *mut *mut umbo_dataset,
) {
    dataset.write(make(Dataset::from_tensor_slices(&components)?)?);
}

/// Makes a dataset of the rows of an array in a NumPy `.npy` file.
///
/// @param[in] path The file.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: it is not a `.npy` file, or holds a scalar; or `path` or
///   `dataset` is a null pointer.
/// - UMBO_STATUS_UNIMPLEMENTED: it has a dtype that Umbo does not have, such as Python objects.
/// - UMBO_STATUS_DATA_LOSS: the file is shorter or longer than its header says, or is damaged.
/// - UMBO_STATUS_NOT_FOUND: there is no such file.
/// - UMBO_STATUS_PERMISSION_DENIED: the system does not let the process read it.
///
/// The rows are the slices along dimension 0. A file in the machine's byte order and in C order, of
/// any dtype but bool, is mapped into memory: nobody may rewrite or shorten it while the dataset or
/// an element of it is in use. Other files are read and converted by this call.
#[c_call(out(dataset), text(path))]
pub fn umbo_dataset_from_npy_file(path: *const c_char, dataset: *mut *mut umbo_dataset) {
    dataset.write(make(Dataset::from_npy_file(path)?)?);
}

/// Makes a dataset of the rows of arrays in a NumPy `.npz` file.
///
/// @param[in] path The file.
/// @param[in] count How many names there are.
/// @param[in] names The names of the arrays. `names` may be NULL: all arrays, in the order of the
///   file.
/// @return UMBO_OK, or a status that umbo_dataset_from_npy_file() can return, for the same causes;
///   also:
/// - UMBO_STATUS_NOT_FOUND: there is no array of a name.
/// - UMBO_STATUS_UNIMPLEMENTED: the file is encrypted, or compressed otherwise than by DEFLATE.
/// - UMBO_STATUS_INVALID_ARGUMENT: an entry is not an array or lies in a folder, no array is
///   chosen, an array is a scalar, or the arrays differ in the size of dimension 0.
///
/// Element i is a struct. It has a field for each array, with the array's name, which holds the
/// array's row i. The call reads the arrays.
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
/// @param[in] element The element: a tensor, or a tuple, list or struct of tensors.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: `element` contains anything but tensors, or no tensor at all, or
///   is not a valid handle.
/// - UMBO_STATUS_UNAVAILABLE: a tensor is on a GPU that is lost.
///
/// The dataset shares the tensors and does not copy them. Nobody may write them while the dataset
/// or its element is in use.
#[c_call(out(dataset), get(element))]
pub fn umbo_dataset_from_tensors(element: *const umbo_value, dataset: *mut *mut umbo_dataset) {
    dataset.write(make(Dataset::from_tensors(&element)?)?);
}

/// Makes a dataset of which each element is a tensor.
///
/// @param[in] count How many tensors there are, 1 or more.
/// @param[in] tensors The elements. They have the same dtype and rank; their shapes may differ.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: `count` is less than 1, the tensors differ in dtype or rank, or
///   one of them is not a valid handle.
/// - UMBO_STATUS_UNAVAILABLE: a tensor is on a GPU that is lost.
///
/// All sizes in the element spec are unknown. The dataset shares the tensors and does not copy
/// them. Nobody may write them while the dataset or an element of it is in use.
#[c_call(out(dataset), handles(tensors, count))]
pub fn umbo_dataset_from_elements(
    count: i64,
    tensors: *const *const umbo_tensor,
    dataset: *mut *mut umbo_dataset,
) {
    dataset.write(make(Dataset::elements(&tensors)?)?);
}

/// Makes a dataset of numbers: int64 scalars at equal distances.
///
/// @param[in] start The first number.
/// @param[in] stop Where the numbers end; it is not one of them.
/// @param[in] step The distance between numbers. It may be negative, not 0.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `step` is 0, or `dataset` is a null pointer.
///
/// The numbers are `start`, `start + step`, and so on, as long as they are less than `stop`, or
/// greater than `stop` if `step` is negative.
#[c_call(out(dataset))]
pub fn umbo_dataset_from_range(start: i64, stop: i64, step: i64, dataset: *mut *mut umbo_dataset) {
    dataset.write(make(Dataset::range(start, stop, step)?)?);
}
