//! The mailbox of one replica thread.

use std::sync::Arc;

use crossbeam_utils::CachePadded;

use umbo_executor::sync::{AtomicBool, AtomicUsize, Mutex, Ordering};
use umbo_executor::wait::{Signal, Spin};

/// The reason why a waiting replica thread woke.
#[derive(Debug)]
pub enum Wake<J> {
    /// There is a step to take part in.
    Job(J),
    /// The awaited event has come.
    Released,
    /// There will be no more steps.
    Closed,
}

/// The mailbox of a replica thread. The thread waits on it between steps and inside merge calls,
/// and the coordinator posts the next step to it.
pub struct Mailbox<J: ?Sized> {
    /// The address of the step that waits to be taken, or [`NONE`].
    posted: AtomicUsize,
    closed: AtomicBool,
    signal: Signal,
    /// Both sides read them in every step and write them seldom.
    hints: CachePadded<Hints>,
    /// The step that was posted last. It stays here and with the thread, so that a step that is
    /// posted again and again changes no reference count. It is not in the cache line that the
    /// thread polls.
    last: CachePadded<Last<J>>,
}

struct Last<J: ?Sized> {
    at: AtomicUsize,
    job: Mutex<Option<Arc<J>>>,
}

/// The address that means that no step is posted.
const NONE: usize = 0;

fn address<J: ?Sized>(job: &Arc<J>) -> usize {
    Arc::as_ptr(job).cast::<()>().addr()
}

/// The processor that the thread is on, if it is bound to just one or was seen there, and the one
/// on which the coordinator was last seen. Spinning while the other side waits for the processor is
/// in vain. The protocol does not depend on them.
struct Hints {
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

impl<J: ?Sized> Mailbox<J> {
    pub fn new() -> Mailbox<J> {
        Mailbox {
            posted: AtomicUsize::new(NONE),
            closed: AtomicBool::new(false),
            signal: Signal::new(),
            hints: CachePadded::new(Hints {
                home: Hint::new(),
                coordinator: Hint::new(),
            }),
            last: CachePadded::new(Last {
                at: AtomicUsize::new(NONE),
                job: Mutex::new(None),
            }),
        }
    }

    /// The thread is on this processor, or it is not known where.
    pub fn set_home(&self, processor: Option<usize>) {
        self.hints.home.set(processor);
    }

    /// Whether the thread is on this processor, as far as that is known.
    pub fn is_on(&self, processor: usize) -> bool {
        self.hints.home.get() == processor
    }

    /// The coordinator runs on this processor now.
    pub fn see_coordinator(&self, processor: Option<usize>) {
        self.hints.coordinator.set(processor);
    }

    /// How the thread spins, if it is allowed to spin as `allowed` says.
    fn spin(&self, allowed: Spin) -> Spin {
        let home = self.hints.home.get();
        if home != Hint::NONE && home == self.hints.coordinator.get() {
            Spin::NEVER
        } else {
            allowed
        }
    }

    /// Posts a step to the thread: the one at `at`, to which `refer` makes a reference. The step
    /// before has been taken, since its coordinator waited for all replicas. The caller
    /// notifies the thread afterwards.
    pub fn post(&self, at: *const (), refer: impl FnOnce() -> Arc<J>) {
        if self.last.at.load(Ordering::Relaxed) != at.addr() {
            self.last.at.store(at.addr(), Ordering::Relaxed);
            let before = self.last.job.lock().replace(refer());
            drop(before);
        }
        self.posted.store(at.addr(), Ordering::Release);
    }

    /// Wakes the thread, so that it checks again what it waits for.
    pub fn notify(&self) {
        self.signal.notify();
    }

    /// Waits until `ready` says so, whatever steps there are.
    pub fn wait_until(&self, spin: Spin, ready: impl FnMut() -> bool) {
        self.signal.wait_until(self.spin(spin), None, ready);
    }

    /// Makes the thread end once it is idle.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.signal.notify();
    }

    /// Waits for a step, for `released`, or for the end; steps come first. `last` is the last step
    /// that was taken in this place.
    pub fn wait<'last>(
        &self,
        spin: Spin,
        last: &'last mut Option<Arc<J>>,
        released: impl Fn() -> bool,
    ) -> Wake<&'last J> {
        let posted = || self.posted.load(Ordering::Acquire);
        self.signal.wait_until(self.spin(spin), None, || {
            posted() != NONE || released() || self.closed.load(Ordering::Acquire)
        });
        let step = posted();
        if step != NONE {
            self.posted.store(NONE, Ordering::Relaxed);
            if last.as_ref().map_or(NONE, address) != step {
                last.clone_from(&self.last.job.lock());
            }
            if let Some(step) = last {
                return Wake::Job(step);
            }
        }
        if released() {
            return Wake::Released;
        }
        // The posted step may own this mailbox.
        let last = self.last.job.lock().take();
        drop(last);
        Wake::Closed
    }
}
