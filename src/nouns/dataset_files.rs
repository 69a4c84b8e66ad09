//! Datasets of files, which the caller's function opens.

use crate::machinery::c_string::c_path;
use crate::machinery::prelude::*;
use umbo_core::input::{File, FilesOptions};

/// Opens a file: makes the dataset of its elements.
///
/// @param[in] path The file, as it was given to umbo_dataset_from_files(). Valid for the call.
/// @param[in] index Its place in the list.
/// @param[out] dataset The dataset, which the library takes over. It is NULL before, and must be
///   set.
/// @return UMBO_OK, or another status, which umbo_iterator_next() then returns. The file is left
///   out; but after UMBO_STATUS_RESOURCE_EXHAUSTED the next call opens it again.
///
/// Calls for several iterators may run at the same time, on threads of the library too.
pub type umbo_open_file_fn = Option<
    unsafe extern "C-unwind" fn(
        path: *const c_char,
        index: i64,
        user_data: *mut c_void,
        dataset: *mut *mut umbo_dataset,
    ) -> umbo_status,
>;

/// How a dataset reads files. Start from UMBO_FILES_OPTIONS_INIT.
#[c_struct(open_file_count = 1, consecutive_count = 1)]
pub struct umbo_files_options {
    /// The spec of the elements of all files. NULL: that of the first file, which
    /// umbo_dataset_from_files() opens to see it.
    pub element_spec: *const umbo_element_spec,
    /// How many files are read at once, by turns, 1 to 4096.
    pub open_file_count: i64,
    /// How many elements come from one file before it is the next one's turn. The file that follows
    /// one that has ended takes its place.
    pub consecutive_count: i64,
    /// The seed of the order of the files.
    pub seed: u64,
    /// 1: the order of the files is random, another one in each pass and each repetition.
    pub shuffle_files: i32,
}

fn files_options(options: &umbo_files_options) -> Result<FilesOptions> {
    let element_spec = optional_spec(options.element_spec)?;
    let shuffles = flag(options.shuffle_files, "options.shuffle_files")?;
    Ok(FilesOptions {
        element_spec,
        files_at_once: options.open_file_count,
        elements_in_turn: options.consecutive_count,
        shuffle_files: shuffles.then_some(options.seed),
    })
}

/// Makes a dataset of the elements of files.
///
/// @param[in] count How many files there are, 1 or more.
/// @param[in] paths Their names, which need not be UTF-8. Only `function` looks at the files.
/// @param[in] destroy Releases `user_data`. NULL: nothing to release.
/// @param[in] options `options` may be NULL.
/// @return UMBO_OK, or the status of `function` for the first file.
///
/// A file is opened when its first element is asked for, in each pass again. A shuffle inside a
/// file's dataset repeats the same order every pass; one of the dataset of all files has another
/// order each time. The number of elements is unknown. A file's dataset has at most 127
/// transformations; the dataset of files counts as 128.
///
/// With UMBO_SHARDING_FILE each rank reads its own files; all ranks give the same names in the same
/// order.
#[c_call(
    owned(user_data, destroy),
    out(dataset),
    paths(paths, count),
    present(function),
    options(options)
)]
pub fn umbo_dataset_from_files(
    count: i64,
    paths: *const *const c_char,
    function: umbo_open_file_fn,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
    options: *const umbo_files_options,
    dataset: *mut *mut umbo_dataset,
) {
    let options = files_options(&options)?;
    let names = collect(paths.iter().map(|path| Ok(c_path(path))), "paths")?;
    let open = move |file: File<'_>| {
        let path = names[file.number].as_ptr();
        let index = file.number as i64;
        let missing =
            "the function that opens a file has stored none; it stores a dataset for each file";
        // SAFETY: the caller gives a function of this type and its user data.
        must_store("dataset", missing, |made| unsafe {
            function(path, index, user_data.pointer(), made)
        })
    };
    dataset.write(make(Dataset::from_files(&paths, open, options)?)?);
}
