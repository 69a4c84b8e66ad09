//! Libraries, as the loader knows them.

use std::error::Error;
use std::ffi::{CStr, OsString, c_void};
use std::os::windows::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::ptr;

use libloading::os::windows::Library as Handle;
use windows_sys::Win32::Foundation::{FALSE, HMODULE};
use windows_sys::Win32::System::LibraryLoader::{
    GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
    GetModuleFileNameW, GetModuleHandleExW, GetProcAddress,
};
use windows_sys::Win32::System::ProcessStatus::K32EnumProcessModules;
use windows_sys::Win32::System::Threading::GetCurrentProcess;

use crate::libraries::Scope;

/// A library that is open. When this is dropped, and nobody else has it open, it is unloaded.
#[derive(Debug)]
pub struct Library(Option<Handle>);

impl Library {
    /// Opens the library with this name or path. The error says why there is none. Functions of a
    /// library are always found by its opener alone, and [`Library::program`] looks in all.
    ///
    /// # Safety
    /// The initialisers of the library may be run.
    pub unsafe fn open(name: &str, _: Scope) -> Result<Library, String> {
        // SAFETY: the caller's promise.
        let opened = unsafe { Handle::new(name) };
        opened.map(|handle| Library(Some(handle))).map_err(|error| {
            let cause = error.source().map(ToString::to_string);
            format!("{name}: {}", cause.unwrap_or_else(|| error.to_string()))
        })
    }

    /// The program, with all libraries that are loaded.
    pub fn program() -> Library {
        Library(None)
    }

    /// The library at this path, if it is loaded already.
    pub fn if_loaded(path: &Path) -> Option<Library> {
        let opened = Handle::open_already_loaded(path).ok()?;
        Some(Library(Some(opened)))
    }

    /// The address of the function with this name, or null. It is valid as long as the library is
    /// loaded.
    pub fn symbol(&self, name: &CStr) -> *mut c_void {
        let Some(library) = &self.0 else {
            let found = modules().into_iter().find_map(|module| {
                // SAFETY: the name ends with a zero byte. The loader refuses a module that was
                // unloaded in the meantime.
                unsafe { GetProcAddress(module, name.as_ptr().cast()) }
            });
            return found.map_or(ptr::null_mut(), |function| function as *mut c_void);
        };
        // SAFETY: only the address is read.
        let symbol = unsafe { library.get::<*mut c_void>(name.to_bytes_with_nul()) };
        symbol.map_or(ptr::null_mut(), |symbol| symbol.as_raw_ptr())
    }
}

/// The program and all libraries that are loaded; the program is the first.
fn modules() -> Vec<HMODULE> {
    let mut modules: Vec<HMODULE> = vec![ptr::null_mut(); 256];
    loop {
        let room = size_of_val(&*modules) as u32;
        let mut needed = 0;
        // SAFETY: there is room for as many bytes as the call is told, and for their number.
        let known = unsafe {
            K32EnumProcessModules(GetCurrentProcess(), modules.as_mut_ptr(), room, &mut needed)
        };
        let count = match known {
            FALSE => 0,
            _ => needed as usize / size_of::<HMODULE>(),
        };
        if count <= modules.len() {
            modules.truncate(count);
            return modules;
        }
        modules.resize(count + 16, ptr::null_mut());
    }
}

/// The paths of all files that are loaded.
pub fn loaded() -> Vec<PathBuf> {
    modules().into_iter().filter_map(path_of).collect()
}

/// The path of the loaded file to which this address belongs, if there is one.
pub fn file_of(address: *const c_void) -> Option<PathBuf> {
    if address.is_null() {
        return None;
    }
    let by_address =
        GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    let mut module = ptr::null_mut();
    // SAFETY: the loader compares the address, and reads nothing there; there is memory for the
    // result.
    let found = unsafe { GetModuleHandleExW(by_address, address.cast(), &mut module) };
    (found != FALSE).then(|| path_of(module))?
}

fn path_of(module: HMODULE) -> Option<PathBuf> {
    let mut name = vec![0u16; 512];
    loop {
        // SAFETY: there is room for as many units as the call is told. The loader refuses a module
        // that was unloaded in the meantime.
        let length =
            unsafe { GetModuleFileNameW(module, name.as_mut_ptr(), name.len() as u32) } as usize;
        match length {
            0 => return None,
            _ if length < name.len() => return Some(OsString::from_wide(&name[..length]).into()),
            _ => name.resize(2 * name.len(), 0),
        }
    }
}
