//! How work is handed to a worker and how the caller learns that it is done: the protocol of the worker set,
//! without what the work is.
//!
//! The caller leaves a pointer to the job in the [`Inbox`] of each worker and works itself. A worker takes the
//! pointer out, does its share and counts itself out of the job's [`Countdown`]. The last one notifies the
//! caller, by a signal that does not lie in the job: the caller may be gone with the job by then.

use std::ptr;

use crossbeam_utils::CachePadded;

use crate::executor::sync::{AtomicPtr, AtomicUsize, Ordering};
use crate::executor::wait::{Signal, Spin};

/// Where one worker finds its next job.
pub(super) struct Inbox<J> {
    job: CachePadded<AtomicPtr<J>>,
    signal: Signal,
}

impl<J> Inbox<J> {
    /// An empty one.
    pub fn new() -> Inbox<J> {
        Inbox { job: CachePadded::new(AtomicPtr::new(ptr::null_mut())), signal: Signal::new() }
    }

    /// Whether the worker has parked, or is about to.
    pub fn is_parked(&self) -> bool {
        self.signal.has_sleeper()
    }

    /// Leaves a job for the worker, whose last one is done. It is not null. Returns whether the worker
    /// had parked and was woken.
    pub fn give(&self, job: *mut J) -> bool {
        self.job.store(job, Ordering::Release);
        self.signal.notify()
    }

    /// Waits for a job, on the worker's thread, and takes it.
    pub fn take(&self, spin: Spin) -> *mut J {
        self.signal.wait_until(spin, None, || !self.job.load(Ordering::Relaxed).is_null());
        self.job.swap(ptr::null_mut(), Ordering::Acquire)
    }
}

/// How many workers are not done with a job.
pub(super) struct Countdown(AtomicUsize);

impl Countdown {
    /// For so many workers.
    pub fn new(workers: usize) -> Countdown {
        Countdown(AtomicUsize::new(workers))
    }

    /// A worker is done. What it wrote is seen by the caller when that has waited.
    ///
    /// # Safety
    /// `countdown` is alive, and the calling worker one of those that it counts. It may be gone when
    /// this returns.
    pub unsafe fn count_out(countdown: *const Countdown, caller: &Signal) {
        // SAFETY: alive until the caller sees that none remains, which this worker still keeps it from.
        let before = unsafe { (*countdown).0.fetch_sub(1, Ordering::AcqRel) };
        if before == 1 {
            caller.notify();
        }
    }

    /// Waits, on the caller's thread, until every worker is counted out.
    pub fn wait(&self, caller: &Signal, spin: Spin) {
        caller.wait_until(spin, None, || self.0.load(Ordering::Acquire) == 0);
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

    /// A caller that hands `operations` to so many workers, one after the other, and then ends them.
    fn explore(preemptions: usize, workers: usize, operations: usize) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(move || {
            let inboxes: Arc<Vec<Inbox<Job>>> =
                Arc::new((0..workers).map(|_| Inbox::new()).collect());
            let caller = Arc::new(Signal::new());
            let serve = |worker: usize| {
                let (inboxes, caller) = (Arc::clone(&inboxes), Arc::clone(&caller));
                move || {
                    loop {
                        let job = inboxes[worker].take(Spin::NEVER);
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
                        unsafe { Countdown::count_out(countdown, &caller) };
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
                    job.countdown.wait(&caller, Spin::NEVER);
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
