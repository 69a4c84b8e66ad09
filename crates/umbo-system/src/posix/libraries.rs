//! Libraries, as the loader knows them.

use std::error::Error;
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

use libloading::os::unix::{Library as Handle, RTLD_GLOBAL, RTLD_LAZY, RTLD_LOCAL, RTLD_NOW};

use crate::libraries::Scope;

/// A library that is open. When this is dropped, and nobody else has it open, it is unloaded.
/// None: the program, where there is no loader, as in one that is linked with musl and without
/// shared libraries. Nothing is found in it.
#[derive(Debug)]
pub struct Library(Option<Handle>);

impl Library {
    /// Opens the library with this name or path. The error says why there is none.
    ///
    /// # Safety
    /// The initialisers of the library may be run.
    pub unsafe fn open(name: &str, scope: Scope) -> Result<Library, String> {
        let scope = match scope {
            Scope::Everybody => RTLD_GLOBAL,
            Scope::Opener => RTLD_LOCAL,
        };
        // SAFETY: the caller's promise.
        let opened = unsafe { Handle::open(Some(name), RTLD_NOW | scope) };
        let opened = opened.map(Some).map(Library);
        opened.map_err(|error| {
            error
                .source()
                .map_or_else(|| format!("{name}: {error}"), ToString::to_string)
        })
    }

    /// The program, with all that it sees.
    pub fn program() -> Library {
        // SAFETY: no initialiser is run, since nothing is loaded.
        let opened = unsafe { Handle::open(None::<&OsStr>, RTLD_LAZY | RTLD_LOCAL) };
        Library(opened.ok())
    }

    /// The library at this path, if it is loaded already.
    pub fn if_loaded(path: &Path) -> Option<Library> {
        // SAFETY: no initialiser is run, since a library that is not loaded is not loaded now,
        // either.
        let opened = unsafe { Handle::open(Some(path), RTLD_LAZY | libc::RTLD_NOLOAD) };
        opened.ok().map(Some).map(Library)
    }

    /// The address of the function with this name, or null. It is valid as long as the library is
    /// loaded.
    pub fn symbol(&self, name: &CStr) -> *mut c_void {
        let Some(handle) = &self.0 else {
            return ptr::null_mut();
        };
        // SAFETY: only the address is read.
        let symbol = unsafe { handle.get::<*mut c_void>(name.to_bytes_with_nul()) };
        symbol.map_or(ptr::null_mut(), |symbol| symbol.into_raw())
    }
}

/// The path of the loaded file to which this address belongs, if there is one.
#[expect(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "the loader compares the address, and reads nothing there"
)]
pub fn file_of(address: *const c_void) -> Option<PathBuf> {
    let mut info = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: there is memory for the description, whose name is that of a file, ends with a zero
    // byte and is copied at once.
    unsafe {
        let is_known = libc::dladdr(address, &mut info) != 0 && !info.dli_fname.is_null();
        is_known.then(|| path_of(info.dli_fname))
    }
}

/// The path that the loader gives.
///
/// # Safety
/// `name` ends with a zero byte.
pub unsafe fn path_of(name: *const c_char) -> PathBuf {
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    PathBuf::from(OsStr::from_bytes(name.to_bytes()))
}
