//! The mailbox of one replica thread.

use crate::executor::sync::{AtomicBool, Mutex, Ordering};
use crate::executor::wait::{Signal, Spin};

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
pub struct Mailbox<J> {
    inbox: Mutex<Option<J>>,
    /// Whether the inbox is full, to be seen without taking its lock.
    posted: AtomicBool,
    closed: AtomicBool,
    signal: Signal,
    /// The processor that the thread is on, if it is bound to just one or was seen there, and the one on
    /// which the coordinator was last seen. Spinning while the other side waits for the processor is in vain.
    /// Hints, of which the protocol knows nothing.
    home: Hint,
    coordinator: Hint,
}

/// The number of a processor, or none.
struct Hint(std::sync::atomic::AtomicUsize);

impl Hint {
    const NONE: usize = usize::MAX;

    fn new() -> Hint {
        Hint(std::sync::atomic::AtomicUsize::new(Hint::NONE))
    }

    fn set(&self, processor: Option<usize>) {
        let new = processor.unwrap_or(Hint::NONE);
        // The line is shared between threads and seldom changes.
        if self.get() != new {
            self.0.store(new, std::sync::atomic::Ordering::Relaxed);
        }
    }

    fn get(&self) -> usize {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl<J> Mailbox<J> {
    pub fn new() -> Mailbox<J> {
        Mailbox {
            inbox: Mutex::new(None),
            posted: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            signal: Signal::new(),
            home: Hint::new(),
            coordinator: Hint::new(),
        }
    }

    /// The thread is on this processor, or it is not known where.
    pub fn set_home(&self, processor: Option<usize>) {
        self.home.set(processor);
    }

    /// Whether the thread is on this processor, as far as that is known.
    pub fn is_on(&self, processor: usize) -> bool {
        self.home.get() == processor
    }

    /// The coordinator runs on this processor now.
    pub fn see_coordinator(&self, processor: Option<usize>) {
        self.coordinator.set(processor);
    }

    /// How the thread waits that is allowed to spin in this way.
    fn spin(&self, allowed: Spin) -> Spin {
        let home = self.home.get();
        if home != Hint::NONE && home == self.coordinator.get() { Spin::NEVER } else { allowed }
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

    /// Waits until `ready` says so, whatever steps there are.
    pub fn wait_until(&self, spin: Spin, ready: impl FnMut() -> bool) {
        self.signal.wait_until(self.spin(spin), None, ready);
    }

    /// Lets the thread end once it is idle.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.signal.notify();
    }

    /// Waits for a step, for `released`, or for the end; steps come first.
    pub fn wait(&self, spin: Spin, released: impl Fn() -> bool) -> Wake<J> {
        loop {
            self.signal.wait_until(self.spin(spin), None, || {
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
