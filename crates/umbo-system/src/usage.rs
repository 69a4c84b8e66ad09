//! The users of the processors: threads of this process, and other processes.

pub use crate::platform::usage::{
    RESOLUTION, ThreadTime, load_averages, processors, thread_name, threads,
};

/// The time for which the processors that this process may use were busy since the system was
/// started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessorTime {
    /// The time for which they were busy, with other guests of the same host too, in nanoseconds.
    pub busy: u64,
    /// The time for which they ran this process, in nanoseconds.
    pub own_time: u64,
    /// The number of these processors.
    pub processors: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads;

    #[test]
    fn the_calling_thread_is_among_the_threads() {
        let thread = threads::number();
        if self::threads().any(|time| time.thread == thread) {
            assert_eq!(thread_name(thread), Some(threads::name()));
        }
        assert_eq!(thread_name(u32::MAX), None);
    }
}
