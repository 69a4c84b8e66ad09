//! Tensors in files of their own.

use std::path::Path;

use super::prelude::*;
use crate::checkpoint::arrays;

/// Saves a tensor as a `.npy` file, which numpy.load() reads.
///
/// @param[in] tensor The tensor. Nobody writes its elements meanwhile.
/// @param[in] path The file. It is replaced as a whole: if anything fails it is as it was.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a folder.
/// - UMBO_STATUS_NOT_FOUND, UMBO_STATUS_PERMISSION_DENIED: the folder, as the system says.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: no room on the disk.
/// - UMBO_STATUS_UNAVAILABLE: another failure of the system's.
#[c_call(text(path), get(tensor))]
pub fn umbo_tensor_save(tensor: *const umbo_tensor, path: *const c_char) {
    arrays::save_npy(&tensor, Path::new(path))
}

/// Saves tensors by name as a `.npz` file, which numpy.load() reads.
///
/// @param[in] count How many there are; 1 or more.
/// @param[in] tensors The tensors. Nobody writes their elements meanwhile.
/// @param[in] names The name of each. Names differ, and have no / \ : in them.
/// @param[in] path The file. It is replaced as a whole: if anything fails it is as it was.
/// @return UMBO_OK, or the statuses of umbo_tensor_save(), and UMBO_STATUS_INVALID_ARGUMENT: `count` is less than 1, or
///   wrong names.
#[c_call(text(path), handles(tensors, count), texts(names, count))]
pub fn umbo_tensor_save_all(
    count: i64,
    tensors: *const *const umbo_tensor,
    names: *const *const c_char,
    path: *const c_char,
) {
    let arrays: Vec<_> = names.into_iter().zip(&tensors).collect();
    arrays::save_npz(&arrays, Path::new(path))
}

/// Loads a tensor from a `.npy` file, or an array by its name from a `.npz` file, into memory of its own.
///
/// @param[in] path The file.
/// @param[in] name Which array of a `.npz` file. `name` may be NULL: a `.npy` file.
/// @param[out] tensor A new tensor on CPU:0. The caller releases it.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: not a file of that kind.
/// - UMBO_STATUS_NOT_FOUND: no such file, or no array of this name.
/// - UMBO_STATUS_UNIMPLEMENTED: a dtype that Umbo lacks.
/// - UMBO_STATUS_DATA_LOSS: the file is damaged.
/// - UMBO_STATUS_PERMISSION_DENIED: as the system says.
#[c_call(out(tensor), text(path), optional_text(name))]
pub fn umbo_tensor_load(path: *const c_char, name: *const c_char, tensor: *mut *mut umbo_tensor) {
    let path = Path::new(path);
    let loaded = name.map_or_else(|| arrays::load_npy(path), |name| arrays::load_npz(path, name));
    tensor.write(make(loaded?)?);
}
