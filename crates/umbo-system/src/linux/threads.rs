//! Threads, as the kernel knows them.

pub use crate::posix::threads::{BlockedSignals, is_current, name, stack_limit};

/// The system's id of the calling thread.
#[inline]
pub fn number() -> u32 {
    // SAFETY: the call has no preconditions.
    unsafe { libc::gettid() as u32 }
}
