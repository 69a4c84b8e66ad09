//! Tensors and datasets in files of arrays.

use crate::machinery::prelude::*;
use umbo_core::checkpoint::arrays;

/// Saves a tensor as a `.npy` file, which numpy.load() reads.
///
/// @param[in] path The file. It is replaced as a whole, or stays as it is if the call fails.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a folder, or another file that is not regular.
/// - UMBO_STATUS_NOT_FOUND, UMBO_STATUS_PERMISSION_DENIED: the folder, as the system says.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: the disk is full.
/// - UMBO_STATUS_UNAVAILABLE: another failure of the system.
/// - UMBO_STATUS_UNIMPLEMENTED: the library was built without the feature "files".
#[c_call(path(path), get(tensor))]
pub fn umbo_tensor_save(tensor: *const umbo_tensor, path: *const c_char) {
    arrays::save_npy(&tensor, path)
}

/// Saves tensors by name as a `.npz` file, which numpy.load() reads.
///
/// @param[in] count How many tensors there are, 1 or more.
/// @param[in] names All different.
/// @param[in] path As for umbo_tensor_save().
/// @return As umbo_tensor_save().
#[c_call(path(path), texts(names, count), handles(tensors, count))]
pub fn umbo_tensor_save_all(
    count: i64,
    names: *const *const c_char,
    tensors: *const *mut umbo_tensor,
    path: *const c_char,
) {
    let arrays = collect(names.into_iter().zip(&tensors).map(Ok), "names")?;
    arrays::save_npz(&arrays, path)
}

/// Loads a tensor from a `.npy` file, or an array from a `.npz` file, to CPU:0.
///
/// @param[in] name The array of a `.npz` file. `name` may be NULL: a `.npy` file.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: not a file of that kind.
/// - UMBO_STATUS_NOT_FOUND, UMBO_STATUS_PERMISSION_DENIED: the file, or an array of this name.
/// - UMBO_STATUS_UNIMPLEMENTED: a dtype that Umbo does not have, a compression other than DEFLATE,
///   or the library was built without the feature "files".
/// - UMBO_STATUS_DATA_LOSS: the file is damaged.
#[c_call(out(tensor), path(path), optional_text(name))]
pub fn umbo_tensor_load(path: *const c_char, name: *const c_char, tensor: *mut *mut umbo_tensor) {
    let loaded = name.map_or_else(
        || arrays::load_npy(path),
        |name| arrays::load_npz(path, name),
    );
    tensor.write(make(loaded?)?);
}

/// Makes a dataset of the rows of the array in a NumPy `.npy` file.
///
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: not such a file, or a scalar.
/// - UMBO_STATUS_NOT_FOUND, UMBO_STATUS_PERMISSION_DENIED: the file, as the system says.
/// - UMBO_STATUS_UNIMPLEMENTED: a dtype that Umbo does not have, or the library was built without
///   the feature "files".
/// - UMBO_STATUS_DATA_LOSS: the file is damaged.
///
/// A file in C order and the machine's byte order, of any dtype but bool, is mapped into memory:
/// nobody may rewrite or shorten it while the dataset or an element is in use. Others are read by
/// this call.
#[c_call(out(dataset), path(path))]
pub fn umbo_dataset_from_npy_file(path: *const c_char, dataset: *mut *mut umbo_dataset) {
    dataset.write(make(Dataset::from_npy_file(path)?)?);
}

/// Makes a dataset of the rows of arrays in a NumPy `.npz` file: structs, with a field for each
/// array.
///
/// @param[in] names The arrays. `names` may be NULL: all, in the order of the file.
/// @return As umbo_dataset_from_npy_file(), or:
/// - UMBO_STATUS_NOT_FOUND: no array of a name.
/// - UMBO_STATUS_UNIMPLEMENTED: the file is encrypted, or compressed in a way other than by
///   DEFLATE.
/// - UMBO_STATUS_INVALID_ARGUMENT: the arrays differ in the size of dimension 0.
///
/// The call reads the arrays.
#[c_call(out(dataset), path(path), optional_texts(names, count))]
pub fn umbo_dataset_from_npz_file(
    path: *const c_char,
    count: i64,
    names: *const *const c_char,
    dataset: *mut *mut umbo_dataset,
) {
    dataset.write(make(Dataset::from_npz_file(path, names.as_deref())?)?);
}

/// Makes a dataset of the rows of the arrays in IDX files, the format of MNIST.
///
/// @param[in] count How many files there are, 1 or more.
/// @param[in] names As for umbo_dataset_from_arrays(). `names` may be NULL.
/// @param[in] paths The files, plain or compressed by gzip. Their arrays have the same size of
///   dimension 0.
/// @return As umbo_dataset_from_npy_file().
///
/// A plain file of 8-bit elements is mapped into memory: nobody may rewrite or shorten it while the
/// dataset or an element is in use. Others are read by this call.
#[c_call(
    counted(count),
    out(dataset),
    optional_texts(names, count),
    paths(paths, count)
)]
pub fn umbo_dataset_from_idx_files(
    count: i64,
    names: *const *const c_char,
    paths: *const *const c_char,
    dataset: *mut *mut umbo_dataset,
) {
    dataset.write(make(Dataset::from_idx_files(&paths, names.as_deref())?)?);
}
