//! One thread waits, others tell it to look again: a bounded spin, then the futex under
//! `thread::park`.

use std::time::{Duration, Instant};

use crate::executor::sync::{AtomicBool, Mutex, Ordering, Thread, current, fence, park, spin_loop};

/// How long a waiting thread spins before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spin {
    /// Sleeps at once: there are more threads than processors, or the wait is a long one.
    Never,
    /// Spins for some tens of microseconds first: longer than a hand-off takes, shorter than a
    /// sleep costs.
    Bounded,
}

const SPIN_TIME: Duration = Duration::from_micros(50);
/// Looks at the clock only once in so many rounds.
const ROUNDS_PER_LOOK: u32 = 64;

/// Where one thread at a time waits for a condition that other threads make true.
pub struct Signal {
    asleep: AtomicBool,
    sleeper: Mutex<Option<Thread>>,
}

impl Signal {
    pub fn new() -> Signal {
        Signal { asleep: AtomicBool::new(false), sleeper: Mutex::new(None) }
    }

    /// Tells the waiting thread, if there is one, to look again. What makes its condition true
    /// must have been stored before.
    pub fn notify(&self) {
        // Either this load sees the sleeper's flag, or the sleeper's second look, which comes
        // after its own fence, sees what was stored before this fence.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            // The lock is free again before the sleeper wakes, who may want it next.
            let sleeper = self.sleeper.lock().take();
            if let Some(sleeper) = sleeper {
                sleeper.unpark();
            }
        }
    }

    /// Waits until `ready` says so or the deadline passes; returns what `ready` said last.
    pub fn wait_until(
        &self,
        spin: Spin,
        deadline: Option<Instant>,
        mut ready: impl FnMut() -> bool,
    ) -> bool {
        if ready() {
            return true;
        }
        if spin == Spin::Bounded && spin_until(&mut ready) {
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

#[cfg(not(loom))]
fn spin_until(ready: &mut impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        for _ in 0..ROUNDS_PER_LOOK {
            if ready() {
                return true;
            }
            spin_loop();
        }
        if start.elapsed() >= SPIN_TIME {
            return false;
        }
    }
}

/// A model explores every interleaving anyway; spinning would only make it longer.
#[cfg(loom)]
fn spin_until(ready: &mut impl FnMut() -> bool) -> bool {
    let _ = (SPIN_TIME, ROUNDS_PER_LOOK);
    spin_loop();
    ready()
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
