//! Threads, as the kernel knows them.

pub use crate::posix::threads::{BlockedSignals, is_current, name, stack_limit};

/// The system's id of the calling thread. It has 64 bits, of which the kernel, which counts threads
/// from its start on, uses the lower half for years.
#[inline]
pub fn number() -> u32 {
    let mut number = 0;
    // SAFETY: zero stands for the calling thread, and there is memory for the number.
    unsafe { libc::pthread_threadid_np(0, &mut number) };
    number as u32
}
