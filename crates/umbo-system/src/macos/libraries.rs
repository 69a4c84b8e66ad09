//! Libraries, as the loader knows them.

use std::ffi::c_char;
use std::path::PathBuf;

use crate::posix::libraries::path_of;
pub use crate::posix::libraries::{Library, file_of};

// The crate libc has these, too, and wishes them elsewhere.
unsafe extern "C" {
    safe fn _dyld_image_count() -> u32;
    safe fn _dyld_get_image_name(image: u32) -> *const c_char;
}

/// The paths of all files that are loaded. That of the program is the first.
pub fn loaded() -> Vec<PathBuf> {
    let names = (0.._dyld_image_count()).map(|image| _dyld_get_image_name(image));
    // SAFETY: a name ends with a zero byte and is copied at once. That of a number which no image
    // has any more is null.
    let paths = names
        .filter(|name| !name.is_null())
        .map(|name| unsafe { path_of(name) });
    paths.collect()
}
