//! How work is handed to a worker, and how the caller learns that it is done. This is the protocol
//! of the worker set, independent of the work itself.
//!
//! The caller puts a pointer to the job into the [`Inbox`] of each worker and works itself. A
//! worker takes the pointer out, works and counts itself out of the job's [`Countdown`]. When
//! nothing is left to do, the caller takes the pointer back from workers that have not taken it.
//! The last worker notifies the caller through a signal that is not in the job, because the caller
//! and the job may no longer exist at that point.
//!
//! Threads outside the set look for an [`Offer`] while they spin, and join it. Nobody wakes them.

use std::ptr;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicPtr, AtomicUsize, Ordering, fence};
use crate::wait::{Signal, Spin};

/// The place where one worker finds its next job.
pub(super) struct Inbox<J> {
    job: CachePadded<AtomicPtr<J>>,
    signal: Signal,
}

impl<J> Inbox<J> {
    /// An empty inbox.
    pub fn new() -> Inbox<J> {
        Inbox {
            job: CachePadded::new(AtomicPtr::new(ptr::null_mut())),
            signal: Signal::new(),
        }
    }

    /// Whether the worker has parked, or is about to.
    pub fn is_parked(&self) -> bool {
        self.signal.has_sleeper()
    }

    /// Puts a job into the inbox of the worker, whose last job is done. The pointer is not null.
    /// Returns whether the worker was woken.
    pub fn give(&self, job: *mut J) -> bool {
        self.job.store(job, Ordering::Release);
        self.signal.notify()
    }

    /// Waits for a job on the worker's thread, and takes it.
    pub fn take(&self, spin: Spin) -> *mut J {
        loop {
            let mut job = ptr::null_mut();
            self.signal.wait_until(spin, None, || {
                job = self.job.load(Ordering::Relaxed);
                !job.is_null()
            });
            // The caller may have taken it back in between.
            if self.remove(job, Ordering::Acquire) {
                return job;
            }
        }
    }

    /// Takes a job back, if the worker has not taken it. Returns whether it did: the worker will
    /// not see the job.
    pub fn take_back(&self, job: *mut J) -> bool {
        self.remove(job, Ordering::Relaxed)
    }

    fn remove(&self, job: *mut J, order: Ordering) -> bool {
        self.job
            .compare_exchange(job, ptr::null_mut(), order, Ordering::Relaxed)
            .is_ok()
    }
}

/// A job that threads may join as long as it is offered. One caller at a time offers one.
pub(super) struct Offer<J> {
    job: CachePadded<AtomicPtr<J>>,
    /// The number of threads that use the job, or look whether there is one.
    joined: CachePadded<AtomicUsize>,
}

impl<J> Offer<J> {
    /// Nothing is offered.
    #[cfg(not(loom))]
    pub const fn new() -> Offer<J> {
        Offer {
            job: CachePadded::new(AtomicPtr::new(ptr::null_mut())),
            joined: CachePadded::new(AtomicUsize::new(0)),
        }
    }

    /// Nothing is offered.
    #[cfg(loom)]
    pub fn new() -> Offer<J> {
        Offer {
            job: CachePadded::new(AtomicPtr::new(ptr::null_mut())),
            joined: CachePadded::new(AtomicUsize::new(0)),
        }
    }

    /// Whether there seems to be a job.
    #[inline]
    pub fn is_open(&self) -> bool {
        !self.job.load(Ordering::Relaxed).is_null()
    }

    /// Offers a job, which stays alive until [`Offer::close`] returns.
    pub fn open(&self, job: *mut J) {
        self.job.store(job, Ordering::Release);
    }

    /// Calls `work` with the job, if there still is one: it is alive until `work` returns. `work`
    /// does not panic.
    pub fn join<R>(&self, caller: &Signal, work: impl FnOnce(*const J) -> R) -> Option<R> {
        // Either this thread sees that the offer is closed, or the closing caller sees this thread.
        self.joined.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let job = self.job.load(Ordering::Acquire);
        let result = (!job.is_null()).then(|| work(job));
        if self.joined.fetch_sub(1, Ordering::AcqRel) == 1 {
            caller.notify();
        }
        result
    }

    /// Keeps other threads from joining this job, by one that has joined it.
    pub fn withdraw(&self, job: *const J) {
        let _ = self.job.compare_exchange(
            job.cast_mut(),
            ptr::null_mut(),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }

    /// Ends the offer, and waits until nobody uses the job. The caller then sees what they wrote.
    pub fn close(&self, caller: &Signal, spin: Spin) {
        self.job.store(ptr::null_mut(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        caller.wait_until(spin, None, || self.joined.load(Ordering::Acquire) == 0);
    }
}

/// The number of workers that have not finished a job.
pub(super) struct Countdown(AtomicUsize);

impl Countdown {
    /// A countdown for `workers` workers.
    pub fn new(workers: usize) -> Countdown {
        Countdown(AtomicUsize::new(workers))
    }

    /// Counts a worker out. Once the caller has waited, it sees what the worker wrote.
    ///
    /// # Safety
    /// `countdown` is alive, and the calling worker is one of those that it counts. The countdown
    /// may no longer exist when this returns.
    pub unsafe fn count_out(countdown: *const Countdown, caller: &Signal) {
        // SAFETY: it is alive until the caller sees that no worker remains, and this worker still
        // remains.
        let before = unsafe { (*countdown).0.fetch_sub(1, Ordering::AcqRel) };
        if before == 1 {
            caller.notify();
        }
    }

    /// Sets, on the caller's thread, how many workers are to be counted out, before they get the
    /// job.
    pub fn expect(&self, workers: usize) {
        self.0.store(workers, Ordering::Relaxed);
    }

    /// Counts out, on the caller's thread, workers from which it has taken the job back.
    pub fn count_out_late(&self, workers: usize) {
        self.0.fetch_sub(workers, Ordering::Relaxed);
    }

    /// Waits, on the caller's thread, until every worker is counted out.
    pub fn wait(&self, caller: &Signal, spin: Spin) {
        caller.wait_until(spin, None, || self.0.load(Ordering::Acquire) == 0);
    }
}

/// The protocol under loom, which runs it in every order that the memory model allows. The two
/// sides exchange data by relaxed atomics, so a thread that is not ordered after a store may miss
/// it.
#[cfg(all(test, loom))]
mod model {
    use std::sync::Arc;

    use loom::thread;

    use super::*;

    /// One operation, as in the worker set.
    struct Job {
        input: AtomicUsize,
        done: Vec<AtomicUsize>,
        countdown: Countdown,
    }

    /// The pointer that ends a worker.
    const END: *mut Job = ptr::without_provenance_mut(align_of::<Job>());

    /// Explores a caller that hands `operations` operations to `workers` workers, one after the
    /// other, takes them back from workers that have not begun, and then ends the workers.
    fn explore(preemptions: usize, workers: usize, operations: usize) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(move || {
            let inboxes: Arc<Vec<Inbox<Job>>> =
                Arc::new((0..workers).map(|_| Inbox::new()).collect());
            let caller = Arc::new(Signal::new());
            let serve = |worker: usize| {
                let inboxes = Arc::clone(&inboxes);
                let caller = Arc::clone(&caller);
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
            let mut threads: Vec<_> = (0..workers)
                .map(|worker| thread::spawn(serve(worker)))
                .collect();
            // It runs on a thread of its own that joins no thread: unlike a late `unpark`, loom
            // cannot wake a joining thread.
            threads.push(thread::spawn(move || {
                for operation in 1..=operations {
                    let job = Box::new(Job {
                        input: AtomicUsize::new(0),
                        done: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
                        countdown: Countdown::new(workers),
                    });
                    job.input.store(operation, Ordering::Relaxed);
                    let in_inbox = ptr::from_ref(&*job).cast_mut();
                    for inbox in inboxes.iter() {
                        inbox.give(in_inbox);
                    }
                    let late: Vec<_> = inboxes
                        .iter()
                        .map(|inbox| inbox.take_back(in_inbox))
                        .collect();
                    job.countdown
                        .count_out_late(late.iter().filter(|late| **late).count());
                    job.countdown.wait(&caller, Spin::NEVER);
                    for (done, late) in job.done.iter().zip(late) {
                        let expected = if late { 0 } else { operation };
                        assert_eq!(done.load(Ordering::Relaxed), expected);
                    }
                }
                for inbox in inboxes.iter() {
                    inbox.give(END);
                }
            }));
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
        });
    }

    /// A caller offers two jobs, one after the other, and frees each once the offer is closed.
    /// Threads that look once or twice join a job that is alive, or none.
    #[test]
    fn an_offered_job_lives_as_long_as_those_who_joined_it() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let offer = Arc::new(Offer::<AtomicUsize>::new());
            let caller = Arc::new(Signal::new());
            let look = |looks: usize| {
                let offer = Arc::clone(&offer);
                let caller = Arc::clone(&caller);
                move || {
                    for _ in 0..looks {
                        offer.join(&caller, |job| {
                            // SAFETY: the caller frees the job when nobody has joined it any more.
                            let before = unsafe { (*job).fetch_add(1, Ordering::Relaxed) };
                            assert!(before < 2, "the memory of a job that has ended");
                            offer.withdraw(job);
                        });
                    }
                }
            };
            let mut threads = vec![thread::spawn(look(1)), thread::spawn(look(1))];
            // As above, the caller joins no thread.
            threads.push(thread::spawn(move || {
                for _ in 0..2 {
                    let job = Box::into_raw(Box::new(AtomicUsize::new(0)));
                    offer.open(job);
                    offer.close(&caller, Spin::NEVER);
                    // SAFETY: it came from a box, and nobody uses it after the offer is closed.
                    let job = unsafe { Box::from_raw(job) };
                    assert!(job.load(Ordering::Relaxed) <= 2);
                    job.store(100, Ordering::Relaxed);
                }
            }));
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
        });
    }

    #[test]
    fn a_worker_does_operation_after_operation_and_ends() {
        explore(3, 1, 2);
    }

    #[test]
    fn the_caller_waits_for_workers_that_have_begun() {
        explore(2, 2, 1);
    }
}
