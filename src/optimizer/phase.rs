//! The last step that touched some gradients, and what became of it, in one word.

/// What became of the last step that touched the gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Phase {
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

pub(super) fn pack(step: u64, phase: Phase) -> u64 {
    step << PHASE_BITS | phase as u64
}

pub(super) fn unpack(state: u64) -> (u64, Phase) {
    let phases = [Phase::Applied, Phase::InFlight, Phase::Ready, Phase::RolledBack];
    (state >> PHASE_BITS, phases[(state & ((1 << PHASE_BITS) - 1)) as usize])
}
