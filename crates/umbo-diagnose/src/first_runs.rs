//! Warns of what slows every run down and is not the library's: computing libraries with old
//! kernels, and with more threads than there are processors.
//!
//! This happens whether or not steps are measured, so nearly all runs must cost nothing. The
//! libraries are looked at after the first run, which has loaded them. Later, at the runs whose
//! numbers are powers of two, the run is timed; after one of a millisecond or more, the threads of
//! the process are watched for a tenth of a second of runs. What they do between the runs cannot
//! fight with replicas, so nothing is said of a program that is mostly outside of runs.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::processes::Usage;
use crate::sample::Setup;
use crate::summary::Summary;
use crate::{advice, libraries};
use umbo_base::observe::log::{self, Level};
use umbo_system::{clock, threads};

/// A run that takes less, in nanoseconds, is not worth watching.
const LEAST_RUN: u64 = 1_000_000;

/// The time for which threads are watched, in nanoseconds.
const WATCHED: u64 = 100_000_000;

/// The runs after this one are not looked at.
const LAST: u64 = 1 << 20;

/// The old kernels of which this process has warned.
static WARNED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Looks at some of the runs of one strategy, of which there is one at a time.
#[derive(Debug)]
pub(super) struct FirstRuns {
    setup: Setup,
    /// The number of runs so far.
    runs: AtomicU64,
    /// The number of the next run that is looked at, from 1.
    next: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The time when the current run began.
    began: u64,
    /// The threads that are watched.
    watch: Option<ThreadWatch>,
}

/// The work of all threads since some run began.
#[derive(Debug)]
struct ThreadWatch {
    began: u64,
    usage: Usage,
    /// The time in runs.
    in_runs: u64,
    /// The threads that called the runs.
    callers: Vec<u32>,
}

impl FirstRuns {
    pub fn new(setup: Setup) -> FirstRuns {
        FirstRuns {
            setup,
            runs: AtomicU64::new(0),
            next: AtomicU64::new(1),
            state: Mutex::default(),
        }
    }

    /// Begins a run. Returns whether it is looked at.
    #[inline]
    pub fn begin(&self) -> bool {
        // Runs come one after the other.
        let run = self.runs.load(Ordering::Relaxed) + 1;
        self.runs.store(run, Ordering::Relaxed);
        run >= self.next.load(Ordering::Relaxed) && self.begin_watched(run)
    }

    #[cold]
    fn begin_watched(&self, run: u64) -> bool {
        if !log::is_wanted(Level::Warning) {
            self.next.store(after(run), Ordering::Relaxed);
            return false;
        }
        self.state.lock().began = clock::now();
        true
    }

    /// Ends a run that is looked at.
    #[cold]
    pub fn end(&self, strategy: u64) {
        let run = self.runs.load(Ordering::Relaxed);
        if run == 1 {
            warn_of_kernels();
        }
        let mut state = self.state.lock();
        let now = clock::now();
        let took = now.saturating_sub(state.began);
        let Some(watch) = &mut state.watch else {
            let is_long = run > 1 && took >= LEAST_RUN;
            state.watch = is_long.then(ThreadWatch::begin);
            self.next.store(
                if is_long { run + 1 } else { after(run) },
                Ordering::Relaxed,
            );
            return;
        };
        watch.note(took);
        if now.saturating_sub(watch.began) < WATCHED {
            return;
        }
        let warning = state
            .watch
            .take()
            .and_then(|watch| watch.fight(self.setup, now));
        let next = if warning.is_some() {
            u64::MAX
        } else {
            after(run)
        };
        self.next.store(next, Ordering::Relaxed);
        drop(state);
        if let Some(warning) = warning {
            log::keep(Level::Warning, || format!("strategy {strategy}: {warning}"));
        }
    }
}

/// The number of the run that is looked at after this one.
fn after(run: u64) -> u64 {
    if run < LAST {
        (run + 1).next_power_of_two()
    } else {
        u64::MAX
    }
}

fn warn_of_kernels() {
    for text in libraries::old_kernels(&libraries::loaded()) {
        let mut warned = WARNED.lock();
        if !warned.contains(&text) {
            warned.push(text.clone());
            drop(warned);
            log::keep(Level::Warning, || text);
        }
    }
}

impl ThreadWatch {
    fn begin() -> ThreadWatch {
        ThreadWatch {
            began: clock::now(),
            usage: Usage::now(),
            in_runs: 0,
            callers: Vec::new(),
        }
    }

    /// Notes a run of the calling thread.
    fn note(&mut self, took: u64) {
        let thread = threads::number();
        if !self.callers.contains(&thread) {
            self.callers.push(thread);
        }
        self.in_runs = self.in_runs.saturating_add(took);
    }

    /// A warning if, until `now`, a computing library with too many threads had some of them fight
    /// with the replicas. Other threads, such as those that load data, may be as the program
    /// wants them.
    fn fight(self, setup: Setup, now: u64) -> Option<String> {
        let all = now.saturating_sub(self.began);
        if self.in_runs < all / 10 * 8 {
            return None;
        }
        let (others, own_on_processor) = self.usage.since(&self.callers);
        let summary = Summary {
            setup,
            others,
            own_on_processor,
            ..Summary::default()
        };
        advice::fighting_threads(&summary)?;
        let summary = Summary {
            libraries: libraries::loaded(),
            ..summary
        };
        let Setup {
            cpu_devices,
            processors,
            ..
        } = setup;
        let are_too_many = summary
            .libraries
            .iter()
            .any(|library| library.has_too_many_threads(cpu_devices, processors));
        if are_too_many {
            advice::fighting_threads(&summary)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_runs_are_looked_at() {
        let setup = Setup {
            replicas: 2,
            devices: 2,
            cpu_devices: 2,
            processors: 2,
        };
        let runs = FirstRuns::new(setup);
        let looked_at = (1..=1000u64).filter(|_| {
            let looked_at = runs.begin();
            if looked_at {
                runs.end(7);
            }
            looked_at
        });
        assert_eq!(
            looked_at.collect::<Vec<_>>(),
            [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
        );
        assert_eq!((after(LAST - 1), after(LAST)), (LAST, u64::MAX));
    }

    #[test]
    fn runs_that_take_long_are_watched_for_some_time() {
        let setup = Setup {
            replicas: 1,
            devices: 1,
            cpu_devices: 1,
            processors: 1,
        };
        let runs = FirstRuns::new(setup);
        let mut looked_at = 0;
        let begun = clock::now();
        while clock::now() < begun + 2 * WATCHED {
            if runs.begin() {
                std::thread::sleep(std::time::Duration::from_nanos(2 * LEAST_RUN));
                runs.end(7);
                looked_at += 1;
            }
        }
        let watched = WATCHED / (2 * LEAST_RUN);
        assert!((3..=2 * watched).contains(&looked_at), "{looked_at}");
    }
}
