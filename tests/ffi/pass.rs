//! The passes of generators that count how many elements they have given.

use std::ffi::c_void;

use umbo::umbo_status;

/// Begins a pass.
///
/// # Safety
/// `pass` is a place for it.
pub unsafe fn begin(pass: *mut *mut c_void) -> umbo_status {
    // SAFETY: the caller's promise.
    unsafe { *pass = Box::into_raw(Box::new(0usize)).cast() };
    umbo::UMBO_OK
}

/// How many elements it has given.
///
/// # Safety
/// `pass` was begun and has not ended, and nobody else looks at it meanwhile.
pub unsafe fn count<'a>(pass: *mut c_void) -> &'a mut usize {
    // SAFETY: the caller's promise.
    unsafe { &mut *pass.cast::<usize>() }
}

/// Ends it.
///
/// # Safety
/// `pass` was begun and has not ended.
pub unsafe fn end(pass: *mut c_void) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(pass.cast::<usize>()) });
}
