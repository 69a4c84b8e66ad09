//! Where the elements of datasets come from.

use std::ffi::c_char;

use super::boundary::{array, boundary, collect, out};
use super::handle::{get, make};
use super::object::{umbo_dataset, umbo_tensor, umbo_value};
use super::status::umbo_status;
use super::text::text;
use crate::input::Dataset;

/// A dataset of the slices of tensors along dimension 0: element i consists of row i of each
/// tensor, in the structure of `components`, which is a tensor, or a tuple or struct of tensors.
///
/// Tensors are shared, not copied, and must not be written while the dataset or an element of it
/// is in use. INVALID_ARGUMENT: a scalar, dimensions 0 that differ, a per-replica value, a
/// variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_from_tensor_slices(
    components: *const umbo_value,
    dataset: *mut *mut umbo_dataset,
) -> umbo_status {
    boundary("umbo_dataset_from_tensor_slices", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let dataset = unsafe { out(dataset, "dataset") }?;
        let components = get(components, "components")?;
        dataset.write(make(Dataset::from_tensor_slices(&components)?)?);
        Ok(())
    })
}

/// A dataset of the slices along dimension 0 of the array in an IDX file (the format of MNIST),
/// plain or compressed by gzip.
///
/// A plain file of 8-bit elements is mapped into memory and must not be rewritten or shortened
/// while the dataset or an element of it is in use. Others are read at this call. INVALID_ARGUMENT:
/// not an IDX file, or one of a scalar. DATA_LOSS: shorter or longer than its header says, or
/// damaged. NOT_FOUND, PERMISSION_DENIED: as the system says. RESOURCE_EXHAUSTED: no memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_from_idx_file(
    path: *const c_char,
    dataset: *mut *mut umbo_dataset,
) -> umbo_status {
    boundary("umbo_dataset_from_idx_file", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (dataset, path) = unsafe { (out(dataset, "dataset")?, text(path, "path")?) };
        dataset.write(make(Dataset::from_idx_file(path)?)?);
        Ok(())
    })
}

/// A dataset of the slices along dimension 0 of the array in a NumPy `.npy` file.
///
/// A file in the machine's byte order and in C order, of anything but bool, is mapped into memory
/// and must not be rewritten or shortened while the dataset or an element of it is in use. Others
/// are read and converted at this call. INVALID_ARGUMENT: not a `.npy` file, or one of a scalar.
/// UNIMPLEMENTED: a dtype that there is no constant for, such as Python objects. DATA_LOSS: shorter
/// or longer than its header says, or damaged. NOT_FOUND, PERMISSION_DENIED: as the system says.
/// RESOURCE_EXHAUSTED: no memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_from_npy_file(
    path: *const c_char,
    dataset: *mut *mut umbo_dataset,
) -> umbo_status {
    boundary("umbo_dataset_from_npy_file", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (dataset, path) = unsafe { (out(dataset, "dataset")?, text(path, "path")?) };
        dataset.write(make(Dataset::from_npy_file(path)?)?);
        Ok(())
    })
}

/// A dataset of the slices along dimension 0 of arrays in a NumPy `.npz` file, which are read at
/// this call. Elements are structs of which each field has the name of an array: those of the
/// `count` names, in this order, or all in the order of the file if `names` is NULL.
///
/// Errors are those of umbo_dataset_from_npy_file(), and NOT_FOUND: no array of a name;
/// UNIMPLEMENTED: encryption, a compression other than DEFLATE; INVALID_ARGUMENT: an entry that is
/// not an array of this folder, arrays that differ in dimension 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_from_npz_file(
    path: *const c_char,
    count: i64,
    names: *const *const c_char,
    dataset: *mut *mut umbo_dataset,
) -> umbo_status {
    boundary("umbo_dataset_from_npz_file", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (dataset, path) = unsafe { (out(dataset, "dataset")?, text(path, "path")?) };
        let names = if names.is_null() {
            None
        } else {
            // SAFETY: not NULL, so the caller promises as many names as it says.
            let names = unsafe { array(names, count, "names") }?;
            // SAFETY: the caller promises that each name is NULL or a text.
            Some(collect(names.iter().map(|&name| unsafe { text(name, "names") }))?)
        };
        dataset.write(make(Dataset::from_npz_file(path, names.as_deref())?)?);
        Ok(())
    })
}

/// A dataset of one element: a tensor, or a tuple or struct of tensors, which are shared as by
/// umbo_dataset_from_tensor_slices(). INVALID_ARGUMENT: a per-replica value, a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_from_tensors(
    element: *const umbo_value,
    dataset: *mut *mut umbo_dataset,
) -> umbo_status {
    boundary("umbo_dataset_from_tensors", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let dataset = unsafe { out(dataset, "dataset") }?;
        dataset.write(make(Dataset::from_tensors(&get(element, "element")?)?)?);
        Ok(())
    })
}

/// A dataset of `count` tensors, an element each, which are shared as by
/// umbo_dataset_from_tensor_slices(). They have one dtype and rank; their shapes may differ, so
/// that the element spec has no sizes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_from_elements(
    count: i64,
    tensors: *const *const umbo_tensor,
    dataset: *mut *mut umbo_dataset,
) -> umbo_status {
    boundary("umbo_dataset_from_elements", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (dataset, tensors) =
            unsafe { (out(dataset, "dataset")?, array(tensors, count, "tensors")?) };
        let tensors = collect(tensors.iter().map(|&tensor| get(tensor, "tensors")))?;
        dataset.write(make(Dataset::elements(&tensors)?)?);
        Ok(())
    })
}

/// A dataset of int64 scalars: `start`, `start + step`, ... as long as they are below `stop`, or
/// above it if `step` is negative. INVALID_ARGUMENT if `step` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_from_range(
    start: i64,
    stop: i64,
    step: i64,
    dataset: *mut *mut umbo_dataset,
) -> umbo_status {
    boundary("umbo_dataset_from_range", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let dataset = unsafe { out(dataset, "dataset") }?;
        dataset.write(make(Dataset::range(start, stop, step)?)?);
        Ok(())
    })
}
