//! How a thread waits for others, except at locks: it spins for a limited time, and then parks.
//!
//! A thread that parks checks its condition again after it has announced that it parks. A thread
//! that makes the condition true checks for a parked thread afterwards. Each side has a
//! sequentially consistent fence between its store and its check. So at least one of the two sees
//! the other's store.

#[cfg(not(loom))]
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use super::sync::{AtomicBool, Mutex, Ordering, Thread, current, fence, park, spin_loop};

/// The time for which a waiting thread spins before it parks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spin {
    time: Duration,
    /// Whether the thread takes part in central work meanwhile.
    helps: bool,
}

impl Spin {
    /// The thread parks at once, because there are more threads than processors, or the wait is
    /// long.
    pub const NEVER: Spin = Spin::lasting(Duration::ZERO);
    /// The time is longer than a hand-over takes, and shorter than the cost of a sleep. The thread
    /// parks earlier if the worker set needs the processor ([`LongOperation`]).
    pub const BOUNDED: Spin = Spin::lasting(Duration::from_micros(50));
    /// The same for a thread that waits for a step. While it spins, it helps with central work, and
    /// begins to spin anew after that.
    pub const HELPING: Spin = Spin {
        helps: true,
        ..Spin::BOUNDED
    };

    /// A spin of this duration, of the worker set itself.
    pub const fn lasting(time: Duration) -> Spin {
        Spin { time, helps: false }
    }

    /// The time for which it lasts.
    #[cfg(not(loom))]
    pub const fn duration(self) -> Duration {
        self.time
    }

    /// Whether the thread stops spinning while the worker set needs its processor.
    #[cfg(not(loom))]
    fn makes_way(self) -> bool {
        self == Spin::BOUNDED || self.helps
    }

    /// Spins until `ready` returns true or the time is over. Returns the last result of `ready`.
    #[cfg(not(loom))]
    fn until(self, ready: &mut impl FnMut() -> bool) -> bool {
        /// The clock is read only once in this number of rounds.
        const ROUNDS_PER_LOOK: u32 = 64;
        // Short waits end before the clock is first read.
        let mut start = None;
        loop {
            for _ in 0..ROUNDS_PER_LOOK {
                if ready() {
                    return true;
                }
                if self.helps && super::workers::help(ready) {
                    start = None;
                }
                spin_loop();
            }
            let needed = self.makes_way() && LONG_OPERATIONS.load(Ordering::Relaxed) > 0;
            if needed || start.get_or_insert_with(Instant::now).elapsed() >= self.time {
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

/// The number of [`LongOperation`]s.
#[cfg(not(loom))]
static LONG_OPERATIONS: AtomicUsize = AtomicUsize::new(0);

/// An operation of the worker set that takes longer than [`Spin::BOUNDED`]. Its workers need all
/// processors: on some of them, threads of replicas that have just ended a step would spin.
#[cfg(not(loom))]
pub struct LongOperation(());

#[cfg(not(loom))]
impl LongOperation {
    /// The operation begins.
    pub fn begin() -> LongOperation {
        LONG_OPERATIONS.fetch_add(1, Ordering::Relaxed);
        LongOperation(())
    }
}

#[cfg(not(loom))]
impl Drop for LongOperation {
    fn drop(&mut self) {
        LONG_OPERATIONS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A place where one thread at a time waits for a condition that other threads make true.
pub struct Signal {
    asleep: AtomicBool,
    sleeper: Mutex<Option<Thread>>,
}

impl Signal {
    /// A signal for which no thread waits yet.
    #[cfg(not(loom))]
    pub const fn new() -> Signal {
        Signal {
            asleep: AtomicBool::new(false),
            sleeper: Mutex::new(None),
        }
    }

    /// A signal for which no thread waits yet. (loom's atomics are made while a model runs.)
    #[cfg(loom)]
    pub fn new() -> Signal {
        Signal {
            asleep: AtomicBool::new(false),
            sleeper: Mutex::new(None),
        }
    }

    /// Whether a thread has parked here, or is about to.
    pub fn has_sleeper(&self) -> bool {
        self.asleep.load(Ordering::Relaxed)
    }

    /// Makes the waiting thread, if there is one, check its condition again. Returns whether it was
    /// woken. The stores that make its condition true must precede this call.
    pub fn notify(&self) -> bool {
        fence(Ordering::SeqCst);
        if !self.has_sleeper() {
            return false;
        }
        // The lock is released before the sleeper wakes, because the sleeper may need it next.
        let sleeper = self.sleeper.lock().take();
        sleeper.inspect(Thread::unpark).is_some()
    }

    /// Waits until `ready` returns true or the deadline passes. Returns the last result of `ready`.
    pub fn wait_until(
        &self,
        spin: Spin,
        deadline: Option<Instant>,
        mut ready: impl FnMut() -> bool,
    ) -> bool {
        if ready() || spin != Spin::NEVER && spin.until(&mut ready) {
            return true;
        }
        let own_thread = current();
        loop {
            *self.sleeper.lock() = Some(own_thread.clone());
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

/// Models have no clock, so a deadline is an event of its own.
#[cfg(loom)]
fn sleep(_deadline: Option<Instant>) {
    park();
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The number of times that a spin that ends in vain, or after `enough` looks, looks for what
    /// it waits for.
    fn looks(spin: Spin, enough: usize) -> usize {
        let mut looks = 0;
        spin.until(&mut || {
            looks += 1;
            looks == enough
        });
        looks
    }

    #[test]
    fn waiters_stop_spinning_during_long_operations() {
        let operation = LongOperation::begin();
        assert_eq!(looks(Spin::BOUNDED, usize::MAX), 64);
        assert_eq!(looks(Spin::HELPING, usize::MAX), 64);
        // The worker set itself stays.
        assert_eq!(looks(Spin::lasting(Duration::from_secs(60)), 1000), 1000);
        drop(operation);
    }
}
