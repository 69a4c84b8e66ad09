//! Calling the C functions from tests: what they return, and what they make.

use std::ffi::CStr;
use std::ptr;

use umbo::*;

/// What went wrong last on this thread.
pub fn last_message() -> String {
    // SAFETY: the text lives until the thread's next call.
    unsafe { CStr::from_ptr(umbo_last_error_message()) }
        .to_string_lossy()
        .into_owned()
}

/// Demands that a call succeeds.
#[track_caller]
pub fn ok(status: umbo_status) {
    assert_eq!(status, UMBO_OK, "{}", last_message());
}

/// Demands that a call fails with this status and a message that contains `parts`.
#[track_caller]
pub fn refused(status: umbo_status, expected: umbo_status, parts: &[&str]) {
    let message = last_message();
    assert_eq!(status, expected, "{message}");
    for part in parts {
        assert!(message.contains(part), "'{part}' is not in: {message}");
    }
}

/// The output of a function that makes something.
#[track_caller]
pub fn made<T>(make: impl FnOnce(*mut *mut T) -> umbo_status) -> *mut T {
    let mut output = ptr::null_mut();
    ok(make(&raw mut output));
    assert!(!output.is_null());
    output
}
