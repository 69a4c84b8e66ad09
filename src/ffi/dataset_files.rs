//! Datasets of files, which the caller's function opens.

use super::prelude::*;
use crate::input::{File, FilesOptions};

/// Opens a file: makes the dataset of its elements.
///
/// @param[in] path The file, as it was given to umbo_dataset_from_files(). It is valid until the function
///   returns.
/// @param[in] index The file's place in the list, from 0 on.
/// @param[in] user_data What was given to umbo_dataset_from_files().
/// @param[out] dataset The dataset, which the library takes over. It is NULL when the function is called, and
///   must be set.
/// @return UMBO_OK, or why it fails; umbo_iterator_next() then fails with it, and the file is left out, but
///   for UMBO_STATUS_RESOURCE_EXHAUSTED, after which the next call opens it again.
///
/// It is called on the thread that asks for an element, or on one of the library's. Calls for several iterators
/// may run at the same time. The function may use other iterators, but not the one that calls it
/// (UMBO_STATUS_FAILED_PRECONDITION).
pub type umbo_open_file_fn = Option<
    unsafe extern "C-unwind" fn(
        path: *const c_char,
        index: i64,
        user_data: *mut c_void,
        dataset: *mut *mut umbo_dataset,
    ) -> umbo_status,
>;

/// How a dataset reads files. Start from UMBO_FILES_OPTIONS_INIT.
#[c_struct(files_at_once = 1, elements_in_turn = 1)]
#[repr(C)]
pub struct umbo_files_options {
    /// `sizeof(umbo_files_options)`; UMBO_FILES_OPTIONS_INIT sets it.
    pub struct_size: usize,
    /// The spec of the elements of all files. NULL, the default: that of the first file, which
    /// umbo_dataset_from_files() then opens to see it. The caller still releases it.
    pub element_spec: *const umbo_element_spec,
    /// How many files are read at once, by turns, 1 to 4096. 1, the default: one after the other.
    pub files_at_once: i64,
    /// With several files at once: how many elements come from one before it is the next one's turn, 1 or
    /// more. The default is 1. The place of a file that has ended is the next file's, whose turn it is then.
    pub elements_in_turn: i64,
    /// The seed of the order of the files, if it is random.
    pub seed: u64,
    /// 1: the order of the files is random, another one in each pass and each repetition. 0, the default: they
    /// come in the order in which they are given.
    pub shuffle_files: i32,
}

fn files_options(options: &umbo_files_options) -> Result<FilesOptions> {
    let element_spec = optional_spec(options.element_spec)?;
    let shuffles = flag(options.shuffle_files, "options.shuffle_files")?;
    Ok(FilesOptions {
        element_spec,
        files_at_once: options.files_at_once,
        elements_in_turn: options.elements_in_turn,
        shuffle_files: shuffles.then_some(options.seed),
    })
}

/// Makes a dataset of the elements of files.
///
/// @param[in] count How many files there are, 1 or more.
/// @param[in] paths The names of the files. The library gives them to `function` and does not look at the files itself.
/// @param[in] function Makes the dataset of the elements of one file.
/// @param[in] user_data What `function` is given.
/// @param[in] destroy Releases `user_data`, exactly once, on any thread, also if this function fails. NULL:
///   nothing to release.
/// @param[in] options The spec of the elements, and in which order files and their elements come. `options` may
///   be NULL: the defaults.
/// @return UMBO_OK, the status with which `function` fails for the first file, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: `count` is less than 1, a path is a null pointer, an option is not what its
///   description says, the spec has no tensor or has a per-replica value in it, or a handle is not valid.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is no memory or no handle left.
///
/// A file is opened when its first element is asked for, again in each pass, and closed when its dataset has
/// ended: its dataset is made and released then. So what a file's dataset shuffles, has the same order in each
/// repetition; umbo_dataset_shuffle() of the dataset of all files gives another one each time.
/// The number of elements is not known before a pass ends. umbo_iterator_next() then also returns:
/// - The status with which `function` fails. The file is left out, and the next call gives the next file's first element.
///   If the status is UMBO_STATUS_RESOURCE_EXHAUSTED, the next call opens the file again.
/// - UMBO_STATUS_INVALID_ARGUMENT: elements are not as the spec says, or a file's dataset has more than 127
///   transformations. A dataset of files itself counts as 128.
///
/// UMBO_SHARDING_FILE has each rank read its own files. All ranks give the same names in the same order then.
#[c_call(
    gives(user_data, destroy),
    out(dataset),
    texts(paths, count),
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
    let open = move |file: File<'_>| {
        let (path, index) = (file.path.as_c_str().as_ptr(), file.number as i64);
        // SAFETY: the caller gives a function of this type and its user data.
        let made =
            stored("dataset", |made| unsafe { function(path, index, user_data.pointer(), made) })?;
        made.ok_or_else(|| {
            Error::invalid(
                "dataset",
                "the function that opens a file has stored none; it stores a dataset for each file",
            )
        })
    };
    dataset.write(make(Dataset::from_files(&paths, open, options)?)?);
}
