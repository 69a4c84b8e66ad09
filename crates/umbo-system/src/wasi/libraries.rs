//! No library is loaded while the program runs.

use std::ffi::{CStr, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

use crate::libraries::Scope;

/// The program. There are no other libraries, and nothing is found in it by a name.
#[derive(Debug)]
pub struct Library(());

impl Library {
    /// Refuses to open a library.
    ///
    /// # Safety
    /// There is nothing to be afraid of: no library is opened.
    pub unsafe fn open(name: &str, _: Scope) -> Result<Library, String> {
        Err(format!(
            "{name}: a program of WebAssembly opens no libraries"
        ))
    }

    /// The program.
    pub fn program() -> Library {
        Library(())
    }

    /// No library is loaded.
    pub fn if_loaded(_: &Path) -> Option<Library> {
        None
    }

    /// Functions have no names that a program could look for: null.
    pub fn symbol(&self, _: &CStr) -> *mut c_void {
        ptr::null_mut()
    }
}

/// No files are loaded but the program, whose path is not known.
pub fn loaded() -> Vec<PathBuf> {
    Vec::new()
}

/// An address belongs to no file.
pub fn file_of(_: *const c_void) -> Option<PathBuf> {
    None
}
