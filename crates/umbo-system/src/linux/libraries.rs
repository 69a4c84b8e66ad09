//! Libraries, as the loader knows them.

use std::ffi::{c_int, c_void};
use std::path::PathBuf;

use crate::posix::libraries::path_of;
pub use crate::posix::libraries::{Library, file_of};

/// The paths of all files that are loaded. That of the program is empty.
pub fn loaded() -> Vec<PathBuf> {
    unsafe extern "C" fn note(
        info: *mut libc::dl_phdr_info,
        _: usize,
        files: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader gives a description with a name that ends with a zero byte, and the
        // list that was given to it below.
        unsafe {
            let name = (*info).dlpi_name;
            let files = &mut *files.cast::<Vec<PathBuf>>();
            if !name.is_null() {
                files.push(path_of(name));
            }
        }
        0
    }
    let mut files: Vec<PathBuf> = Vec::new();
    // SAFETY: the function is called during the call only, with the list, which nothing else uses
    // meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut files).cast()) };
    files
}
