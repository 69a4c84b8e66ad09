//! The clocks of the kernel.

use std::fs::File;
use std::io::Read;

use crate::posix::clock::read;

/// Nanoseconds of the system's steady clock, which all processes of a machine share.
#[inline]
pub fn now() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// The same clock, up to some milliseconds late, at almost no cost.
#[inline]
pub fn coarse() -> u64 {
    read(libc::CLOCK_MONOTONIC_COARSE)
}

/// Nanoseconds for which the calling thread has been on a processor.
#[inline]
pub fn on_processor() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds for which the calling thread was ready and had no processor; 0 if the system does
/// not report it.
pub fn ready() -> u64 {
    // The text has three numbers. It is read to the stack, so that a measured step allocates
    // nothing.
    let mut text = [0u8; 96];
    let file = File::open("/proc/thread-self/schedstat");
    let length = file.and_then(|mut file| file.read(&mut text)).unwrap_or(0);
    let text = std::str::from_utf8(&text[..length]).unwrap_or_default();
    text.split_ascii_whitespace()
        .nth(1)
        .and_then(|field| field.parse().ok())
        .unwrap_or(0)
}
