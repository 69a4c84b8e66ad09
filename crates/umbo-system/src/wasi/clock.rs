//! The steady clock of the runtime.

/// Nanoseconds of the runtime's steady clock.
#[inline]
pub fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: there is memory for the time, and the number of the clock is the C library's.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The same clock: there is none that is cheaper.
#[inline]
pub fn coarse() -> u64 {
    now()
}

/// The same clock: the runtime does not report for how long it was on a processor, and the only
/// thread waits for no other.
#[inline]
pub fn on_processor() -> u64 {
    now()
}

/// The runtime does not report for how long a thread was ready.
pub fn ready() -> u64 {
    0
}
