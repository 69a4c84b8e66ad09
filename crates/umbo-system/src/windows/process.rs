//! The process, as the C library knows it.

pub use std::process::id;

/// Calls `function` when the process ends, or when the library is unloaded. A panic must not leave
/// it.
pub fn at_exit(function: extern "C" fn()) {
    // SAFETY: a safe function may be called at any time. The C library calls it before the library
    // that has it is unloaded. If there is no memory to register it, it is not called.
    unsafe { libc::atexit(function) };
}

/// A process has no forked children on Windows.
pub fn in_forked_child(_: extern "C" fn()) {}
