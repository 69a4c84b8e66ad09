//! A thread that stays on some processors as long as no other program uses them.
//!
//! A bound thread keeps its caches. If other programs use its processor, it waits for its turn
//! there, some milliseconds each time, even if another processor is free, or will be free at once,
//! such as that of the thread that has just handed it a step and waits. So if a thread was ready
//! and had no processor for more than a tenth of the time, its binding is removed for a while, and
//! it may run on any processor of its process. Later it is bound again, if the machine is quiet.

use super::affinity::{self, CpuSet};
use super::thread;
use umbo_base::error::Result;
use umbo_base::observe::log::{self, Level};
use umbo_system::clock;

/// The length of the window that is measured before each decision, in nanoseconds.
const WINDOW: u64 = 20_000_000;
/// The binding is removed if the thread was kept from a processor for more than one part in this
/// number of a window.
const TOO_MUCH: u64 = 10;
/// A window is quiet if the thread was kept from a processor for at most one part in this number of
/// it.
const QUIET: u64 = 50;
/// The shortest time without a binding, the first time that the binding is removed. Each later time
/// is twice as long, until the thread has been bound for a quiet window.
const SHORTEST_FREE: u64 = 1_000_000_000;
const LONGEST_FREE: u64 = 32_000_000_000;

/// The binding of the calling thread.
#[derive(Debug)]
pub struct Binding {
    preferred: CpuSet,
    all: CpuSet,
    /// None if there is nothing to decide, because the thread may run on all processors anyway, or
    /// because the program has placed it.
    pace: Option<Pace>,
}

impl Binding {
    /// Binds the calling thread, which belongs to the library, to the `preferred` of the processors
    /// `all`.
    /// Errors are those of [`thread::bind`].
    pub fn new(preferred: CpuSet, all: CpuSet) -> Result<Binding> {
        thread::bind(&preferred)?;
        let pace = (preferred != all).then(|| Pace::new(clock::coarse(), clock::ready()));
        Ok(Binding {
            preferred,
            all,
            pace,
        })
    }

    /// The processor to which the thread is bound, if it is only one. Without a binding, it is the
    /// processor on which the thread runs now.
    pub fn processor(&self) -> Option<usize> {
        if self.is_free() {
            return affinity::current_processor();
        }
        let mut processors = self.preferred.processors();
        processors.next().filter(|_| processors.next().is_none())
    }

    /// Whether the binding is removed for a while.
    pub fn is_free(&self) -> bool {
        self.pace.as_ref().is_some_and(|pace| pace.is_free)
    }

    /// Removes the binding or restores it, if it is time. Returns whether it did. It is called on
    /// the thread, between two steps. It takes some nanoseconds and allocates nothing.
    pub fn update(&mut self) -> bool {
        let Some(pace) = &mut self.pace else {
            return false;
        };
        let now = clock::coarse();
        if !pace.is_due(now) {
            return false;
        }
        let was_free = pace.is_free;
        pace.decide(now, clock::ready());
        if pace.is_free == was_free {
            return false;
        }
        let (before, after) = if was_free {
            (&self.all, &self.preferred)
        } else {
            (&self.preferred, &self.all)
        };
        // If the program has placed the thread itself, its choice is kept.
        if !affinity::is_bound_to(before) || affinity::bind_current_thread(after).is_err() {
            self.pace = None;
            return true;
        }
        log::keep(Level::Debug, || {
            let name = thread::current_name();
            match was_free {
                true => format!("{name} is bound to processor {} again", self.preferred),
                false => format!(
                    "{name} may run on processors {} for a while: others use {}, its own",
                    self.all, self.preferred
                ),
            }
        });
        true
    }
}

/// Decides from the clocks alone when to bind the thread.
#[derive(Debug)]
struct Pace {
    is_free: bool,
    /// The time when the window began; `ready` is how long the thread had been ready without a
    /// processor by then.
    since: u64,
    ready: u64,
    /// The time until which it stays free.
    until: u64,
    /// How long it is free the next time.
    free_for: u64,
}

impl Pace {
    fn new(now: u64, ready: u64) -> Pace {
        Pace {
            is_free: false,
            since: now,
            ready,
            until: 0,
            free_for: SHORTEST_FREE,
        }
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
        let mut now = 2 * WINDOW;
        let mut ready = ready + WINDOW / TOO_MUCH + 1;
        pace.decide(now, ready);
        assert!(pace.is_free);
        // The window is quiet, but the thread stays free for a second.
        now += SECOND / 2;
        pace.decide(now, ready);
        assert!(pace.is_free);
        // After that second, it is bound in a quiet window.
        now += SECOND;
        ready += SECOND / 40;
        pace.decide(now, ready);
        assert!(pace.is_free, "a fortieth is not quiet");
        now += WINDOW;
        pace.decide(now, ready);
        assert!(!pace.is_free);
    }

    #[test]
    fn rebinding_backs_off() {
        let mut now = 0;
        let mut ready = 0;
        let mut pace = Pace::new(now, ready);
        let mut free = Vec::new();
        for _ in 0..8 {
            // With the binding it waits half of the time, and without it, never.
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
        assert!(
            pace.is_free && pace.until == now + SECOND,
            "after a quiet window it begins anew"
        );
    }

    #[test]
    fn a_system_that_does_not_say_keeps_it_bound() {
        let mut pace = Pace::new(0, 0);
        for window in 1..1000 {
            pace.decide(window * WINDOW, 0);
            assert!(!pace.is_free);
        }
    }

    /// The thread shares its processor with a thread that never sleeps.
    #[test]
    fn a_busy_processor_is_left() {
        let all = affinity::process_processors().clone();
        if all.count() < 2 || clock::ready() == 0 && !said() {
            return;
        }
        let preferred: CpuSet = all.processors().take(1).collect();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                affinity::bind_current_thread(&preferred).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            scope.spawn(|| {
                let mut binding = Binding::new(preferred.clone(), all.clone()).unwrap();
                assert_eq!(binding.processor(), preferred.processors().next());
                while !binding.update() {
                    std::hint::spin_loop();
                }
                assert!(binding.is_free() && affinity::is_bound_to(&all));
                stop.store(true, Ordering::Relaxed);
                // If the program has placed the thread, it stays there.
                affinity::bind_current_thread(&preferred).unwrap();
                binding.pace = Some(Pace {
                    is_free: true,
                    ..Pace::new(0, clock::ready())
                });
                while binding.pace.is_some() {
                    binding.update();
                    std::thread::yield_now();
                }
                assert!(affinity::is_bound_to(&preferred));
            });
        });
    }

    /// Whether the system reports how long a thread was ready, as it does for one that shares its
    /// processor.
    fn said() -> bool {
        std::fs::read_to_string("/proc/thread-self/schedstat").is_ok()
    }
}
