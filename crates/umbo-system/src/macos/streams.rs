//! The signal of a pipe without a reader.

use std::ffi::c_int;

use parking_lot::Mutex;

pub use crate::posix::streams::{flush_output, write_error};

/// Runs `write`, which writes to this descriptor, without the signal that the system sends to a
/// process that writes to a pipe without a reader, and that usually ends the process. The write
/// only fails. A thread cannot block this signal for others, so the open file is told to send none
/// meanwhile, for one thread at a time.
pub fn without_signal<R>(descriptor: c_int, write: impl FnOnce() -> R) -> R {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock();
    // SAFETY: the calls take numbers. A descriptor that is closed is refused.
    let before = unsafe { libc::fcntl(descriptor, libc::F_GETNOSIGPIPE) };
    let change = |to: c_int| {
        if before == 0 {
            // SAFETY: as above.
            unsafe { libc::fcntl(descriptor, libc::F_SETNOSIGPIPE, to) };
        }
    };
    change(1);
    let result = write();
    change(0);
    result
}
