//! The last step that used some gradients, and its phase, in one word.

/// The phase of the last step that used the gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum StepPhase {
    /// There is none, or its contributions have been applied.
    Applied = 0,
    /// It is running.
    InFlight = 1,
    /// It was committed.
    Ready = 2,
    /// It was rolled back.
    RolledBack = 3,
}

const PHASE_BITS: u32 = 2;

pub(crate) fn pack(step: u64, phase: StepPhase) -> u64 {
    step << PHASE_BITS | phase as u64
}

pub(crate) fn unpack(state: u64) -> (u64, StepPhase) {
    let phases = [
        StepPhase::Applied,
        StepPhase::InFlight,
        StepPhase::Ready,
        StepPhase::RolledBack,
    ];
    (
        state >> PHASE_BITS,
        phases[(state & ((1 << PHASE_BITS) - 1)) as usize],
    )
}
