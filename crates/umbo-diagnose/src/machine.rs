//! Measures how much other processes use the processors that this process may use, with the
//! system's counters.

use umbo_system::clock;
use umbo_system::usage::{self, ProcessorTime, RESOLUTION};

/// The load of other processes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// The number of processors they used.
    pub others: f64,
    /// The number of processors this process may use.
    pub processors: u32,
}

impl Load {
    /// Whether `threads` threads of this process cannot all have had a processor.
    pub fn is_busy_for(&self, threads: u32) -> bool {
        let threads = f64::from(threads.clamp(1, self.processors.max(1)));
        self.others + threads > f64::from(self.processors) + BUSY
    }

    /// A text about the load of others: "other processes [...] used 1.5 of 2 processors".
    pub fn in_words(&self, used: &str) -> String {
        let Load { others, processors } = self;
        let plural = if *processors == 1 { "" } else { "s" };
        format!(
            "other processes (or other guests of this machine's host) {used} {others:.1} of \
             {processors} processor{plural}"
        )
    }
}

/// A smaller part of a processor does not count.
const BUSY: f64 = 0.25;

/// The shortest time, in nanoseconds, over which the system's counters say enough.
const SHORTEST: u64 = 10 * RESOLUTION;

/// The beginning of a measurement of the load.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch {
    begun: u64,
    time: Option<ProcessorTime>,
}

impl Watch {
    /// Begins a measurement.
    pub fn begin() -> Watch {
        Watch {
            begun: clock::now(),
            time: usage::processors(),
        }
    }

    /// The load of others since the beginning. `None` if the system does not report it, and right
    /// after the beginning.
    pub fn load(&self) -> Option<Load> {
        let nanoseconds = clock::now().saturating_sub(self.begun);
        let before = self.time?;
        let now = usage::processors().filter(|_| nanoseconds >= SHORTEST)?;
        let busy = now.busy.saturating_sub(before.busy);
        let others = busy.saturating_sub(now.own_time.saturating_sub(before.own_time));
        let others = others as f64 / nanoseconds as f64;
        Some(Load {
            others: others.min(now.processors.into()),
            processors: now.processors,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_is_busy_if_too_few_processors_are_left() {
        let load = |others, processors| Load { others, processors };
        assert!(!load(0.1, 2).is_busy_for(2) && load(0.5, 2).is_busy_for(2));
        assert!(!load(1.0, 2).is_busy_for(1) && load(1.5, 2).is_busy_for(1));
        assert!(!load(16.0, 64).is_busy_for(4) && load(62.0, 64).is_busy_for(4));
        // More threads than processors are a different cause.
        assert!(!load(0.1, 2).is_busy_for(8));
        assert!(
            load(1.44, 2)
                .in_words("used")
                .contains("used 1.4 of 2 processors")
        );
    }

    #[test]
    fn own_processor_time_does_not_count_as_other_load() {
        let watch = Watch::begin();
        assert_eq!(watch.load(), None, "too early to say");
        let until = clock::now() + SHORTEST;
        while clock::now() < until {}
        if let Some(load) = watch.load() {
            assert!(
                (0.0..=f64::from(load.processors)).contains(&load.others),
                "{load:?}"
            );
        }
    }
}
