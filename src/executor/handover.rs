//! How work is handed to a worker and how its end is told: the protocol of the worker set, without
//! what the work is.
//!
//! The caller leaves a pointer to the job in the [`Inbox`] of each worker and works itself. A worker
//! takes the pointer out, does its share and counts itself out of the job's [`Countdown`]; whoever is
//! last marks it finished, and after that only the caller touches the job. Both sides spin for a moment
//! and then park. Either the one who parks sees what it waits for in its second look, or the other one
//! sees that it is about to park and wakes it: between the store and the look of each side lies a
//! sequentially consistent fence.

use std::ptr;

use crossbeam_utils::CachePadded;

use crate::executor::sync::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicUsize, Mutex, Ordering, Thread, current, fence, park,
};

/// Waits for a bounded time until a condition holds; returns whether it does.
pub(super) type Spin = fn(&dyn Fn() -> bool) -> bool;

/// Where one worker finds its next job.
pub(super) struct Inbox<J> {
    job: CachePadded<AtomicPtr<J>>,
    parked: AtomicBool,
    /// Set by the worker before it parks for the first time.
    owner: Mutex<Option<Thread>>,
}

impl<J> Inbox<J> {
    /// An empty one.
    pub fn new() -> Inbox<J> {
        Inbox {
            job: CachePadded::new(AtomicPtr::new(ptr::null_mut())),
            parked: AtomicBool::new(false),
            owner: Mutex::new(None),
        }
    }

    /// The calling thread is the worker.
    pub fn own(&self) {
        *self.owner.lock() = Some(current());
    }

    /// Whether the worker has parked, or is about to.
    pub fn is_parked(&self) -> bool {
        self.parked.load(Ordering::Relaxed)
    }

    /// Leaves a job for the worker, whose last one is done. It is not null. Returns whether the worker
    /// had parked and was woken.
    pub fn give(&self, job: *mut J) -> bool {
        self.job.store(job, Ordering::Release);
        fence(Ordering::SeqCst);
        let parked = self.is_parked();
        if parked {
            let owner = self.owner.lock().clone();
            if let Some(owner) = owner {
                owner.unpark();
            }
        }
        parked
    }

    /// Waits for a job, on the worker's thread, and takes it.
    pub fn take(&self, spin: Spin) -> *mut J {
        let given = || !self.job.load(Ordering::Relaxed).is_null();
        if !spin(&given) {
            self.parked.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            while !given() {
                park();
            }
            self.parked.store(false, Ordering::Relaxed);
        }
        self.job.swap(ptr::null_mut(), Ordering::Acquire)
    }
}

const RUNNING: u8 = 0;
const CALLER_PARKED: u8 = 1;
const FINISHED: u8 = 2;

/// The part of a job that tells its caller that all workers are done.
pub(super) struct Countdown {
    caller: Thread,
    remaining: AtomicUsize,
    state: AtomicU8,
}

impl Countdown {
    /// For the calling thread, and so many workers.
    pub fn new(workers: usize) -> Countdown {
        Countdown {
            caller: current(),
            remaining: AtomicUsize::new(workers),
            state: AtomicU8::new(RUNNING),
        }
    }

    /// A worker is done. What it wrote is seen by the caller when that has waited.
    ///
    /// # Safety
    /// `countdown` is alive, and the calling worker one of those that it counts. It may be gone when
    /// this returns.
    pub unsafe fn count_out(countdown: *const Countdown) {
        // SAFETY: alive until the last worker, perhaps this one, has stored FINISHED.
        let this = unsafe { &*countdown };
        if this.remaining.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Needed when the job is gone.
            let caller = this.caller.clone();
            if this.state.swap(FINISHED, Ordering::AcqRel) == CALLER_PARKED {
                caller.unpark();
            }
        }
    }

    /// Waits, on the caller's thread, until every worker is counted out.
    pub fn wait(&self, spin: Spin) {
        if spin(&|| self.state.load(Ordering::Acquire) == FINISHED) {
            return;
        }
        let parked = self.state.compare_exchange(
            RUNNING,
            CALLER_PARKED,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if parked.is_ok() {
            while self.state.load(Ordering::Acquire) != FINISHED {
                park();
            }
        }
    }
}

/// The protocol under loom, which runs it in every order that the memory model allows. What the sides
/// leave for each other are relaxed atomics: who is not ordered after a store may miss it.
#[cfg(all(test, loom))]
mod model {
    use std::sync::Arc;

    use loom::thread;

    use super::*;

    /// One operation, as the worker set has it.
    struct Job {
        input: AtomicUsize,
        done: Vec<AtomicUsize>,
        countdown: Countdown,
    }

    /// What ends a worker.
    const END: *mut Job = ptr::without_provenance_mut(align_of::<Job>());

    fn look_once(done: &dyn Fn() -> bool) -> bool {
        done()
    }

    /// A caller that hands `operations` to so many workers, one after the other, and then ends them.
    fn explore(preemptions: usize, workers: usize, operations: usize) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(move || {
            let inboxes: Arc<Vec<Inbox<Job>>> =
                Arc::new((0..workers).map(|_| Inbox::new()).collect());
            let serve = |worker: usize| {
                let inboxes = Arc::clone(&inboxes);
                move || {
                    inboxes[worker].own();
                    loop {
                        let job = inboxes[worker].take(look_once);
                        if job == END {
                            return;
                        }
                        // SAFETY: the caller keeps the job until this worker is counted out.
                        let countdown = unsafe {
                            let job = &*job;
                            let input = job.input.load(Ordering::Relaxed);
                            job.done[worker].store(input, Ordering::Relaxed);
                            &raw const job.countdown
                        };
                        // SAFETY: as above; this worker is one of those that are counted.
                        unsafe { Countdown::count_out(countdown) };
                    }
                }
            };
            let mut threads: Vec<_> =
                (0..workers).map(|worker| thread::spawn(serve(worker))).collect();
            // On a thread of its own that joins nobody: loom cannot wake one that joins, as a late
            // `unpark` may.
            threads.push(thread::spawn(move || {
                for operation in 1..=operations {
                    let job = Box::new(Job {
                        input: AtomicUsize::new(0),
                        done: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
                        countdown: Countdown::new(workers),
                    });
                    job.input.store(operation, Ordering::Relaxed);
                    for inbox in inboxes.iter() {
                        inbox.give(ptr::from_ref(&*job).cast_mut());
                    }
                    job.countdown.wait(look_once);
                    for done in &job.done {
                        assert_eq!(done.load(Ordering::Relaxed), operation);
                    }
                }
                for inbox in inboxes.iter() {
                    inbox.give(END);
                }
            }));
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }

    #[test]
    fn a_worker_does_operation_after_operation_and_ends() {
        explore(3, 1, 2);
    }

    #[test]
    fn the_caller_waits_for_all_workers() {
        explore(2, 2, 1);
    }
}
