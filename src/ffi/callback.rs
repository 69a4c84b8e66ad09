//! The caller's functions and what belongs to them.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

use super::handle::consume;
use super::object::Opaque;
use super::status::{self, umbo_status};
use crate::error::{Error, Result};

/// Releases `user_data`.
///
/// @param[in] user_data What the program gave together with this function.
///
/// The library calls it exactly once, on any thread, also if the function that took the user data
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
        UserData { pointer, destroy: None }
    }

    /// What to give to the caller's functions.
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
            // SAFETY: promised to `new`, and a value is dropped once.
            unsafe { destroy(self.pointer) }
        }
    }
}

thread_local! {
    /// A rule of the program's is at work on this thread.
    static IN_RULE: Cell<bool> = const { Cell::new(false) };
}

/// Runs a rule of the program's on a tile. Meanwhile this thread's calls are refused
/// ([`check_no_rule`]): the apply around it holds the optimizer, and other tiles are changed already.
pub(crate) fn run_rule(rule: impl FnOnce()) {
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            IN_RULE.set(false);
        }
    }
    IN_RULE.set(true);
    let _end = End;
    rule();
}

/// FAILED_PRECONDITION in a rule of the program's.
pub(crate) fn check_no_rule() -> Result<()> {
    if IN_RULE.get() {
        return Err(Error::precondition(
            "called by an update rule of the program's, in the middle of an apply; a rule computes, and \
             calls no function of the library",
        ));
    }
    Ok(())
}

/// Runs a callback and reads its failure: the last error that it set or passed on, whose status
/// it must have returned, else a message that says that there was none.
pub(crate) fn run(callback: impl FnOnce() -> umbo_status) -> Result<()> {
    status::clear();
    match callback() {
        status::UMBO_OK => Ok(()),
        code => Err(status::callback_failure(code)),
    }
}

/// Runs a callback that may store a handle, and takes that over whatever the status. `argument` is its place.
pub(crate) fn stored<H: Opaque>(
    argument: &'static str,
    callback: impl FnOnce(*mut *mut H) -> umbo_status,
) -> Result<Option<H::Object>> {
    let mut handle = ptr::null_mut();
    let ran = run(|| callback(&raw mut handle));
    let object = (!handle.is_null()).then(|| consume(handle, argument));
    ran?;
    object.transpose()
}
