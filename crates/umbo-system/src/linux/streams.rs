//! Standard error, which may be a pipe whose reader has ended.

use std::mem::MaybeUninit;
use std::ptr;

/// Writes to standard error in one call, without a lock. If standard error is closed, or nobody
/// reads it any more, the bytes are lost, and the process continues.
pub fn write_error(bytes: &[u8]) {
    without_signal(|| {
        // SAFETY: the bytes exist and are only read.
        unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) }
    });
}

unsafe extern "C" {
    /// The C library's own standard output, in which `printf` collects what it prints.
    static stdout: *mut libc::FILE;
}

/// Writes what the program has printed by C functions and the C library still has.
pub fn flush_output() {
    // SAFETY: the C library has opened the stream before `main`, or set it to what the program
    // opened in its place.
    without_signal(|| unsafe { libc::fflush(stdout) });
}

/// Runs `write` without the signal that the system sends to a thread that writes to a pipe without
/// a reader, and that usually ends the process. The write only fails. A signal that the program has
/// blocked and not taken yet stays.
fn without_signal<R>(write: impl FnOnce() -> R) -> R {
    let mut pipe = MaybeUninit::uninit();
    let mut pending = MaybeUninit::zeroed();
    let mut before = MaybeUninit::zeroed();
    // SAFETY: the sets have memory, are initialised by the first call or are all zeros, and live
    // during the calls; the signal exists.
    let was_pending = unsafe {
        libc::sigemptyset(pipe.as_mut_ptr());
        libc::sigaddset(pipe.as_mut_ptr(), libc::SIGPIPE);
        libc::sigpending(pending.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, pipe.as_ptr(), before.as_mut_ptr());
        libc::sigismember(pending.as_ptr(), libc::SIGPIPE) == 1
    };
    let result = write();
    // SAFETY: as above; the mask is the one that the thread had. Waiting for no time takes the
    // signal away, if there is one.
    unsafe {
        if !was_pending {
            let no_time = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            libc::sigtimedwait(pipe.as_ptr(), ptr::null_mut(), &no_time);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
    }
    result
}
