//! Hooks: the program's functions for when a thread begins to serve as a replica, and when it ends.
//!
//! Libraries that compute have pools of threads whose size is a property of the process or of the
//! thread that calls them. A program sets it where replicas run, once for each thread, before the
//! first callback there. Replica 0 usually runs on one of the program's threads, so "a replica's
//! thread" is any thread that serves as a replica: the program's function is called when the thread
//! does so for the first time. For the library's threads it is also called when they end; for the
//! program's threads that time is not known.

use std::cell::RefCell;
use std::sync::Arc;

use crate::setup::layout::ReplicaLayout;
use umbo_device::DeviceId;
use umbo_executor::affinity::{CpuSet, ProcessorPart};

/// A thread that serves as a replica.
#[derive(Clone)]
pub struct ReplicaThread {
    /// The replica.
    pub replica: usize,
    /// The number of replicas the strategy has.
    pub replicas: usize,
    /// The replica's device.
    pub device: DeviceId,
    /// The processors that are the replica's: those of its device if threads are bound, else all
    /// of this rank's.
    pub processors: CpuSet,
    /// How many threads should compute for this replica, so that all replicas that compute at a
    /// time have no more than there are processors; at least 1.
    pub computing_threads: usize,
    /// Whether it is one of the program's threads, which called a run without limits.
    pub is_callers: bool,
}

/// The program's function for threads of replicas. With `true` it is called just before the
/// callback, in the replica's context, on a thread that serves as a replica for the first time;
/// with `false` on a thread of the library's that has served for the last time. A strategy's copies
/// share it.
pub type ThreadHook = Arc<dyn Fn(&ReplicaThread, bool) + Send + Sync>;

thread_local! {
    /// The strategies that this thread has served, by number.
    static SERVED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// A list this long is looked through for strategies that are gone.
const LONG: usize = 64;

/// Notes that this thread serves the strategy with this number; returns whether it did not before.
/// `is_there` says whether there is a strategy of a number.
pub(crate) fn is_new(strategy: u64, is_there: impl Fn(u64) -> bool) -> bool {
    let note = |served: &RefCell<Vec<u64>>| {
        let mut served = served.borrow_mut();
        if served.contains(&strategy) {
            return false;
        }
        if served.len() >= LONG {
            served.retain(|&id| is_there(id));
        }
        served.push(strategy);
        true
    };
    // A thread that ends has lost the list.
    SERVED.try_with(note).unwrap_or(false)
}

impl ReplicaThread {
    /// The thread of `replica`. `bound` says whether threads are bound to the processors of their
    /// devices, `part` which part of the machine's is this rank's.
    pub(crate) fn new(
        layout: &ReplicaLayout,
        replica: usize,
        bound: bool,
        part: ProcessorPart,
    ) -> ReplicaThread {
        let all = part.processors();
        let device = layout.replica_devices[replica];
        // A GPU has no processors of its own: its replica shares all with the others.
        let device_processors = layout.processors_of(device, &all).filter(|_| bound);
        let shared = all.count() / layout.compute_devices.len();
        ReplicaThread {
            replica,
            replicas: layout.replica_devices.len(),
            device,
            computing_threads: device_processors
                .as_ref()
                .map_or(shared, CpuSet::count)
                .max(1),
            processors: device_processors.unwrap_or(all),
            is_callers: false,
        }
    }
}

/// Calls the program's function if the calling thread, one of the library's, has served the
/// strategy.
pub(crate) fn end_serving(strategy: u64, thread: &ReplicaThread, hook: Option<ThreadHook>) {
    let has_served = SERVED.with(|served| served.borrow().contains(&strategy));
    if let Some(hook) = hook.filter(|_| has_served) {
        hook(thread, false);
    }
}
