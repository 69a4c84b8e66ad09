//! The process, as the C library knows it.

pub use std::process::id;

/// Calls `function` when the process ends, or when the library is unloaded. A panic must not leave
/// it.
pub fn at_exit(function: extern "C" fn()) {
    // SAFETY: a safe function may be called at any time. The loader keeps the library that has it
    // until it was called. If there is no memory to register it, it is not called.
    unsafe { libc::atexit(function) };
}

/// Calls `function` in each child that is forked from now on, before the fork returns there. It may
/// only store to memory: no other thread exists in the child, and locks that others held stay
/// locked.
pub fn in_forked_child(function: extern "C" fn()) {
    let function: unsafe extern "C" fn() = function;
    // SAFETY: a safe function may be called at any time. If there is no memory to register it, it
    // is not called.
    unsafe { libc::pthread_atfork(None, None, Some(function)) };
}
