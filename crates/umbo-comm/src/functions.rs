//! Tables of the functions of a C library. The functions are found by name at run time.

#![expect(unsafe_code, reason = "C libraries are found at run time")]

use umbo_executor::floating_point::in_program;
use umbo_system::libraries::{Library, Scope};

/// Defines `Functions`, a table with a field for each function that is listed. If the library,
/// which `whose` names, lacks one of them, the error ends with `$expected`.
macro_rules! functions {
    ($expected:literal; $($field:ident = $name:literal ($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions that this library uses.
        #[derive(Clone, Copy)]
        pub struct Functions {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            /// Fills the table with the functions that `find` returns for their names.
            ///
            /// # Safety
            /// `find` returns for a name the function of that name, which stays loaded.
            pub unsafe fn new(
                find: &dyn Fn(&CStr) -> *mut c_void,
                whose: &str,
            ) -> Result<Functions> {
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
                        // SAFETY: the caller's promise; the type is that of the library's header.
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

/// Opens the library at `path`. Without a path it is the one that the environment variable names,
/// and without the variable the first of the `usual` names that there is. Also returns its name, or
/// why none could be opened.
///
/// # Safety
/// The initialisers of the library may be run.
pub(super) unsafe fn open(
    path: Option<&str>,
    variable: &str,
    usual: &[&str],
    scope: Scope,
) -> std::result::Result<(Library, String), String> {
    let set = std::env::var(variable).ok().filter(|name| !name.is_empty());
    let given = path.or(set.as_deref());
    let mut problems = Vec::new();
    for name in given.as_ref().map_or(usual, std::slice::from_ref) {
        // SAFETY: the caller's promise.
        match in_program(|| unsafe { Library::open(name, scope) }) {
            Ok(library) => return Ok((library, (*name).to_owned())),
            Err(problem) => problems.push(problem),
        }
    }
    Err(problems.join("; "))
}
