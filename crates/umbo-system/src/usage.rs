//! The users of the processors: threads of this process, and other processes.

pub use crate::platform::usage::{
    RESOLUTION, ThreadTime, load_averages, processors, thread_name, threads,
};

/// How long the processors that this process may use were busy since the system was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessorTime {
    /// With anything, other guests of the same host included, in nanoseconds.
    pub busy: u64,
    /// With this process, in nanoseconds.
    pub own_time: u64,
    /// How many processors these are.
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
