//! The clocks of the kernel.

use crate::posix::clock::read;

/// Nanoseconds of the system's steady clock, which all processes of a machine share. It stands
/// still while the machine sleeps, as the standard library's does.
#[inline]
pub fn now() -> u64 {
    read(libc::CLOCK_UPTIME_RAW)
}

/// The same clock, up to some milliseconds late, at almost no cost.
#[inline]
pub fn coarse() -> u64 {
    read(libc::CLOCK_UPTIME_RAW_APPROX)
}

/// Nanoseconds for which the calling thread has been on a processor.
#[inline]
pub fn on_processor() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The system does not report for how long a thread was ready.
pub fn ready() -> u64 {
    0
}
