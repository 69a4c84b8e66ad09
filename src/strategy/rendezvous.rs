//! Where the replicas of one step and their coordinator meet.
//!
//! A replica is *computing*, *waiting* (in a merge call) or *finished* (its callback returned).
//! The coordinator (the thread that called `run`) sleeps until nobody computes; then it alone
//! moves, and it may read what the replicas left and answer those that wait. So the protocol has
//! one hand-over each way: a replica gives up its part by `arrive` or `finish`, the coordinator
//! gives it back by `resume`.
//!
//! A coordinator that cannot wait any longer *abandons* the step. Replicas that waited are
//! released, replicas that compute run on; the last one to finish learns that it was the last.

use std::time::Instant;

use crossbeam_utils::CachePadded;

use super::signal::{Signal, Spin};
use super::sync::{AtomicBool, AtomicUsize, Ordering};

/// What a replica is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// In the callback.
    Computing,
    /// In a merge call.
    Waiting,
    /// The callback has returned.
    Finished,
}

const COMPUTING: usize = 0;
const WAITING: usize = 1;
const FINISHED: usize = 2;

/// Set in `unfinished` once the coordinator has gone.
const ABANDONED: usize = 1 << (usize::BITS - 1);

/// What a finishing replica learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The coordinator will see to the rest.
    Ordinary,
    /// The step was abandoned and other replicas are still in their callbacks.
    Late,
    /// The step was abandoned and this replica was the last: what the step held can go.
    LateAndLast,
}

/// The meeting point of one step.
pub struct Rendezvous {
    /// Replicas that are computing.
    computing: CachePadded<AtomicUsize>,
    /// Replicas whose callback has not returned, and whether the step was abandoned.
    unfinished: CachePadded<AtomicUsize>,
    /// The step was abandoned: nobody will answer any more.
    abandoned: AtomicBool,
    coordinator: Signal,
    phases: Box<[CachePadded<AtomicUsize>]>,
}

impl Rendezvous {
    pub fn new(replicas: usize) -> Rendezvous {
        Rendezvous {
            computing: CachePadded::new(AtomicUsize::new(0)),
            unfinished: CachePadded::new(AtomicUsize::new(0)),
            abandoned: AtomicBool::new(false),
            coordinator: Signal::new(),
            phases: (0..replicas).map(|_| CachePadded::new(AtomicUsize::new(FINISHED))).collect(),
        }
    }

    /// Opens the meeting: all replicas compute. The coordinator calls it before it tells any
    /// replica of the step; all of the step before have finished.
    pub fn open(&self) {
        for phase in &self.phases {
            phase.store(COMPUTING, Ordering::Relaxed);
        }
        self.unfinished.store(self.phases.len(), Ordering::Relaxed);
        self.computing.store(self.phases.len(), Ordering::Relaxed);
    }

    /// What `replica` is doing. Steady only while nobody computes.
    pub fn phase(&self, replica: usize) -> Phase {
        match self.phases[replica].load(Ordering::Acquire) {
            COMPUTING => Phase::Computing,
            WAITING => Phase::Waiting,
            _ => Phase::Finished,
        }
    }

    /// `replica` begins to wait for an answer. What it asks for must be stored before.
    pub fn arrive(&self, replica: usize) {
        self.phases[replica].store(WAITING, Ordering::Release);
        self.stop_computing();
    }

    /// The callback of `replica` has returned. Its outcome must be stored before.
    pub fn finish(&self, replica: usize) -> Finish {
        self.phases[replica].store(FINISHED, Ordering::Release);
        let before = self.unfinished.fetch_sub(1, Ordering::AcqRel);
        if before & ABANDONED == 0 {
            self.stop_computing();
            Finish::Ordinary
        } else if before & !ABANDONED == 1 {
            Finish::LateAndLast
        } else {
            Finish::Late
        }
    }

    fn stop_computing(&self) {
        if self.computing.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.coordinator.notify();
        }
    }

    /// Waits, as the coordinator, until nobody computes; or until `give_up`, which is looked at
    /// whenever somebody calls [`Rendezvous::wake_coordinator`], or the deadline. Returns whether
    /// nobody computes.
    pub fn wait_for_all(
        &self,
        spin: Spin,
        deadline: Option<Instant>,
        give_up: impl Fn() -> bool,
    ) -> bool {
        let still = || self.computing.load(Ordering::Acquire) == 0;
        self.coordinator.wait_until(spin, deadline, || still() || give_up());
        still()
    }

    /// Makes a waiting coordinator look at its `give_up` again.
    pub fn wake_coordinator(&self) {
        self.coordinator.notify();
    }

    /// Answers `replica`, which waits. The answer must be stored before; the caller then notifies
    /// the replica's thread.
    pub fn resume(&self, replica: usize) {
        self.computing.fetch_add(1, Ordering::Relaxed);
        self.phases[replica].store(COMPUTING, Ordering::Release);
    }

    /// Whether `replica`, which waits, need not wait any longer: it was answered, or nobody will
    /// answer.
    pub fn is_released(&self, replica: usize) -> bool {
        self.phases[replica].load(Ordering::Acquire) == COMPUTING || self.is_abandoned()
    }

    /// Whether the step was abandoned.
    pub fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }

    /// Gives the step up, as the coordinator, unless all callbacks have returned meanwhile.
    /// Returns whether it was given up; the caller then notifies the threads of all replicas.
    pub fn abandon(&self) -> bool {
        if self.unfinished.fetch_or(ABANDONED, Ordering::AcqRel) == 0 {
            self.unfinished.store(0, Ordering::Relaxed);
            return false;
        }
        self.abandoned.store(true, Ordering::Release);
        true
    }

    /// How many callbacks of an abandoned step have not returned.
    pub fn late(&self) -> usize {
        self.unfinished.load(Ordering::Acquire) & !ABANDONED
    }
}
