//! The counter of performance, and the time of threads.

use std::sync::OnceLock;

use windows_sys::Win32::Foundation::{FILETIME, HANDLE};
use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};
use windows_sys::Win32::System::Threading::{GetCurrentThread, GetThreadTimes};

const SECOND: u64 = 1_000_000_000;

/// Nanoseconds of the system's steady clock, which all processes of a machine share.
#[inline]
pub fn now() -> u64 {
    static FREQUENCY: OnceLock<u64> = OnceLock::new();
    let frequency = *FREQUENCY.get_or_init(|| {
        let mut frequency = 0;
        // SAFETY: there is memory for the number.
        unsafe { QueryPerformanceFrequency(&mut frequency) };
        frequency.max(1) as u64
    });
    let mut ticks = 0;
    // SAFETY: there is memory for the number.
    unsafe { QueryPerformanceCounter(&mut ticks) };
    let ticks = ticks as u64;
    ticks / frequency * SECOND + ticks % frequency * SECOND / frequency
}

/// The same clock. The system has none that is cheaper and agrees with it.
#[inline]
pub fn coarse() -> u64 {
    now()
}

/// Nanoseconds for which the calling thread has been on a processor. The system counts them in
/// ticks of up to 16 ms.
#[inline]
pub fn on_processor() -> u64 {
    // SAFETY: the call only returns a number that stands for the calling thread.
    of_thread(unsafe { GetCurrentThread() }).unwrap_or(0)
}

/// The same for another thread.
pub(super) fn of_thread(thread: HANDLE) -> Option<u64> {
    let [mut made, mut ended, mut kernel, mut user] = [FILETIME::default(); 4];
    // SAFETY: there is memory for the times.
    let known =
        unsafe { GetThreadTimes(thread, &mut made, &mut ended, &mut kernel, &mut user) != 0 };
    known.then(|| nanoseconds(kernel) + nanoseconds(user))
}

/// The length of a time in nanoseconds.
pub(super) fn nanoseconds(time: FILETIME) -> u64 {
    (u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime)) * 100
}

/// The system does not report for how long a thread was ready.
pub fn ready() -> u64 {
    0
}
