//! A fair lock: threads get it in the order in which they asked.
//!
//! The thread that releases the lock hands it to the thread that has waited longest, so that no thread is
//! overtaken. A waiting thread may give up; if the lock was handed to it at that moment, it has the lock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::executor::sync::{AtomicBool, Mutex, Ordering};
use crate::executor::wait::{Signal, Spin};

/// The lock.
pub struct FairQueue {
    state: Mutex<QueueState>,
}

struct QueueState {
    taken: bool,
    /// The waiting threads, in the order of arrival.
    waiting: VecDeque<Arc<Waiter>>,
    /// Places that are free to be used again, so that waiting allocates nothing in the long run.
    spare: Vec<Arc<Waiter>>,
}

/// The place of one thread in the queue.
pub struct Waiter {
    signal: Signal,
    granted: AtomicBool,
}

impl Waiter {
    fn new() -> Waiter {
        Waiter { signal: Signal::new(), granted: AtomicBool::new(false) }
    }

    /// Makes the waiting thread call its `give_up` again. Any thread may call it.
    pub fn wake(&self) {
        self.signal.notify();
    }
}

/// The result of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The lock is this thread's.
    Granted,
    /// `give_up` said so and this thread has left the queue.
    GivenUp,
    /// The time `check_at` has come; this thread is still in the queue.
    TimedOut,
}

impl FairQueue {
    pub fn new() -> FairQueue {
        let state = QueueState { taken: false, waiting: VecDeque::new(), spare: Vec::new() };
        FairQueue { state: Mutex::new(state) }
    }

    /// Takes the lock if nobody has it, else a place at the end of the queue. The place is given
    /// back with [`FairQueue::give_back`] after [`FairQueue::wait`] has returned anything but `TimedOut`.
    pub fn enter(&self) -> Option<Arc<Waiter>> {
        let mut state = self.state.lock();
        if !state.taken {
            state.taken = true;
            return None;
        }
        let waiter = state.spare.pop().unwrap_or_else(|| Arc::new(Waiter::new()));
        waiter.granted.store(false, Ordering::Relaxed);
        state.waiting.push_back(Arc::clone(&waiter));
        Some(waiter)
    }

    /// Takes the lock if nobody has it. Returns whether it did.
    pub fn try_enter(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().taken, true)
    }

    /// Waits until the lock is handed to `waiter`, until `give_up` says that it should not wait any longer, or
    /// until `check_at`. `give_up` is called after each [`Waiter::wake`], and at the end.
    pub fn wait(
        &self,
        waiter: &Arc<Waiter>,
        check_at: Option<Instant>,
        spin: Spin,
        give_up: impl Fn() -> bool,
    ) -> Wait {
        let granted = || waiter.granted.load(Ordering::Acquire);
        waiter.signal.wait_until(spin, check_at, || granted() || give_up());
        if granted() {
            return Wait::Granted;
        }
        if !give_up() {
            return Wait::TimedOut;
        }
        let mut state = self.state.lock();
        match state.waiting.iter().position(|other| Arc::ptr_eq(other, waiter)) {
            Some(place) => {
                state.waiting.remove(place);
                Wait::GivenUp
            }
            // Only the thread that hands the lock over takes a place out of the queue.
            None => Wait::Granted,
        }
    }

    /// Returns a place in the queue for reuse. Nobody waits there, and nobody wakes it.
    pub fn give_back(&self, waiter: Arc<Waiter>) {
        self.state.lock().spare.push(waiter);
    }

    /// Releases the lock, and hands it to the thread that has waited longest, if there is one.
    pub fn leave(&self) {
        let next = {
            let mut state = self.state.lock();
            let next = state.waiting.pop_front();
            state.taken = next.is_some();
            if let Some(waiter) = &next {
                // Under the lock: a thread that gives up at this moment finds that it is not in the queue any
                // more, and its place may soon be used again.
                waiter.granted.store(true, Ordering::Release);
            }
            next
        };
        if let Some(waiter) = next {
            waiter.signal.notify();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_lock_is_handed_over_in_the_order_of_asking() {
        let queue = FairQueue::new();
        assert!(queue.enter().is_none());
        let waiters: Vec<_> = (0..5).map(|_| queue.enter().unwrap()).collect();
        let now = || Some(Instant::now());
        let wait = |waiter, give_up| queue.wait(waiter, now(), Spin::NEVER, || give_up);
        assert_eq!(wait(&waiters[0], false), Wait::TimedOut);
        assert_eq!(wait(&waiters[2], true), Wait::GivenUp);
        for place in [0, 1, 3, 4] {
            queue.leave();
            let granted = |place: usize| wait(&waiters[place], false) == Wait::Granted;
            assert!(granted(place));
            assert!((place + 1..5).filter(|&later| later != 2).all(|later| !granted(later)));
            // A thread that has the lock keeps it, even if it wants to give up.
            assert_eq!(wait(&waiters[place], true), Wait::Granted);
        }
        waiters.into_iter().for_each(|waiter| queue.give_back(waiter));
        queue.leave();
        assert!(queue.enter().is_none());
        let waiter = queue.enter().unwrap();
        let soon = Some(Instant::now() + Duration::from_millis(1));
        assert_eq!(queue.wait(&waiter, soon, Spin::BOUNDED, || false), Wait::TimedOut);
    }
}
