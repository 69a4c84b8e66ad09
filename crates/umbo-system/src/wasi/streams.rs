//! Standard error, as the C library knows it.

use std::ptr;

/// Writes to standard error in one call. If it is closed, the bytes are lost.
pub fn write_error(bytes: &[u8]) {
    // SAFETY: the bytes exist and are only read.
    unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) };
}

/// Writes what the program has printed by C functions and the C library still has.
pub fn flush_output() {
    // SAFETY: null stands for all streams that are open for writing.
    unsafe { libc::fflush(ptr::null_mut()) };
}
