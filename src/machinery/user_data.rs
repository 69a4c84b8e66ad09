//! Pointers of the caller's that the library keeps.

use std::ffi::c_void;

use super::callback::run_infallible;
use super::hazard;

/// Releases `user_data`.
///
/// @param[in] user_data What the program gave together with this function.
///
/// The library calls it exactly once, on any thread, even if the function that took the user data
/// fails. It does not use the user data afterwards. NULL in its place means that there is nothing
/// to release.
pub type umbo_destroy_fn = Option<unsafe extern "C-unwind" fn(user_data: *mut c_void)>;

/// A caller's pointer and the function that releases it; dropping this calls that function.
pub(crate) struct UserData {
    pointer: *mut c_void,
    destroy: umbo_destroy_fn,
}

// SAFETY: the library only hands the pointer back to the caller's functions; the header says that
// those run on any thread.
unsafe impl Send for UserData {}
// SAFETY: as above.
unsafe impl Sync for UserData {}

impl UserData {
    /// Takes over `pointer`. To be called before anything can fail.
    ///
    /// # Safety
    /// `destroy`, if there is one, may be called once with `pointer`, on any thread.
    pub(crate) unsafe fn new(pointer: *mut c_void, destroy: umbo_destroy_fn) -> UserData {
        UserData { pointer, destroy }
    }

    /// A pointer that the caller keeps.
    pub(crate) fn kept(pointer: *mut c_void) -> UserData {
        UserData {
            pointer,
            destroy: None,
        }
    }

    /// The pointer to give to the caller's functions.
    pub(crate) fn pointer(&self) -> *mut c_void {
        self.pointer
    }

    /// The function that releases it.
    pub(crate) fn destroy(&self) -> umbo_destroy_fn {
        self.destroy
    }
}

impl Drop for UserData {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            let pointer = self.pointer;
            // SAFETY: promised to `new`, and a value is dropped once.
            hazard::call_when_unused(move || run_infallible(|| unsafe { destroy(pointer) }));
        }
    }
}
