//! The threads of the worker set.

use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::job::WorkerJob;
use super::spinning;
use crate::affinity::KeptOff;
use crate::handover::Inbox;
use crate::stealing::ChunkQueue;
use crate::thread::{self, Handle, Purpose, ThreadOptions};
use umbo_base::observe::log::{self, Level};

/// How long to spin before parking. It takes about as long to wake a parked thread.
const SPIN: Duration = Duration::from_micros(30);

/// The threads of the set. The calling thread is not among them.
pub(super) struct WorkerThreads {
    pub(super) workers: Vec<Worker>,
    /// One for each worker that there was, and before them the calling thread's.
    pub(super) queues: Vec<ChunkQueue>,
    /// The time when the system last refused another thread.
    refused: Option<Instant>,
}

pub(super) struct Worker {
    pub(super) slot: Arc<WorkerSlot>,
    handle: Handle,
}

/// How long no thread is started after the system has refused one.
const PAUSE: Duration = Duration::from_millis(100);

/// The value in a slot whose worker is to end.
const END: *mut WorkerJob = ptr::without_provenance_mut(align_of::<WorkerJob>());

/// The place where a worker finds its next job.
pub(super) struct WorkerSlot {
    /// The number of this worker.
    worker: usize,
    pub(super) inbox: Inbox<WorkerJob>,
}

impl WorkerThreads {
    /// No thread has started.
    pub(super) const fn new() -> WorkerThreads {
        WorkerThreads {
            workers: Vec::new(),
            queues: Vec::new(),
            refused: None,
        }
    }

    /// Whether the first `helpers` threads wait for work without having parked.
    pub(super) fn are_awake(&self, helpers: usize) -> bool {
        self.workers
            .iter()
            .take(helpers)
            .all(|worker| !worker.slot.inbox.is_parked())
    }

    /// Starts threads until there are `wanted`. Returns how many can be used.
    pub(super) fn at_least(&mut self, wanted: usize) -> usize {
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

    /// Ends the threads. Later work starts them again.
    pub(super) fn end(&mut self) {
        for worker in &self.workers {
            worker.slot.inbox.give(END);
        }
        for worker in self.workers.drain(..) {
            // A panic of a body does not reach the thread's own code.
            let _ = worker.handle.join();
        }
        self.refused = None;
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
