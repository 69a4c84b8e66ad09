//! Threads outside the set that help with its work while they spin.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::CALLER;
use super::job::WorkerJob;
use crate::handover::Offer;

/// The operation that threads help with which spin. Only the thread that has entered the set offers
/// one.
pub(super) static OFFER: Offer<WorkerJob> = Offer::new();

/// The number of threads that help while they spin.
static HELPING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The number of the range that this thread takes first if it helps.
    static PREFERRED: Cell<usize> = const { Cell::new(0) };
}

/// The range that the calling thread takes first.
pub(super) fn preferred() -> usize {
    PREFERRED.get()
}

/// Whether there are threads that help.
pub(super) fn is_possible() -> bool {
    HELPING.load(Ordering::Relaxed) > 0
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
pub(crate) fn help(ready: &mut dyn FnMut() -> bool) -> bool {
    if !OFFER.is_open() {
        return false;
    }
    // SAFETY: an offered job is alive as long as a thread has joined it.
    let helped = OFFER.join(&CALLER, |job| unsafe { WorkerJob::help(job, ready) });
    helped.unwrap_or(false)
}
