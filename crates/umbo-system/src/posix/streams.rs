//! Standard output and standard error, which may be pipes whose readers have ended.

use crate::platform::streams::without_signal;

/// Writes to standard error in one call, without a lock. If standard error is closed, or nobody
/// reads it any more, the bytes are lost, and the process continues.
pub fn write_error(bytes: &[u8]) {
    without_signal(libc::STDERR_FILENO, || {
        // SAFETY: the bytes exist and are only read.
        unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) }
    });
}

unsafe extern "C" {
    /// The C library's own standard output, in which `printf` collects what it prints.
    #[cfg_attr(target_os = "macos", link_name = "__stdoutp")]
    static stdout: *mut libc::FILE;
}

/// Writes what the program has printed by C functions and the C library still has.
pub fn flush_output() {
    // SAFETY: the C library has opened the stream before `main`, or set it to what the program
    // opened in its place.
    without_signal(libc::STDOUT_FILENO, || unsafe { libc::fflush(stdout) });
}
