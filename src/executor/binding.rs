//! A thread that keeps to some processors as long as nobody else wants them.
//!
//! A bound thread stays with its caches, and its processor with it. Where other programs use that
//! processor, it waits for its turn there, some milliseconds each time, even if another processor is free or
//! will be at once, as that of the thread that has just handed it a step and waits. So a thread that
//! was ready and had no processor for more than a tenth of the time is set free for a while, to run on any
//! processor of its process's; later it is bound again, if the machine looks quiet.

use super::affinity::{self, CpuSet};
use super::thread;
use crate::error::Result;
use crate::observe::clock;
use crate::observe::log::{self, Level};

/// How long it is watched before anything is decided, in nanoseconds.
const WINDOW: u64 = 20_000_000;
/// Of a window so much is too much to be kept from a processor: one in so many.
const TOO_MUCH: u64 = 10;
/// Of a window so little is quiet: one in so many.
const QUIET: u64 = 50;
/// How long it is free at least when it is set free for the first time; and each time after that twice as
/// long, until it has been bound for a quiet window.
const SHORTEST_FREE: u64 = 1_000_000_000;
const LONGEST_FREE: u64 = 32_000_000_000;

/// The binding of the calling thread.
#[derive(Debug)]
pub struct Binding {
    own: CpuSet,
    all: CpuSet,
    /// None if there is nothing to decide: the thread may run everywhere anyway, or is not ours to place
    /// any more.
    pace: Option<Pace>,
}

impl Binding {
    /// Binds the calling thread, one of the library's, to `own` of the processors `all`. Errors as for
    /// [`thread::bind`].
    pub fn new(own: CpuSet, all: CpuSet) -> Result<Binding> {
        thread::bind(&own)?;
        let pace = (own != all).then(|| Pace::new(clock::coarse(), clock::ready()));
        Ok(Binding { own, all, pace })
    }

    /// The processor that the thread is bound to, if it is just one; while it is free, the one that it is
    /// on now.
    pub fn processor(&self) -> Option<usize> {
        if self.is_free() {
            return affinity::current_processor();
        }
        let mut processors = self.own.processors();
        processors.next().filter(|_| processors.next().is_none())
    }

    /// Whether it has been set free for a while.
    pub fn is_free(&self) -> bool {
        self.pace.as_ref().is_some_and(|pace| pace.is_free)
    }

    /// Sets the thread free or binds it again if it is time. Returns whether it did. Called on the thread,
    /// between two steps; takes some nanoseconds, and allocates nothing.
    pub fn update(&mut self) -> bool {
        let Some(pace) = &mut self.pace else { return false };
        let now = clock::coarse();
        if !pace.is_due(now) {
            return false;
        }
        let was_free = pace.is_free;
        pace.decide(now, clock::ready());
        if pace.is_free == was_free {
            return false;
        }
        let (before, after) =
            if was_free { (&self.all, &self.own) } else { (&self.own, &self.all) };
        // A program that has placed the thread itself knows better.
        if !affinity::is_bound_to(before) || affinity::bind_current_thread(after).is_err() {
            self.pace = None;
            return true;
        }
        log::log(Level::Debug, || {
            let name = thread::current_name();
            match was_free {
                true => format!("{name} is bound to processor {} again", self.own),
                false => format!(
                    "{name} may run on processors {} for a while: others use {}, its own",
                    self.all, self.own
                ),
            }
        });
        true
    }
}

/// When to bind and when not, from the clocks alone.
#[derive(Debug)]
struct Pace {
    is_free: bool,
    /// When the window began, and for how long the thread had been ready without a processor then.
    since: u64,
    ready: u64,
    /// Until then it stays free.
    until: u64,
    /// For so long it is set free the next time.
    free_for: u64,
}

impl Pace {
    fn new(now: u64, ready: u64) -> Pace {
        Pace { is_free: false, since: now, ready, until: 0, free_for: SHORTEST_FREE }
    }

    fn is_due(&self, now: u64) -> bool {
        now.saturating_sub(self.since) >= WINDOW
    }

    fn decide(&mut self, now: u64, ready: u64) {
        let window = now.saturating_sub(self.since);
        let waited = ready.saturating_sub(self.ready);
        (self.since, self.ready) = (now, ready);
        let is_quiet = waited <= window / QUIET;
        if self.is_free {
            self.is_free = now < self.until || !is_quiet;
        } else if waited > window / TOO_MUCH {
            self.is_free = true;
            self.until = now.saturating_add(self.free_for);
            self.free_for = (self.free_for * 2).min(LONGEST_FREE);
        } else if is_quiet {
            self.free_for = SHORTEST_FREE;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_thread_that_is_kept_waiting_is_set_free_and_bound_when_it_is_quiet() {
        let mut pace = Pace::new(0, 5);
        assert!(!pace.is_due(WINDOW - 1) && pace.is_due(WINDOW));
        pace.decide(WINDOW, 5 + WINDOW / TOO_MUCH);
        assert!(!pace.is_free, "a tenth is not too much");
        let ready = 5 + WINDOW / TOO_MUCH;
        let (mut now, mut ready) = (2 * WINDOW, ready + WINDOW / TOO_MUCH + 1);
        pace.decide(now, ready);
        assert!(pace.is_free);
        // Quiet at once, but it is free for a second.
        now += SECOND / 2;
        pace.decide(now, ready);
        assert!(pace.is_free);
        // After that second it is bound in a window that is quiet.
        now += SECOND;
        ready += SECOND / 40;
        pace.decide(now, ready);
        assert!(pace.is_free, "a fortieth is not quiet");
        now += WINDOW;
        pace.decide(now, ready);
        assert!(!pace.is_free);
    }

    #[test]
    fn in_vain_it_is_bound_less_and_less_often() {
        let (mut now, mut ready) = (0, 0);
        let mut pace = Pace::new(now, ready);
        let mut free = Vec::new();
        for _ in 0..8 {
            // Bound, it waits half of the time; free, never.
            now += WINDOW;
            ready += WINDOW / 2;
            pace.decide(now, ready);
            assert!(pace.is_free);
            let begun = now;
            while pace.is_free {
                now += WINDOW;
                pace.decide(now, ready);
            }
            free.push((now - begun) / SECOND);
        }
        assert_eq!(free, [1, 2, 4, 8, 16, 32, 32, 32]);
        now += WINDOW;
        pace.decide(now, ready);
        now += WINDOW;
        pace.decide(now, ready + WINDOW);
        assert!(pace.is_free && pace.until == now + SECOND, "after a quiet window it begins anew");
    }

    #[test]
    fn a_system_that_does_not_say_keeps_it_bound() {
        let mut pace = Pace::new(0, 0);
        for window in 1..1000 {
            pace.decide(window * WINDOW, 0);
            assert!(!pace.is_free);
        }
    }

    /// Beside a thread that never sleeps, on the same processor.
    #[test]
    fn a_busy_processor_is_left() {
        let all = affinity::process_processors().clone();
        if all.count() < 2 || clock::ready() == 0 && !said() {
            return;
        }
        let own: CpuSet = all.processors().take(1).collect();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                affinity::bind_current_thread(&own).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            scope.spawn(|| {
                let mut binding = Binding::new(own.clone(), all.clone()).unwrap();
                assert_eq!(binding.processor(), own.processors().next());
                while !binding.update() {
                    std::hint::spin_loop();
                }
                assert!(binding.is_free() && affinity::is_bound_to(&all));
                stop.store(true, Ordering::Relaxed);
                // Placed by the program, it is left where it is.
                affinity::bind_current_thread(&own).unwrap();
                binding.pace = Some(Pace { is_free: true, ..Pace::new(0, clock::ready()) });
                while binding.pace.is_some() {
                    binding.update();
                    std::thread::yield_now();
                }
                assert!(affinity::is_bound_to(&own));
            });
        });
    }

    /// Whether the system says for how long a thread was ready: one that shares its processor was.
    fn said() -> bool {
        std::fs::read_to_string("/proc/thread-self/schedstat").is_ok()
    }
}
