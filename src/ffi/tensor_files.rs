//! Tensors in files of their own.

use std::path::Path;

use super::prelude::*;
use crate::checkpoint::arrays;

/// Saves a tensor as a `.npy` file, which numpy.load() reads.
///
/// @param[in] path The file. It is replaced as a whole, or stays as it is if the call fails.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a folder.
/// - UMBO_STATUS_NOT_FOUND, UMBO_STATUS_PERMISSION_DENIED: the folder, as the system says.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: the disk is full.
/// - UMBO_STATUS_UNAVAILABLE: another failure of the system.
#[c_call(text(path), get(tensor))]
pub fn umbo_tensor_save(tensor: *const umbo_tensor, path: *const c_char) {
    arrays::save_npy(&tensor, Path::new(path))
}

/// Saves tensors by name as a `.npz` file, which numpy.load() reads.
///
/// @param[in] count How many tensors there are, 1 or more.
/// @param[in] names All different, and without / \ and :.
/// @param[in] path As for umbo_tensor_save().
/// @return As umbo_tensor_save().
#[c_call(text(path), texts(names, count), handles(tensors, count))]
pub fn umbo_tensor_save_all(
    count: i64,
    names: *const *const c_char,
    tensors: *const *const umbo_tensor,
    path: *const c_char,
) {
    let arrays: Vec<_> = names.into_iter().zip(&tensors).collect();
    arrays::save_npz(&arrays, Path::new(path))
}

/// Loads a tensor from a `.npy` file, or an array from a `.npz` file, to CPU:0.
///
/// @param[in] name The array of a `.npz` file. `name` may be NULL: a `.npy` file.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: not a file of that kind.
/// - UMBO_STATUS_NOT_FOUND, UMBO_STATUS_PERMISSION_DENIED: the file, or an array of this name.
/// - UMBO_STATUS_UNIMPLEMENTED: a dtype that Umbo does not have.
/// - UMBO_STATUS_DATA_LOSS: the file is damaged.
#[c_call(out(tensor), text(path), optional_text(name))]
pub fn umbo_tensor_load(path: *const c_char, name: *const c_char, tensor: *mut *mut umbo_tensor) {
    let path = Path::new(path);
    let loaded = name.map_or_else(|| arrays::load_npy(path), |name| arrays::load_npz(path, name));
    tensor.write(make(loaded?)?);
}
