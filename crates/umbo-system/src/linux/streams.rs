//! The signal of a pipe without a reader.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;

pub use crate::posix::streams::{flush_output, write_error};

/// Runs `write`, which writes to this descriptor, without the signal that the system sends to a
/// thread that writes to a pipe without a reader, and that usually ends the process. The write only
/// fails. A signal that the program has blocked and not taken yet stays.
pub fn without_signal<R>(_: c_int, write: impl FnOnce() -> R) -> R {
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
