//! Datasets of several arrays at once.

use std::ffi::c_char;

use super::boundary::{array, boundary, collect, out};
use super::handle::make;
use super::object::umbo_dataset;
use super::status::umbo_status;
use super::text::text;
use super::view::{tensor_of_view, umbo_view};
use crate::error::{Error, Result};
use crate::input::Dataset;

/// As many names as there are arrays, or none.
///
/// # Safety
/// `names` is NULL or leads to `count` texts.
unsafe fn names_from<'a>(count: i64, names: *const *const c_char) -> Result<Option<Vec<&'a str>>> {
    if names.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let names = unsafe { array(names, count, "names") }?;
    // SAFETY: the caller promises that each name is a text.
    collect(names.iter().map(|&name| unsafe { text(name, "names") })).map(Some)
}

fn check_count(count: i64) -> Result<()> {
    match count {
        1.. => Ok(()),
        _ => Err(Error::invalid("count", format!("{count}; 1 or more are expected"))),
    }
}

/// A dataset of the slices of arrays along dimension 0: element i consists of row i of each array. The
/// arrays are copied at this call.
///
/// @param[in] count How many arrays there are, 1 or more.
/// @param[in] names Their names: elements are structs, with a field for each array. `names` may be NULL: then
/// elements are tuples or, of a single array, its rows themselves.
/// @param[in] views Where the arrays are; umbo_view_of_memory() makes the view of an
/// array. Their dimensions 0 agree.
/// @param[out] dataset Gets the dataset, which the caller releases.
/// @return UMBO_STATUS_INVALID_ARGUMENT for a scalar, dimensions 0 that differ, and names that do not
/// differ. UMBO_STATUS_NOT_FOUND for memory of a device that does not exist. UMBO_STATUS_RESOURCE_EXHAUSTED
/// if there is no memory for the copies.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_from_arrays(
    count: i64,
    names: *const *const c_char,
    views: *const umbo_view,
    dataset: *mut *mut umbo_dataset,
) -> umbo_status {
    boundary("umbo_dataset_from_arrays", || {
        check_count(count)?;
        // SAFETY: the caller keeps the header's promise on pointers.
        let (dataset, names, views) = unsafe {
            (out(dataset, "dataset")?, names_from(count, names)?, array(views, count, "views")?)
        };
        // SAFETY: the caller promises that the elements are where the views say.
        let copies = collect(views.iter().map(|view| unsafe { tensor_of_view(view, "views") }))?;
        dataset.write(make(Dataset::from_named_arrays(copies, names.as_deref())?)?);
        Ok(())
    })
}

/// A dataset of the slices along dimension 0 of the arrays in several IDX files (the format of MNIST),
/// which have equally many: a file of images and one of labels, say. Each file is read, or mapped, as by
/// umbo_dataset_from_idx_file().
///
/// @param[in] count How many files there are, 1 or more.
/// @param[in] paths Where they are.
/// @param[in] names The names of their arrays: elements are structs, with a field for each file. `names` may be NULL:
/// then elements are tuples or, of a single file, its slices themselves.
/// @param[out] dataset Gets the dataset, which the caller releases.
/// @return As umbo_dataset_from_idx_file(); UMBO_STATUS_INVALID_ARGUMENT also if the files have different
/// numbers of slices, or names do not differ.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_from_idx_files(
    count: i64,
    paths: *const *const c_char,
    names: *const *const c_char,
    dataset: *mut *mut umbo_dataset,
) -> umbo_status {
    boundary("umbo_dataset_from_idx_files", || {
        check_count(count)?;
        // SAFETY: the caller keeps the header's promise on pointers.
        let (dataset, names, paths) = unsafe {
            (out(dataset, "dataset")?, names_from(count, names)?, array(paths, count, "paths")?)
        };
        // SAFETY: the caller promises that each path is NULL or a text.
        let paths = collect(paths.iter().map(|&path| unsafe { text(path, "paths") }))?;
        dataset.write(make(Dataset::from_idx_files(&paths, names.as_deref())?)?);
        Ok(())
    })
}
