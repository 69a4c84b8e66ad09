//! The runtime does not report who uses the processors.

use std::iter;

use crate::usage::ProcessorTime;

/// The resolution of times, if there were any: a nanosecond.
pub const RESOLUTION: u64 = 1;

/// The time of a thread of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadTime {
    /// The number of the thread.
    pub thread: u32,
    /// The time for which it has been on a processor, in nanoseconds.
    pub nanoseconds: u64,
}

/// The times of threads are not reported.
pub fn threads() -> impl Iterator<Item = ThreadTime> {
    iter::empty()
}

/// The name of a thread, given its number.
pub fn thread_name(thread: u32) -> Option<String> {
    (thread == super::threads::number()).then(super::threads::name)
}

/// The time of processors is not reported.
pub fn processors() -> Option<ProcessorTime> {
    None
}

/// The number of threads that are ready is not reported.
pub fn load_averages() -> Option<[f64; 3]> {
    None
}
