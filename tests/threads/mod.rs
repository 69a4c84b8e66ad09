//! Threads that do not start: for tests that are alone in their process.

use std::ffi::c_void;
use std::mem::transmute;
use std::sync::atomic::{AtomicI64, Ordering};

/// How many more threads may start.
static ALLOWED: AtomicI64 = AtomicI64::new(i64::MAX);

type Start = unsafe extern "C" fn(
    *mut libc::pthread_t,
    *const libc::pthread_attr_t,
    extern "C" fn(*mut c_void) -> *mut c_void,
    *mut c_void,
) -> i32;

/// Takes the place of the system's function.
///
/// # Safety
/// As for the system's.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    body: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> i32 {
    if ALLOWED.fetch_sub(1, Ordering::SeqCst) <= 0 {
        return libc::EAGAIN;
    }
    // SAFETY: the next object of this name is the system's function, which has this type.
    unsafe {
        let start = libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr());
        assert!(!start.is_null());
        transmute::<*mut c_void, Start>(start)(thread, attributes, body, argument)
    }
}

/// Runs `body` while no more than so many threads may start.
pub fn allowing<T>(threads: i64, body: impl FnOnce() -> T) -> T {
    ALLOWED.store(threads, Ordering::SeqCst);
    let result = body();
    ALLOWED.store(i64::MAX, Ordering::SeqCst);
    result
}
