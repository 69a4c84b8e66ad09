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

use std::any::Any;
use std::cell::Cell;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::affinity::{self, KeptOff};
pub use super::costs::Costs;
use super::costs::{Estimates, INLINE_BYTES};
use super::handover::{Countdown, Inbox, Offer};
use super::stealing::{ChunkQueue, Division};
use super::thread::{self, Handle, Purpose, ThreadOptions};
use super::wait::{LongOperation, Signal, Spin};
use parking_lot::{Mutex, MutexGuard};
use umbo_base::error::Result;
use umbo_base::observe;
use umbo_base::observe::log::{self, Level};

/// The largest number of workers.
pub const MAX_COUNT: usize = 1024;

/// Ranges of elements start at multiples of this, so that no two workers write one cache line.
const ELEMENTS_PER_BLOCK: usize = 64;

/// How long to spin before parking. It takes about as long to wake a parked thread.
const SPIN: Duration = Duration::from_micros(30);

/// The time for which a caller spins for workers that do their last chunk.
const LAST_SPIN: Duration = Duration::from_micros(100);

/// The function that is called for each range, with the number of the worker. The calling thread's
/// is 0.
type Body<'a> = dyn Fn(usize, Range<usize>) + Sync + 'a;

/// The number of workers that was set; 0 means the default.
static REQUESTED: AtomicUsize = AtomicUsize::new(0);

/// The cost of sharing in this process.
static ESTIMATES: Estimates = Estimates::new();

/// Whether a worker that is done helps the others.
static STEALING: AtomicBool = AtomicBool::new(true);

/// The number of times that work was given to threads, or found some that help.
static ENTRIES: AtomicU64 = AtomicU64::new(0);

/// The set. It is locked by the thread whose operation uses the workers.
static SET: Mutex<WorkerThreads> = Mutex::new(WorkerThreads {
    workers: Vec::new(),
    queues: Vec::new(),
    refused: None,
});

/// The signal at which the thread that has entered the set waits for the workers. A worker may use
/// it when its job no longer exists.
static CALLER: Signal = Signal::new();

/// The operation that threads help with which spin. Only the thread that has entered the set offers
/// one.
static OFFER: Offer<WorkerJob> = Offer::new();

/// The number of threads that help while they spin.
static HELPING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The number of the range that this thread takes first if it helps.
    static PREFERRED: Cell<usize> = const { Cell::new(0) };
}

/// The calling thread helps with central work while it spins with [`Spin::HELPING`].
pub struct Helping(());

impl Helping {
    /// The thread begins with the same range of each operation: that of worker `worker`.
    pub fn begin(worker: usize) -> Helping {
        PREFERRED.set(worker);
        HELPING.fetch_add(1, Ordering::Relaxed);
        Helping(())
    }
}

impl Drop for Helping {
    fn drop(&mut self) {
        HELPING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Helps with an operation, if there is one, until nothing is left or `ready` returns true. Returns
/// whether it did anything.
pub(super) fn help(ready: &mut dyn FnMut() -> bool) -> bool {
    if !OFFER.is_open() {
        return false;
    }
    // SAFETY: an offered job is alive as long as a thread has joined it.
    let helped = OFFER.join(&CALLER, |job| unsafe { WorkerJob::help(job, ready) });
    helped.unwrap_or(false)
}

/// The threads of the set. The calling thread is not among them.
struct WorkerThreads {
    workers: Vec<Worker>,
    /// One for each worker that there was, and before them the calling thread's.
    queues: Vec<ChunkQueue>,
    /// The time when the system last refused another thread.
    refused: Option<Instant>,
}

struct Worker {
    slot: Arc<WorkerSlot>,
    handle: Handle,
}

/// How long no thread is started after the system has refused one.
const PAUSE: Duration = Duration::from_millis(100);

/// The value in a slot whose worker is to end.
const END: *mut WorkerJob = ptr::without_provenance_mut(align_of::<WorkerJob>());

/// The place where a worker finds its next job.
struct WorkerSlot {
    /// The number of this worker.
    worker: usize,
    inbox: Inbox<WorkerJob>,
}

/// One operation. It is on the stack of the thread that entered the set, which waits there until
/// all workers are counted out.
struct WorkerJob {
    body: *const Body<'static>,
    division: Division,
    queues: *const [ChunkQueue],
    made: Instant,
    /// The processor of the calling thread.
    processor: Option<usize>,
    /// Whether workers help each other, and one that has not begun is not waited for.
    helps: bool,
    /// The time from `made` to the beginning of the last worker, in nanoseconds.
    begun: AtomicU64,
    countdown: Countdown,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

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
    match EnteredWorkers::new(bytes, most.min(items.div_ceil(block))) {
        Some(entered) => entered.dispatch(items, block, bytes, body),
        None => alone(bytes, || body(0, 0..items)),
    }
}

/// Does the whole operation on this thread.
fn alone(bytes: usize, work: impl FnOnce()) {
    if bytes < INLINE_BYTES || count() == 1 {
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
        let is_offered = is_offered && HELPING.load(Ordering::Relaxed) > 0;
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
    fn share(&self, job: &WorkerJob, bytes: usize) -> std::thread::Result<()> {
        let shared = ptr::from_ref(job).cast_mut();
        let mut part = CallersPart {
            job,
            bytes,
            done: 0,
        };
        let mut outcome = Ok(());
        let mut workers = self.workers;
        if self.is_offered {
            OFFER.open(shared);
            // Threads that spin have joined by the end of the first chunk.
            outcome = part.work(&mut || true);
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
        let waking = given.elapsed();
        if outcome.is_ok() {
            outcome = part.work(&mut || false);
        }
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
        ESTIMATES.woke(woken, waking, begun.saturating_sub(given - job.made));
        outcome
    }
}

/// The part of an operation that the calling thread does.
struct CallersPart<'a> {
    job: &'a WorkerJob,
    /// The memory traffic of the whole operation.
    bytes: usize,
    /// The number of its chunks.
    done: u32,
}

impl CallersPart<'_> {
    /// Does chunks until none is left, or `ends` returns true after one.
    fn work(&mut self, ends: &mut dyn FnMut() -> bool) -> std::thread::Result<()> {
        let started = Instant::now();
        let before = self.done;
        let done = &mut self.done;
        // SAFETY: the body and the queues outlive the job, which this thread has made.
        let outcome = caught(|| unsafe { self.job.work(0, done, ends) });
        let moved = self.job.division.traffic(self.bytes, self.done - before);
        ESTIMATES.moved(moved, self.bytes, started.elapsed());
        outcome.map(drop)
    }
}

fn caught<R>(work: impl FnOnce() -> R) -> std::thread::Result<R> {
    panic::catch_unwind(AssertUnwindSafe(work))
}

/// Ends the threads. Later work starts them again. Returns whether it did: it does not while an
/// operation uses them.
pub(super) fn end() -> bool {
    let Some(mut threads) = SET.try_lock() else {
        return false;
    };
    for worker in &threads.workers {
        worker.slot.inbox.give(END);
    }
    for worker in threads.workers.drain(..) {
        // A panic of a body does not reach the thread's own code.
        let _ = worker.handle.join();
    }
    threads.refused = None;
    true
}

impl WorkerThreads {
    /// Whether the first `helpers` threads wait for work without having parked.
    fn are_awake(&self, helpers: usize) -> bool {
        self.workers
            .iter()
            .take(helpers)
            .all(|worker| !worker.slot.inbox.is_parked())
    }

    /// Starts threads until there are `wanted`. Returns how many can be used.
    fn at_least(&mut self, wanted: usize) -> usize {
        while self.queues.len() <= wanted {
            self.queues.push(ChunkQueue::default());
        }
        while self.workers.len() < wanted {
            if self.refused.is_some_and(|when| when.elapsed() < PAUSE) {
                break;
            }
            let worker = self.workers.len() + 1;
            let slot = Arc::new(WorkerSlot {
                worker,
                inbox: Inbox::new(),
            });
            let of_thread = Arc::clone(&slot);
            let options = ThreadOptions::new(format!("umbo-worker-{worker}"), Purpose::Worker);
            match thread::spawn(&options, move || of_thread.serve()) {
                Ok(handle) => self.workers.push(Worker { slot, handle }),
                Err(error) => {
                    log::keep(Level::Warning, || {
                        format!("central work has fewer threads: {error}")
                    });
                    self.refused = Some(Instant::now());
                }
            }
        }
        self.workers.len().min(wanted)
    }
}

impl WorkerJob {
    /// A worker begins now, or would begin now at the earliest.
    fn record_begin(&self) {
        let begun = u64::try_from(self.made.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.begun.fetch_max(begun, Ordering::Relaxed);
    }

    /// Whether another thread than the calling one has begun.
    fn has_helper(&self) -> bool {
        // SAFETY: the queues outlive the job.
        let queues = unsafe { &*self.queues };
        queues[1..].iter().any(ChunkQueue::is_claimed)
    }

    /// The number of parked workers that are worth waking for an operation of so many bytes, beside
    /// those that help.
    fn worth_waking(&self, bytes: usize) -> usize {
        // SAFETY: the queues outlive the job.
        let queues = unsafe { &*self.queues };
        let is_free = |queue: &&ChunkQueue| !queue.is_claimed();
        let free = queues[1..].iter().filter(is_free).count();
        ESTIMATES.of_parked(bytes, free + 1) - 1
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
    unsafe fn work(&self, range: usize, done: &mut u32, ends: &mut dyn FnMut() -> bool) -> bool {
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
    unsafe fn help(job: *const WorkerJob, ready: &mut dyn FnMut() -> bool) -> bool {
        // SAFETY: the caller's promise; the body and the queues outlive the job.
        let (done, is_over) = unsafe { (*job).assist(PREFERRED.get(), ready) };
        if is_over {
            OFFER.withdraw(job);
        }
        done > 0
    }

    /// Works on a worker's thread and counts it out. The job may no longer exist when this returns.
    ///
    /// # Safety
    /// `job` is alive, and the calling worker is one of those that its countdown counts.
    unsafe fn serve(job: *const WorkerJob, worker: usize) {
        // SAFETY: the job is alive until this worker is counted out below.
        let job = unsafe { &*job };
        job.record_begin();
        // SAFETY: as above; the body and the queues outlive the job.
        unsafe { job.assist(worker, &mut || false) };
        // SAFETY: the caller promises that the countdown is alive and counts this worker.
        unsafe { Countdown::count_out(&raw const job.countdown, &CALLER) };
    }
}

impl WorkerSlot {
    /// Runs jobs until the worker ends.
    fn serve(&self) {
        let mut kept_off = KeptOff::default();
        loop {
            let job = self.inbox.take(spinning(SPIN));
            if job == END {
                return;
            }
            // SAFETY: a job in the slot is alive, and counts this worker until it has done it.
            unsafe {
                if let Some(processor) = (*job).processor {
                    kept_off.set(processor);
                }
                WorkerJob::serve(job, self.worker);
            }
        }
    }
}

/// A spin of this duration, or none if workers outnumber processors.
fn spinning(time: Duration) -> Spin {
    if count() > affinity::usable() {
        Spin::NEVER
    } else {
        Spin::lasting(time)
    }
}
