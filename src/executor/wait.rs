//! How a thread waits for others, everywhere off the locks: it spins for a bounded time, and then parks.
//!
//! The one who parks looks again after it has said so, and the one who makes the condition true looks for
//! somebody who parks after that; between the store and the look of each side lies a sequentially consistent
//! fence. So one of the two sees the other.

use std::time::{Duration, Instant};

use super::sync::{AtomicBool, Mutex, Ordering, Thread, current, fence, park, spin_loop};

/// How long a waiting thread spins before it parks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spin(Duration);

impl Spin {
    /// It parks at once: there are more threads than processors, or the wait is a long one.
    pub const NEVER: Spin = Spin(Duration::ZERO);
    /// Longer than a hand-off takes, shorter than a sleep costs.
    pub const BOUNDED: Spin = Spin(Duration::from_micros(50));

    /// For so long.
    pub const fn lasting(time: Duration) -> Spin {
        Spin(time)
    }

    /// Whether `ready` says so while this thread spins.
    #[cfg(not(loom))]
    fn until(self, ready: &mut impl FnMut() -> bool) -> bool {
        /// The clock is looked at only once in so many rounds.
        const ROUNDS_PER_LOOK: u32 = 64;
        // Short waits are over before the first look.
        let mut start = None;
        loop {
            for _ in 0..ROUNDS_PER_LOOK {
                if ready() {
                    return true;
                }
                spin_loop();
            }
            if start.get_or_insert_with(Instant::now).elapsed() >= self.0 {
                return false;
            }
        }
    }

    /// A model explores every interleaving anyway; spinning would only make it longer.
    #[cfg(loom)]
    fn until(self, ready: &mut impl FnMut() -> bool) -> bool {
        spin_loop();
        ready()
    }
}

/// Where one thread at a time waits for a condition that other threads make true.
pub struct Signal {
    asleep: AtomicBool,
    sleeper: Mutex<Option<Thread>>,
}

impl Signal {
    /// Nobody waits yet.
    #[cfg(not(loom))]
    pub const fn new() -> Signal {
        Signal { asleep: AtomicBool::new(false), sleeper: Mutex::new(None) }
    }

    /// Nobody waits yet. (loom's atomics are made while a model runs.)
    #[cfg(loom)]
    pub fn new() -> Signal {
        Signal { asleep: AtomicBool::new(false), sleeper: Mutex::new(None) }
    }

    /// Whether a thread has parked here, or is about to.
    pub fn has_sleeper(&self) -> bool {
        self.asleep.load(Ordering::Relaxed)
    }

    /// Makes the waiting thread, if there is one, look again, and returns whether it had parked. What makes
    /// its condition true must have been stored before.
    pub fn notify(&self) -> bool {
        fence(Ordering::SeqCst);
        let parked = self.has_sleeper();
        if parked {
            // The lock is free again before the sleeper wakes, who may want it next.
            let sleeper = self.sleeper.lock().take();
            if let Some(sleeper) = sleeper {
                sleeper.unpark();
            }
        }
        parked
    }

    /// Waits until `ready` says so or the deadline passes; returns what `ready` said last.
    pub fn wait_until(
        &self,
        spin: Spin,
        deadline: Option<Instant>,
        mut ready: impl FnMut() -> bool,
    ) -> bool {
        if ready() || spin != Spin::NEVER && spin.until(&mut ready) {
            return true;
        }
        let own = current();
        loop {
            *self.sleeper.lock() = Some(own.clone());
            self.asleep.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            let done = ready();
            let late = !done && deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if !done && !late {
                sleep(deadline);
            }
            self.asleep.store(false, Ordering::Relaxed);
            if done || late || ready() {
                return !late;
            }
        }
    }
}

impl Default for Signal {
    fn default() -> Signal {
        Signal::new()
    }
}

#[cfg(not(loom))]
fn sleep(deadline: Option<Instant>) {
    match deadline {
        None => park(),
        Some(deadline) => {
            std::thread::park_timeout(deadline.saturating_duration_since(Instant::now()))
        }
    }
}

/// Models have no clock: a deadline is an event of its own there.
#[cfg(loom)]
fn sleep(_deadline: Option<Instant>) {
    park();
}
