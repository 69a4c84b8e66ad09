//! Threads, as the kernel knows them.

pub use crate::posix::threads::{BlockedSignals, is_current, name, stack_limit};

/// The system's id of the calling thread.
#[inline]
pub fn number() -> u32 {
    // The C library has a function for this only from glibc 2.30 on.
    // SAFETY: the call has no preconditions.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}
