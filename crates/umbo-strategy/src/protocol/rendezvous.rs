//! The rendezvous of the replicas of one step and their coordinator.
//!
//! A replica is *computing*, *waiting* (in a merge call) or *finished* (its callback returned). The
//! coordinator (the thread that called `run`) sleeps until nobody computes; then it alone moves,
//! and it may read what the replicas left and answer those that wait. So the protocol has one
//! hand-over in each direction: a replica hands its slot over with `arrive` or `finish`, and the
//! coordinator hands it back with `resume`.
//!
//! A coordinator that cannot wait any longer *abandons* the step. Replicas that waited are
//! released, replicas that compute run on, and the coordinator counts as present until it has
//! finished its own work and leaves. The last one to leave, a replica or the coordinator, learns
//! that it is the last, and nobody else uses the step after that.

use std::time::Instant;

use crossbeam_utils::CachePadded;

use umbo_executor::sync::{AtomicBool, AtomicUsize, Ordering};
use umbo_executor::wait::{Signal, Spin};

/// The phase of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaPhase {
    /// The replica is in the callback.
    Computing,
    /// The replica waits in a merge call.
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

/// The news for a replica that finishes, or for a coordinator that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// The step was not abandoned. The coordinator completes it.
    InTime,
    /// The step was abandoned and others are still present.
    Late,
    /// The step was abandoned and nobody else is present any more: it is drained.
    LateAndLast,
}

/// The result of the coordinator's wait for the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// All callbacks have returned.
    Finished,
    /// Nobody computes, and some replicas wait for an answer.
    Waiting,
    /// The step was abandoned while callbacks were running or waiting; the coordinator now notifies
    /// the threads of all replicas, and calls [`Rendezvous::leave`] in the end.
    Abandoned,
}

/// The rendezvous of one step.
pub struct Rendezvous {
    /// The number of replicas that compute, how many threads are present, and whether the step was
    /// abandoned.
    state: CachePadded<AtomicUsize>,
    /// Whether the step was abandoned. Waiting replicas read this flag, because `state` changes
    /// too often.
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
            phases: (0..replicas)
                .map(|_| CachePadded::new(AtomicUsize::new(FINISHED)))
                .collect(),
        }
    }

    /// Opens the step: all replicas compute. The coordinator calls it before it posts the step to
    /// any replica; all replicas of the step before have finished.
    pub fn open(&self) {
        for phase in &self.phases {
            phase.store(COMPUTING, Ordering::Relaxed);
        }
        let replicas = self.phases.len() * (ONE_COMPUTING + ONE_PRESENT);
        self.state.store(replicas + ONE_PRESENT, Ordering::Relaxed);
    }

    /// `replica` begins. It only prefetches the memory that the replica writes when it finishes.
    pub fn begin(&self, replica: usize) {
        self.phases[replica].store(COMPUTING, Ordering::Relaxed);
    }

    /// The phase of `replica`. It is stable only while nobody computes.
    pub fn phase(&self, replica: usize) -> ReplicaPhase {
        match self.phases[replica].load(Ordering::Acquire) {
            COMPUTING => ReplicaPhase::Computing,
            WAITING => ReplicaPhase::Waiting,
            _ => ReplicaPhase::Finished,
        }
    }

    /// `replica` begins to wait for an answer. Its request must be stored before.
    pub fn arrive(&self, replica: usize) {
        if computing(self.begin_to_wait(replica)) == 1 {
            self.coordinator.notify();
        }
    }

    /// As [`Rendezvous::arrive`], on the coordinator's thread, which does not wait now.
    pub fn arrive_as_coordinator(&self, replica: usize) {
        self.begin_to_wait(replica);
    }

    /// Counts `replica` as waiting. Returns the state before.
    fn begin_to_wait(&self, replica: usize) -> usize {
        self.phases[replica].store(WAITING, Ordering::Release);
        self.state.fetch_sub(ONE_COMPUTING, Ordering::AcqRel)
    }

    /// The callback of `replica` has returned. Its outcome must be stored before.
    pub fn finish(&self, replica: usize) -> Departure {
        let before = self.take_out(replica);
        if before & ABANDONED == 0 && computing(before) == 1 {
            self.coordinator.notify();
        }
        departure(before)
    }

    /// As [`Rendezvous::finish`], on the coordinator's thread, which does not wait now.
    pub fn finish_as_coordinator(&self, replica: usize) -> Departure {
        departure(self.take_out(replica))
    }

    /// Counts `replica` no more. Returns the state before.
    fn take_out(&self, replica: usize) -> usize {
        // A replica that was released from a merge call because the step was abandoned does not
        // count as computing.
        let phase = self.phases[replica].load(Ordering::Relaxed);
        let own_count = if phase == COMPUTING { ONE_COMPUTING } else { 0 };
        self.phases[replica].store(FINISHED, Ordering::Release);
        self.state
            .fetch_sub(own_count + ONE_PRESENT, Ordering::AcqRel)
    }

    /// The coordinator of an abandoned step leaves. All that it does with the step comes before.
    pub fn leave(&self) -> Departure {
        departure(self.state.fetch_sub(ONE_PRESENT, Ordering::AcqRel))
    }

    /// Waits, as the coordinator, until nobody computes or `give_up` returns true. `give_up` is
    /// called when the deadline passes and after each call of [`Rendezvous::wake_coordinator`].
    /// A step whose callbacks have all returned is finished, whatever `give_up` returns.
    pub fn wait_for_all(
        &self,
        spin: Spin,
        deadline: Option<Instant>,
        give_up: impl Fn() -> bool,
    ) -> WaitOutcome {
        let still = || computing(self.state.load(Ordering::Acquire)) == 0;
        loop {
            self.coordinator
                .wait_until(spin, deadline, || still() || give_up());
            if self.is_finished() {
                return WaitOutcome::Finished;
            }
            if give_up() {
                return if self.abandon() {
                    WaitOutcome::Abandoned
                } else {
                    WaitOutcome::Finished
                };
            }
            if still() {
                return WaitOutcome::Waiting;
            }
        }
    }

    /// Makes a waiting coordinator call its `give_up` again.
    pub fn wake_coordinator(&self) {
        self.coordinator.notify();
    }

    /// Resumes `replica`, which waits. Its reply must be stored before; the caller then notifies
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

    /// Abandons the step, as the coordinator, unless all callbacks have returned meanwhile.
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

/// The news for a thread that leaves when the state was `before`.
fn departure(before: usize) -> Departure {
    if before & ABANDONED == 0 {
        Departure::InTime
    } else if present(before) == 1 {
        Departure::LateAndLast
    } else {
        Departure::Late
    }
}
