//! Tables of the functions of a C library, which are found by their names at run time.

#![expect(unsafe_code, reason = "C libraries are found at run time")]

use std::error::Error as _;
use std::ffi::{CStr, c_void};

use libloading::os::unix::Library;

/// Defines `Functions`, a table with a field for each function that is listed. A function that the library,
/// which `whose` names, has not makes an error that ends with `$expected`.
macro_rules! functions {
    ($expected:literal; $($field:ident = $name:literal ($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions that are used.
        #[derive(Clone, Copy)]
        pub struct Functions {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            /// Takes the functions from what finds them by name.
            ///
            /// # Safety
            /// What `find` gives for a name is that function, and stays.
            pub unsafe fn new(find: &dyn Fn(&CStr) -> *mut c_void, whose: &str) -> Result<Functions> {
                Ok(Functions {
                    $($field: {
                        let found = find($name);
                        if found.is_null() {
                            return Err(Error::Unavailable(format!(
                                concat!("{} has no function {}", $expected),
                                whose,
                                $name.to_string_lossy()
                            )));
                        }
                        // SAFETY: the caller's promise; the type is the one that the library's header gives.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) -> $result,
                            >(found)
                        }
                    },)*
                })
            }
        }
    };
}
pub(super) use functions;

/// The address of what has this name in a library, or null.
pub(super) fn symbol_of(library: &Library, name: &CStr) -> *mut c_void {
    // SAFETY: the address alone is asked for.
    let symbol = unsafe { library.get::<*mut c_void>(name.to_bytes_with_nul()) };
    symbol.map_or(std::ptr::null_mut(), |symbol| symbol.into_raw())
}

/// Why the library `name` could not be opened.
pub(super) fn why_not_opened(name: &str, error: &libloading::Error) -> String {
    error.source().map_or_else(|| format!("{name}: {error}"), ToString::to_string)
}
