//! The step that used some gradients last, and what has become of its contributions.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The phase of the last step that used the gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum StepPhase {
    /// No step has begun, or the contributions of the last one have been applied.
    Applied = 0,
    /// The step is running.
    InFlight = 1,
    /// It was committed.
    Ready = 2,
    /// The step was rolled back.
    RolledBack = 3,
}

impl StepPhase {
    const ALL: [StepPhase; 4] = [
        StepPhase::Applied,
        StepPhase::InFlight,
        StepPhase::Ready,
        StepPhase::RolledBack,
    ];

    /// The phase after the end of an apply that had claimed the contributions, if it is another
    /// one: that of the table in the crate's documentation.
    fn after_claim(self, end: ClaimEnd) -> Option<StepPhase> {
        match (end, self) {
            (ClaimEnd::Applied, _) => Some(StepPhase::Applied),
            (ClaimEnd::FailedAfterExchange, StepPhase::Ready | StepPhase::InFlight) => {
                Some(StepPhase::RolledBack)
            }
            (ClaimEnd::FailedAfterExchange | ClaimEnd::Failed, _) => None,
        }
    }
}

/// How an apply that had claimed contributions ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimEnd {
    /// It was committed.
    Applied,
    /// It failed before the contributions were overwritten.
    Failed,
    /// It failed after ranks had exchanged gradients, whose results overwrite contributions.
    FailedAfterExchange,
}

const PHASE_BITS: u32 = 2;

fn pack(step: u64, phase: StepPhase) -> u64 {
    step << PHASE_BITS | phase as u64
}

fn unpack(word: u64) -> (u64, StepPhase) {
    (
        word >> PHASE_BITS,
        StepPhase::ALL[(word & ((1 << PHASE_BITS) - 1)) as usize],
    )
}

/// The last step that used some gradients, its phase, and the claim of an apply on its
/// contributions. It moves as the table in the crate's documentation says. Step numbers start at 1
/// and grow.
pub(crate) struct StepState {
    /// The step and its phase, in one word.
    last: AtomicU64,
    /// The amount by which the step number that users see is smaller than that of the last step.
    shown_offset: AtomicU64,
    /// An apply has been prepared and is neither committed nor dropped.
    claimed: AtomicBool,
    /// The apply that has claimed the contributions overwrites them.
    consumed: AtomicBool,
    /// The last step of whose contributions an apply failed.
    failed_apply: AtomicU64,
}

/// The state before a step that is to leave no trace.
pub struct StepBefore {
    last: u64,
    shown_offset: u64,
}

impl StepState {
    /// The state of gradients that no step has used.
    pub(crate) fn new() -> StepState {
        StepState {
            last: AtomicU64::new(pack(0, StepPhase::Applied)),
            shown_offset: AtomicU64::new(0),
            claimed: AtomicBool::new(false),
            consumed: AtomicBool::new(false),
            failed_apply: AtomicU64::new(0),
        }
    }

    /// The last step, and its phase.
    pub(crate) fn last(&self) -> (u64, StepPhase) {
        unpack(self.last.load(Ordering::Acquire))
    }

    fn set_last(&self, step: u64, phase: StepPhase) {
        self.last.store(pack(step, phase), Ordering::Release);
    }

    /// Notes that users know `step`, which is the last one, by the number `shown`.
    pub(crate) fn record_shown(&self, step: u64, shown: u64) {
        // Only a value that differs is written, so that replicas do not write shared memory.
        let offset = step - shown;
        if self.shown_offset.load(Ordering::Relaxed) != offset {
            self.shown_offset.store(offset, Ordering::Relaxed);
        }
    }

    /// The number by which users know the last step.
    pub(crate) fn shown(&self, step: u64) -> u64 {
        step - self.shown_offset.load(Ordering::Relaxed).min(step)
    }

    /// Makes `step` the last one, in flight, unless it is that or an earlier one. Returns true to
    /// exactly one caller for each step.
    pub(crate) fn begin(&self, step: u64) -> bool {
        let mut last = self.last.load(Ordering::Acquire);
        while unpack(last).0 < step {
            let begun = pack(step, StepPhase::InFlight);
            let exchange =
                self.last
                    .compare_exchange(last, begun, Ordering::AcqRel, Ordering::Acquire);
            match exchange {
                Ok(_) => return true,
                Err(current) => last = current,
            }
        }
        false
    }

    /// Whether `step` is the last one and in flight.
    pub(crate) fn is_in_flight(&self, step: u64) -> bool {
        self.last.load(Ordering::Acquire) == pack(step, StepPhase::InFlight)
    }

    /// The step is committed.
    pub(crate) fn commit(&self, step: u64) {
        self.finish(step, StepPhase::Ready);
    }

    /// The step is rolled back.
    pub(crate) fn roll_back(&self, step: u64) {
        self.finish(step, StepPhase::RolledBack);
    }

    fn finish(&self, step: u64, phase: StepPhase) {
        // Fails, and rightly does nothing, if the contributions were applied at the commit point,
        // or all was made as it was before the step (`StepState::restore`).
        let _ = self.last.compare_exchange(
            pack(step, StepPhase::InFlight),
            pack(step, phase),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
    }

    /// Notes that an apply of the contributions that are ready has failed.
    pub(crate) fn record_failed_apply(&self) {
        let (step, phase) = self.last();
        if phase == StepPhase::Ready {
            self.failed_apply.store(step, Ordering::Release);
        }
    }

    /// Whether an apply of the contributions of `step` has failed.
    pub(crate) fn has_failed_apply(&self, step: u64) -> bool {
        self.failed_apply.load(Ordering::Acquire) == step
    }

    /// Claims the contributions for an apply. False if another one has claimed them.
    pub(crate) fn claim(&self) -> bool {
        !self.claimed.swap(true, Ordering::AcqRel)
    }

    /// The apply that has claimed the contributions overwrites them from now on.
    pub(crate) fn consume(&self) {
        self.consumed.store(true, Ordering::Release);
    }

    /// Ends the claim of an apply, which was committed if it `applied` the contributions of a
    /// step. Calls `clear` before the contributions count no more.
    pub(crate) fn release(&self, applied: Option<u64>, clear: impl FnOnce()) {
        let (step, phase) = self.last();
        let consumed = self.consumed.load(Ordering::Acquire);
        if consumed {
            self.consumed.store(false, Ordering::Release);
        }
        let next = match applied {
            // Another step has begun since.
            Some(applied) if applied != step => None,
            Some(_) => phase.after_claim(ClaimEnd::Applied),
            None if consumed => phase.after_claim(ClaimEnd::FailedAfterExchange),
            None => phase.after_claim(ClaimEnd::Failed),
        };
        if let Some(next) = next {
            clear();
            self.set_last(step, next);
        }
        self.claimed.store(false, Ordering::Release);
    }

    /// Makes the contributions of the last step count no more.
    pub(crate) fn clear(&self) {
        let (step, _) = self.last();
        self.set_last(step, StepPhase::Applied);
    }

    /// Hides the contributions of the last step, until [`StepState::restore`]. Those that are ready
    /// are dropped for good.
    pub(crate) fn set_aside(&self) -> StepBefore {
        let (step, phase) = self.last();
        let phase = match phase {
            StepPhase::Ready => StepPhase::RolledBack,
            other => other,
        };
        self.clear();
        StepBefore {
            last: pack(step, phase),
            shown_offset: self.shown_offset.load(Ordering::Relaxed),
        }
    }

    /// Makes all as it was when it was set aside.
    pub(crate) fn restore(&self, before: &StepBefore) {
        self.shown_offset
            .store(before.shown_offset, Ordering::Relaxed);
        self.last.store(before.last, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A state whose last step, 3, is in `phase`.
    fn in_phase(phase: StepPhase) -> StepState {
        let state = StepState::new();
        state.set_last(3, phase);
        state
    }

    #[test]
    fn a_new_step_takes_the_place_of_the_last_one_once() {
        for phase in StepPhase::ALL {
            let state = in_phase(phase);
            assert!(!state.begin(2) && !state.begin(3), "{phase:?}");
            assert_eq!(state.last(), (3, phase));
            assert!(state.begin(4) && !state.begin(4), "{phase:?}");
            assert_eq!(state.last(), (4, StepPhase::InFlight));
            assert!(state.is_in_flight(4) && !state.is_in_flight(3));
        }
    }

    #[test]
    fn only_the_step_in_flight_is_committed_or_rolled_back() {
        for phase in StepPhase::ALL {
            let is_in_flight = phase == StepPhase::InFlight;
            for (step, moves) in [(2, false), (3, is_in_flight), (4, false)] {
                let state = in_phase(phase);
                state.commit(step);
                let next = if moves { StepPhase::Ready } else { phase };
                assert_eq!(state.last(), (3, next), "{phase:?}, {step}");
                let state = in_phase(phase);
                state.roll_back(step);
                let next = if moves { StepPhase::RolledBack } else { phase };
                assert_eq!(state.last(), (3, next), "{phase:?}, {step}");
            }
        }
    }

    #[test]
    fn an_apply_that_commits_leaves_nothing_to_apply() {
        for phase in StepPhase::ALL {
            let state = in_phase(phase);
            assert!(state.claim() && !state.claim());
            state.consume();
            state.release(Some(3), || ());
            assert_eq!(state.last(), (3, StepPhase::Applied), "{phase:?}");
            // The contributions of a later step are not touched.
            assert!(state.claim());
            state.begin(4);
            state.release(Some(3), || panic!("{phase:?}: of another step"));
            assert_eq!(state.last(), (4, StepPhase::InFlight), "{phase:?}");
        }
    }

    #[test]
    fn an_apply_that_fails_leaves_contributions_that_it_has_not_overwritten() {
        for phase in StepPhase::ALL {
            let state = in_phase(phase);
            assert!(state.claim());
            state.release(None, || panic!("{phase:?}: nothing was overwritten"));
            assert_eq!(state.last(), (3, phase));

            assert!(state.claim());
            state.consume();
            let mut cleared = false;
            state.release(None, || cleared = true);
            let next = match phase {
                StepPhase::Ready | StepPhase::InFlight => StepPhase::RolledBack,
                other => other,
            };
            assert_eq!(state.last(), (3, next), "{phase:?}");
            assert_eq!(cleared, phase != next, "{phase:?}");
            // What one apply has overwritten does not count for the next.
            assert!(state.claim());
            state.release(None, || panic!("{phase:?}: nothing was overwritten again"));
        }
    }

    #[test]
    fn a_failed_apply_is_noted_of_contributions_that_are_ready() {
        for phase in StepPhase::ALL {
            let state = in_phase(phase);
            state.record_failed_apply();
            assert_eq!(state.has_failed_apply(3), phase == StepPhase::Ready);
            assert!(!state.has_failed_apply(4));
        }
    }

    #[test]
    fn restored_steps_have_no_contributions() {
        for phase in StepPhase::ALL {
            let state = in_phase(phase);
            state.record_shown(3, 2);
            let before = state.set_aside();
            assert_eq!(state.last(), (3, StepPhase::Applied));
            assert!(state.begin(4));
            state.record_shown(4, 4);
            state.restore(&before);
            let next = match phase {
                StepPhase::Ready => StepPhase::RolledBack,
                other => other,
            };
            assert_eq!(state.last(), (3, next), "{phase:?}");
            assert_eq!(state.shown(3), 2);
        }
    }
}
