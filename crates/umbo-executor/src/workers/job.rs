//! One operation of the worker set, and how the threads that share it work on it.

use std::any::Any;
use std::hint;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use super::helping::{OFFER, preferred};
use super::{CALLER, ESTIMATES};
use crate::handover::Countdown;
use crate::stealing::{ChunkQueue, Division};
use umbo_base::observe;

/// The function that is called for each range, with the number of the worker. The calling thread's
/// is 0.
pub(super) type Body<'a> = dyn Fn(usize, Range<usize>) + Sync + 'a;

/// The number of looks for threads that spin, before parked ones are woken: about two microseconds.
const MOMENT: usize = 64;

/// One operation. It is on the stack of the thread that entered the set, which waits there until
/// all workers are counted out.
pub(super) struct WorkerJob {
    pub(super) body: *const Body<'static>,
    pub(super) division: Division,
    pub(super) queues: *const [ChunkQueue],
    pub(super) made: Instant,
    /// The processor of the calling thread.
    pub(super) processor: Option<usize>,
    /// Whether workers help each other, and one that has not begun is not waited for.
    pub(super) helps: bool,
    /// The time from `made` to the beginning of the last worker, in nanoseconds.
    pub(super) begun: AtomicU64,
    pub(super) countdown: Countdown,
    pub(super) panic: Mutex<Option<Box<dyn Any + Send>>>,
}

pub(super) fn caught<R>(work: impl FnOnce() -> R) -> std::thread::Result<R> {
    panic::catch_unwind(AssertUnwindSafe(work))
}

impl WorkerJob {
    /// A worker begins now, or would begin now at the earliest.
    pub(super) fn record_begin(&self) {
        let begun = u64::try_from(self.made.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.begun.fetch_max(begun, Ordering::Relaxed);
    }

    /// Whether a thread other than the calling one has begun.
    pub(super) fn has_helper(&self) -> bool {
        // SAFETY: the queues outlive the job.
        let queues = unsafe { &*self.queues };
        queues[1..].iter().any(ChunkQueue::is_claimed)
    }

    /// The number of ranges without a thread.
    fn free(&self) -> usize {
        // SAFETY: the queues outlive the job.
        let queues = unsafe { &*self.queues };
        let is_free = |queue: &&ChunkQueue| !queue.is_claimed();
        queues[1..].iter().filter(is_free).count()
    }

    /// The number of parked workers that are worth waking for an operation of so many bytes, after
    /// a moment in which threads that spin take ranges.
    pub(super) fn worth_waking(&self, bytes: usize) -> usize {
        let worth = |free| ESTIMATES.of_parked(bytes, free + 1) - 1;
        if worth(self.free()) == 0 {
            return 0;
        }
        let all_have_threads = || {
            hint::spin_loop();
            self.free() == 0
        };
        match (0..MOMENT).any(|_| all_have_threads()) {
            true => 0,
            false => worth(self.free()),
        }
    }

    /// A range for a thread that begins: this one, or the next that is free. None if each has a
    /// thread.
    fn claim(&self, preferred: usize) -> Option<usize> {
        // SAFETY: the queues outlive the job.
        let queues = unsafe { &*self.queues };
        let mut ranges = (0..queues.len()).map(|next| (preferred + next) % queues.len());
        // The first one is the calling thread's.
        ranges.find(|&range| range > 0 && queues[range].claim())
    }

    /// Does chunks: those of the thread's own range, and then those of others. Ends when none is
    /// left, and then returns true, or when `ends` returns true after one. `done` counts them.
    ///
    /// # Safety
    /// The body and the queues are alive.
    pub(super) unsafe fn work(
        &self,
        range: usize,
        done: &mut u32,
        ends: &mut dyn FnMut() -> bool,
    ) -> bool {
        // SAFETY: the caller's promise.
        let (body, queues) = unsafe { (&*self.body, &*self.queues) };
        let last = if self.helps { queues.len() } else { 1 };
        let others = || (1..last).map(|next| &queues[(range + next) % queues.len()]);
        while let Some(chunk) = queues[range]
            .pop()
            .or_else(|| others().find_map(ChunkQueue::steal))
        {
            body(range, self.division.items(chunk));
            *done += 1;
            if ends() {
                return false;
            }
        }
        true
    }

    /// Works on a thread that is not the calling one. Returns how many chunks it did, and whether
    /// none is left for others.
    ///
    /// # Safety
    /// The body and the queues are alive.
    unsafe fn assist(&self, preferred: usize, ends: &mut dyn FnMut() -> bool) -> (u32, bool) {
        let Some(range) = self.claim(preferred) else {
            return (0, true);
        };
        let mut done = 0;
        let outcome = caught(|| {
            let _share = observe::share("central work");
            // SAFETY: the caller's promise.
            unsafe { self.work(range, &mut done, ends) }
        });
        let is_over = outcome.unwrap_or_else(|payload| {
            self.panic.lock().get_or_insert(payload);
            true
        });
        (done, is_over)
    }

    /// Works on a thread that has joined the offer. Returns whether it did anything.
    ///
    /// # Safety
    /// `job` is alive.
    pub(super) unsafe fn help(job: *const WorkerJob, ready: &mut dyn FnMut() -> bool) -> bool {
        // SAFETY: the caller's promise; the body and the queues outlive the job.
        let (done, is_over) = unsafe { (*job).assist(preferred(), ready) };
        if is_over {
            OFFER.withdraw(job);
        }
        done > 0
    }

    /// Works on a worker's thread and counts it out. The job may no longer exist when this returns.
    ///
    /// # Safety
    /// `job` is alive, and the calling worker is one of those that its countdown counts.
    pub(super) unsafe fn serve(job: *const WorkerJob, worker: usize) {
        // SAFETY: the job is alive until this worker is counted out below.
        let job = unsafe { &*job };
        job.record_begin();
        // SAFETY: as above; the body and the queues outlive the job.
        unsafe { job.assist(worker, &mut || false) };
        // SAFETY: the caller promises that the countdown is alive and counts this worker.
        unsafe { Countdown::count_out(&raw const job.countdown, &CALLER) };
    }
}
