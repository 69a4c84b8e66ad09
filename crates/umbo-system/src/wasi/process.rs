//! The process, as the C library knows it.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// A random number, since programs have none that the runtime knows.
pub fn id() -> u32 {
    static ID: OnceLock<u32> = OnceLock::new();
    *ID.get_or_init(|| RandomState::new().hash_one(0) as u32)
}

/// Calls `function` when the program ends.
pub fn at_exit(function: extern "C" fn()) {
    // SAFETY: a safe function may be called at any time. If there is no memory to register it, it
    // is not called.
    unsafe { libc::atexit(function) };
}

/// A program has no forked children.
pub fn in_forked_child(_: extern "C" fn()) {}
