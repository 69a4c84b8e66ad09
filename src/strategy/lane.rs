//! The letter box of one replica thread.

use super::signal::{Signal, Spin};
use super::sync::{AtomicBool, Mutex, Ordering};

/// Why a waiting replica thread woke.
#[derive(Debug)]
pub enum Wake<J> {
    /// There is a step to take part in.
    Job(J),
    /// What it waited for has come.
    Released,
    /// There will be no more steps.
    Closed,
}

/// Where a replica thread waits, between steps and inside of merge calls, and where the
/// coordinator leaves the next step for it.
pub struct Lane<J> {
    inbox: Mutex<Option<J>>,
    /// Whether the inbox is full, to be seen without taking its lock.
    posted: AtomicBool,
    closed: AtomicBool,
    signal: Signal,
}

impl<J> Lane<J> {
    pub fn new() -> Lane<J> {
        Lane {
            inbox: Mutex::new(None),
            posted: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            signal: Signal::new(),
        }
    }

    /// Leaves a step for the thread. The one before has been taken, since its coordinator waited
    /// for all replicas.
    pub fn post(&self, job: J) {
        *self.inbox.lock() = Some(job);
        self.posted.store(true, Ordering::Release);
        self.signal.notify();
    }

    /// Makes the thread look again at what it waits for.
    pub fn notify(&self) {
        self.signal.notify();
    }

    /// Lets the thread end once it is idle.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.signal.notify();
    }

    /// Waits for a step, for `released`, or for the end; steps come first.
    pub fn wait(&self, spin: Spin, released: impl Fn() -> bool) -> Wake<J> {
        loop {
            self.signal.wait_until(spin, None, || {
                self.posted.load(Ordering::Acquire)
                    || released()
                    || self.closed.load(Ordering::Acquire)
            });
            if self.posted.load(Ordering::Acquire) {
                self.posted.store(false, Ordering::Relaxed);
                if let Some(job) = self.inbox.lock().take() {
                    return Wake::Job(job);
                }
            } else if released() {
                return Wake::Released;
            } else {
                return Wake::Closed;
            }
        }
    }
}
