//! Clocks by their numbers.

use std::mem::MaybeUninit;

/// Nanoseconds of a clock that the system has.
#[inline]
pub fn read(clock: libc::clockid_t) -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the clock is one that the system has, and there is memory for its time.
    let time = unsafe {
        libc::clock_gettime(clock, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
