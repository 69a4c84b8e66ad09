//! Where the replicas of one step and their coordinator meet.
//!
//! A replica is *computing*, *waiting* (in a merge call) or *finished* (its callback returned).
//! The coordinator (the thread that called `run`) sleeps until nobody computes; then it alone
//! moves, and it may read what the replicas left and answer those that wait. So the protocol has
//! one hand-over each way: a replica gives up its part by `arrive` or `finish`, the coordinator
//! gives it back by `resume`.
//!
//! A coordinator that cannot wait any longer *abandons* the step. Replicas that waited are
//! released, replicas that compute run on, and the coordinator itself counts as present until it
//! has put its own things in order and leaves. Whoever leaves last, a replica or the coordinator,
//! learns that it was the last, and nobody else touches the step after that.

use std::time::Instant;

use crossbeam_utils::CachePadded;

use crate::executor::sync::{AtomicBool, AtomicUsize, Ordering};
use crate::executor::wait::{Signal, Spin};

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

/// `state` counts two things in one word, so that a replica that finishes changes both at once:
/// in the lower half the replicas that compute, in the upper half who is present: the replicas that
/// have not finished, and the coordinator.
const ONE_COMPUTING: usize = 1;
const ONE_PRESENT: usize = 1 << (usize::BITS / 2);
/// Set in `state` once the step was abandoned.
const ABANDONED: usize = 1 << (usize::BITS - 1);

fn computing(state: usize) -> usize {
    state % ONE_PRESENT
}

fn present(state: usize) -> usize {
    (state & !ABANDONED) / ONE_PRESENT
}

/// What a replica that finishes, or a coordinator that leaves, learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// The coordinator will see to the rest.
    InTime,
    /// The step was abandoned and others are still present.
    Late,
    /// The step was abandoned and nobody else is present any more: it is drained.
    LateAndLast,
}

/// What a coordinator that waited for the replicas finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// All callbacks have returned.
    Finished,
    /// Nobody computes, and some replicas wait for an answer.
    Waiting,
    /// The step was given up while callbacks were running or waiting; the coordinator now
    /// notifies the threads of all replicas, and calls [`Rendezvous::leave`] in the end.
    Abandoned,
}

/// The meeting point of one step.
pub struct Rendezvous {
    /// How many replicas compute, how many threads are present, and whether the step was abandoned.
    state: CachePadded<AtomicUsize>,
    /// Whether the step was abandoned, for replicas that wait: the state changes too often for
    /// them to look at it.
    abandoned: AtomicBool,
    coordinator: Signal,
    phases: Box<[CachePadded<AtomicUsize>]>,
}

impl Rendezvous {
    pub fn new(replicas: usize) -> Rendezvous {
        Rendezvous {
            state: CachePadded::new(AtomicUsize::new(0)),
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
        let replicas = self.phases.len() * (ONE_COMPUTING + ONE_PRESENT);
        self.state.store(replicas + ONE_PRESENT, Ordering::Relaxed);
    }

    /// `replica` begins. Changes nothing: what it will write when it finishes is on its way to it while it
    /// computes.
    pub fn begin(&self, replica: usize) {
        self.phases[replica].store(COMPUTING, Ordering::Relaxed);
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
        let before = self.state.fetch_sub(ONE_COMPUTING, Ordering::AcqRel);
        if computing(before) == 1 {
            self.coordinator.notify();
        }
    }

    /// The callback of `replica` has returned. Its outcome must be stored before.
    pub fn finish(&self, replica: usize) -> Departure {
        // Whoever was released from a merge call because the step was given up does not count as
        // computing.
        let phase = self.phases[replica].load(Ordering::Relaxed);
        let own = if phase == COMPUTING { ONE_COMPUTING } else { 0 };
        self.phases[replica].store(FINISHED, Ordering::Release);
        let before = self.state.fetch_sub(own + ONE_PRESENT, Ordering::AcqRel);
        if before & ABANDONED == 0 && computing(before) == 1 {
            self.coordinator.notify();
        }
        departure(before)
    }

    /// The coordinator of an abandoned step leaves. All that it does with the step comes before.
    pub fn leave(&self) -> Departure {
        departure(self.state.fetch_sub(ONE_PRESENT, Ordering::AcqRel))
    }

    /// Waits, as the coordinator, until nobody computes or `give_up` says that the step must not
    /// go on, which is looked at when the deadline passes and whenever somebody calls
    /// [`Rendezvous::wake_coordinator`]. A step whose callbacks have all returned is finished,
    /// whatever `give_up` says.
    pub fn wait_for_all(
        &self,
        spin: Spin,
        deadline: Option<Instant>,
        give_up: impl Fn() -> bool,
    ) -> WaitOutcome {
        let still = || computing(self.state.load(Ordering::Acquire)) == 0;
        loop {
            self.coordinator.wait_until(spin, deadline, || still() || give_up());
            if self.is_finished() {
                return WaitOutcome::Finished;
            }
            if give_up() {
                return if self.abandon() { WaitOutcome::Abandoned } else { WaitOutcome::Finished };
            }
            if still() {
                return WaitOutcome::Waiting;
            }
        }
    }

    /// Makes a waiting coordinator look at its `give_up` again.
    pub fn wake_coordinator(&self) {
        self.coordinator.notify();
    }

    /// Answers `replica`, which waits. The answer must be stored before; the caller then notifies
    /// the replica's thread.
    pub fn resume(&self, replica: usize) {
        self.state.fetch_add(ONE_COMPUTING, Ordering::Relaxed);
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
    pub fn abandon(&self) -> bool {
        let given_up = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
                (present(state) > 1).then_some(state | ABANDONED)
            })
            .is_ok();
        if given_up {
            self.abandoned.store(true, Ordering::Release);
        }
        given_up
    }

    /// Whether all callbacks have returned; the coordinator is present when it asks.
    pub fn is_finished(&self) -> bool {
        present(self.state.load(Ordering::Acquire)) == 1
    }
}

/// What somebody learns who leaves when the state was `before`.
fn departure(before: usize) -> Departure {
    if before & ABANDONED == 0 {
        Departure::InTime
    } else if present(before) == 1 {
        Departure::LateAndLast
    } else {
        Departure::Late
    }
}
