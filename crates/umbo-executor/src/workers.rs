//! The worker set: the threads that share central work, the calling thread among them.
//!
//! An operation enters the set once and is divided into ranges ([`stealing`](super::stealing)). A
//! result must never depend on which thread computes it: bodies work element by element, or on
//! tiles that depend only on the size.
//!
//! Only one operation uses the threads at a time. If a caller finds the set busy (because of a
//! second strategy, or because a body enters it again), it does its work alone on its own thread.
//! So entering never waits for other work and cannot deadlock. Dispatching writes one pointer for
//! each worker. An idle worker spins for a few tens of microseconds and then parks. How many
//! workers take part depends on the work, and on whether they must be woken for it ([`costs`]). A
//! worker that has not begun when the work is done is not waited for. Once the threads exist,
//! nothing is allocated.
//!
//! A replica's thread that has ended its part of a step spins for the next one. While it does, it
//! helps ([`Helping`]): it takes chunks of an operation, one after the other, until there is a step
//! for it. It is awake, so it begins within a microsecond, and its cache has the gradients that an
//! update reads. Workers are woken only for what such threads leave.

mod helping;
mod job;
mod threads;

use std::ops::Range;
use std::panic;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::affinity;
pub use super::costs::Costs;
use super::costs::{Estimates, INLINE_BYTES};
use super::handover::Countdown;
use super::stealing::Division;
use super::wait::{LongOperation, Signal, Spin};
pub use helping::Helping;
use helping::OFFER;
pub(crate) use helping::help;
use job::{Body, WorkerJob, caught};
use parking_lot::{Mutex, MutexGuard};
use threads::{Worker, WorkerThreads};
use umbo_base::error::Result;

/// The largest number of workers.
pub const MAX_COUNT: usize = 1024;

/// Ranges of elements start at multiples of this, so that no two workers write one cache line.
const ELEMENTS_PER_BLOCK: usize = 64;

/// The time for which a caller spins for workers that do their last chunk.
const LAST_SPIN: Duration = Duration::from_micros(100);

/// The number of workers that was set; 0 means the default.
static REQUESTED: AtomicUsize = AtomicUsize::new(0);

/// The cost of sharing in this process.
static ESTIMATES: Estimates = Estimates::new();

/// Whether a worker that is done helps the others.
static STEALING: AtomicBool = AtomicBool::new(true);

/// The number of times that work was given to threads, or found some that help.
static ENTRIES: AtomicU64 = AtomicU64::new(0);

/// The set. It is locked by the thread whose operation uses the workers.
static SET: Mutex<WorkerThreads> = Mutex::new(WorkerThreads::new());

/// The signal at which the thread that has entered the set waits for the workers. A worker may use
/// it when its job no longer exists.
static CALLER: Signal = Signal::new();

/// Sets the number of workers for central work of this process, the calling thread included. It
/// takes effect with the next operation. Results do not depend on it. It can be called from any
/// thread at any time and does not wait.
///
/// Fails with INVALID_ARGUMENT for 0 and for more than [`MAX_COUNT`].
pub fn set_count(count: usize) -> Result<()> {
    if count == 0 || count > MAX_COUNT {
        return Err(invalid!(
            "count",
            "{count} workers; 1 to {MAX_COUNT} are possible"
        ));
    }
    REQUESTED.store(count, Ordering::Relaxed);
    Ok(())
}

/// The number of workers for central work: the number that was set or, by default, the number of
/// processors whose time the process may use. Fewer workers take part in small operations, or if
/// the system refuses threads.
pub fn count() -> usize {
    match REQUESTED.load(Ordering::Relaxed) {
        0 => affinity::usable().min(MAX_COUNT),
        count => count,
    }
}

/// The present estimate of the cost of waking parked workers.
pub fn costs() -> Costs {
    ESTIMATES.costs()
}

/// Fixes the cost of waking workers, so that it is not measured; with `None`, it is measured again.
/// Tests use this to make work shared, or not shared. Results do not depend on it.
pub fn fix_costs(costs: Option<Costs>) {
    ESTIMATES.fix(costs);
}

/// Sets whether a worker that is done with its own range helps the others, as it does by default.
/// Without help, each worker does its own range and no other, and the caller waits for all of them.
/// Tests use this to have every worker take part. Results do not depend on it. It takes effect with
/// the next operation.
pub fn set_stealing(steals: bool) {
    STEALING.store(steals, Ordering::Relaxed);
}

/// The number of threads of the set that have parked. `None` while an operation uses them.
pub fn parked() -> Option<usize> {
    let threads = SET.try_lock()?;
    Some(
        threads
            .workers
            .iter()
            .filter(|worker| worker.slot.inbox.is_parked())
            .count(),
    )
}

/// The number of times that this process has shared work between several workers, whatever the
/// amount of work.
pub fn entries() -> u64 {
    ENTRIES.load(Ordering::Relaxed)
}

/// Calls `body` with ranges that together are `0..elements`. It uses several workers at the same
/// time if the work is large enough, and returns when all are done. Inner boundaries are multiples
/// of 64. `bytes_per_element` is the memory traffic of one element, over all inputs and outputs.
///
/// A panic of `body` reaches the caller once every worker has finished.
pub fn for_each_range(
    elements: usize,
    bytes_per_element: usize,
    body: &(dyn Fn(Range<usize>) + Sync),
) {
    let bytes = elements.saturating_mul(bytes_per_element);
    enter(
        elements,
        ELEMENTS_PER_BLOCK,
        bytes,
        usize::MAX,
        &|_, range| body(range),
    );
}

/// Works like [`for_each_range`], for items that are large pieces of work each. Boundaries can be
/// anywhere.
pub fn for_each_task(tasks: usize, bytes_per_task: usize, body: &(dyn Fn(Range<usize>) + Sync)) {
    let bytes = tasks.saturating_mul(bytes_per_task);
    enter(tasks, 1, bytes, usize::MAX, &|_, range| body(range));
}

/// Calls `body` with ranges that together are the `bytes` bytes that an operation moves, and with
/// the number of the worker, which is less than `most`. A worker may get several, one after the
/// other. Otherwise as [`for_each_range`].
pub fn for_each_byte_range(most: usize, bytes: usize, body: &Body<'_>) {
    enter(bytes, 1, bytes, most, body);
}

fn enter(items: usize, block: usize, bytes: usize, most: usize, body: &Body<'_>) {
    if items == 0 {
        return;
    }
    if bytes < INLINE_BYTES {
        return body(0, 0..items);
    }
    match EnteredWorkers::new(bytes, most.min(items.div_ceil(block))) {
        Some(entered) => entered.dispatch(items, block, bytes, body),
        None => alone(bytes, || body(0, 0..items)),
    }
}

/// Does the whole operation on this thread.
fn alone(bytes: usize, work: impl FnOnce()) {
    if count() == 1 {
        return work();
    }
    let start = Instant::now();
    work();
    ESTIMATES.moved(bytes, bytes, start.elapsed());
}

/// The set, entered by the calling thread for one operation.
struct EnteredWorkers {
    threads: MutexGuard<'static, WorkerThreads>,
    /// The number of its threads that take part from the beginning.
    workers: usize,
    /// The number of ranges: at most so many threads take part.
    ranges: usize,
    /// Whether the operation is offered to threads that spin.
    is_offered: bool,
}

impl EnteredWorkers {
    /// Enters the set for work that moves `bytes` bytes and can be divided into `most` parts.
    /// `None` if the calling thread should do it alone.
    fn new(bytes: usize, most: usize) -> Option<EnteredWorkers> {
        let most = Estimates::of_spinning(bytes, count().min(most));
        if most == 1 {
            return None;
        }
        let mut threads = SET.try_lock()?;
        // All threads that could take part are started now, so that no later operation of this size
        // starts any.
        let available = threads.at_least(most - 1);
        let is_awake = threads.are_awake(available);
        let is_offered = !is_awake && STEALING.load(Ordering::Relaxed);
        let is_offered = is_offered && helping::is_possible();
        let workers = match (is_awake, is_offered) {
            (true, _) => available,
            (false, true) => 0,
            (false, false) => ESTIMATES.of_parked(bytes, available + 1) - 1,
        };
        (workers > 0 || is_offered).then_some(EnteredWorkers {
            threads,
            workers,
            ranges: if is_offered { most } else { workers + 1 },
            is_offered,
        })
    }

    fn dispatch(self, items: usize, block: usize, bytes: usize, body: &Body<'_>) {
        let division = Division::new(items, block, bytes, self.ranges);
        let queues = &self.threads.queues[..self.ranges];
        for (worker, queue) in queues.iter().enumerate() {
            queue.fill(division.own(worker, self.ranges));
        }
        // SAFETY: only the lifetime changes. The pointer is used by workers that count themselves
        // out of the countdown afterwards, and by threads that join the offer. `share` returns only
        // when all of them are done.
        let forever = unsafe { std::mem::transmute::<*const Body<'_>, *const Body<'static>>(body) };
        let job = WorkerJob {
            body: forever,
            division,
            queues,
            made: Instant::now(),
            processor: affinity::current_processor(),
            helps: STEALING.load(Ordering::Relaxed),
            begun: AtomicU64::new(0),
            countdown: Countdown::new(0),
            panic: Mutex::new(None),
        };
        let outcome = self.share(&job, bytes);
        if let Some(payload) = outcome.err().or(job.panic.into_inner()) {
            panic::resume_unwind(payload);
        }
    }

    /// Works on the job with other threads. When this returns, none of them uses it any more.
    fn share(&self, job: &WorkerJob, bytes: usize) -> std::thread::Result<bool> {
        let shared = ptr::from_ref(job).cast_mut();
        let mut workers = self.workers;
        if self.is_offered {
            OFFER.open(shared);
            let available = self.threads.workers.len();
            workers = job.worth_waking(bytes).min(available);
        }
        let workers = &self.threads.workers[..workers];
        let is_long = !workers.is_empty() && ESTIMATES.is_long(bytes);
        let long_operation = is_long.then(LongOperation::begin);
        job.countdown.expect(workers.len());
        let given = Instant::now();
        let give = |worker: &&Worker| worker.slot.inbox.give(shared);
        let woken = workers.iter().filter(give).count();
        let started = Instant::now();
        let mut done = 0;
        // SAFETY: the body and the queues outlive this call.
        let outcome = caught(|| unsafe { job.work(0, &mut done, &mut || false) });
        let moved = job.division.traffic(bytes, done);
        ESTIMATES.moved(moved, bytes, started.elapsed());
        // Nothing is left for those that have not begun.
        if self.is_offered {
            OFFER.close(&CALLER, spinning(LAST_SPIN));
        }
        let is_late = |worker: &&Worker| job.helps && worker.slot.inbox.take_back(shared);
        let late = workers
            .iter()
            .filter(is_late)
            .inspect(|_| job.record_begin())
            .count();
        job.countdown.count_out_late(late);
        job.countdown.wait(&CALLER, spinning(LAST_SPIN));
        drop(long_operation);
        if !workers.is_empty() || job.has_helper() {
            ENTRIES.fetch_add(1, Ordering::Relaxed);
        }
        let begun = Duration::from_nanos(job.begun.load(Ordering::Relaxed));
        let latency = begun.saturating_sub(given - job.made);
        ESTIMATES.woke(woken, started - given, latency);
        outcome
    }
}

/// Ends the threads. Later work starts them again. Returns whether it did: it does not while an
/// operation uses them.
pub(super) fn end() -> bool {
    let threads = SET.try_lock();
    threads.map(|mut threads| threads.end()).is_some()
}

/// A spin of this duration, or none if workers outnumber processors.
fn spinning(time: Duration) -> Spin {
    if count() > affinity::usable() {
        Spin::NEVER
    } else {
        Spin::lasting(time)
    }
}
