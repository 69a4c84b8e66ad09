//! What a step's time is spent on, and what is counted beside it.

/// What some time of a step is spent on. The numbers are those of the C constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Phase {
    /// Waiting for, or making, the next element.
    Input = 0,
    /// Cutting a batch into the replicas' parts.
    Split = 1,
    /// Copying tensors, between devices too.
    Copy = 2,
    /// The program's callback.
    Compute = 3,
    /// A replica has nothing to do: others compute, or it is being woken.
    Wait = 4,
    /// Reductions, gathers and the functions of merge calls.
    Reduce = 5,
    /// Updates of variables, and what else is done at the commit point.
    Update = 6,
    /// What goes between processes.
    Exchange = 7,
}

impl Phase {
    /// All of them, in the order of their numbers.
    pub const ALL: [Phase; 8] = [
        Phase::Input,
        Phase::Split,
        Phase::Copy,
        Phase::Compute,
        Phase::Wait,
        Phase::Reduce,
        Phase::Update,
        Phase::Exchange,
    ];

    /// `input`, `split` and so on.
    pub fn name(self) -> &'static str {
        const NAMES: ByPhase<&str> =
            ["input", "split", "copy", "compute", "wait", "reduce", "update", "exchange"];
        NAMES[self as usize]
    }
}

/// A number for each phase.
pub type ByPhase<T> = [T; Phase::ALL.len()];

/// What is counted, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Read and written by reductions and gathers.
    Reduced = 0,
    /// Copied from tensor to tensor.
    Copied = 1,
    /// Sent to and received from other processes.
    Exchanged = 2,
    /// Read and written by updates of variables.
    Updated = 3,
}

impl Counter {
    /// All of them, in the order of their numbers.
    pub const ALL: [Counter; 4] =
        [Counter::Reduced, Counter::Copied, Counter::Exchanged, Counter::Updated];

    /// `reduced`, `copied`, `exchanged` or `updated`.
    pub fn name(self) -> &'static str {
        ["reduced", "copied", "exchanged", "updated"][self as usize]
    }
}
