//! The phases of a step's time, and the byte counters.

enum_with_all! {
    /// A phase of a step's time. The numbers are those of the C constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(usize)]
    pub enum Phase {
        /// Waiting for, or making, the next element.
        Input = 0,
        /// Splitting a batch into the replicas' parts.
        Split = 1,
        /// Copying tensors, between devices too.
        Copy = 2,
        /// The program's callback.
        Compute = 3,
        /// A replica is idle: others compute, or it is being woken.
        Wait = 4,
        /// Reductions, gathers and the functions of merge calls.
        Reduce = 5,
        /// Updates of variables, and other work at the commit point.
        Update = 6,
        /// Communication between processes.
        Exchange = 7,
    }
}

impl Phase {
    /// `input`, `split` and so on.
    pub fn name(self) -> &'static str {
        const NAMES: ByPhase<&str> = [
            "input", "split", "copy", "compute", "wait", "reduce", "update", "exchange",
        ];
        NAMES[self as usize]
    }
}

/// A number for each phase.
pub type ByPhase<T> = [T; Phase::ALL.len()];

enum_with_all! {
    /// A counter, in bytes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(usize)]
    pub enum Counter {
        /// Bytes that reductions and gathers read and wrote.
        Reduced = 0,
        /// Bytes that were copied from tensor to tensor.
        Copied = 1,
        /// Bytes that were sent to and received from other processes.
        Exchanged = 2,
        /// Bytes that updates of variables read and wrote.
        Updated = 3,
    }
}

impl Counter {
    /// `reduced`, `copied`, `exchanged` or `updated`.
    pub fn name(self) -> &'static str {
        ["reduced", "copied", "exchanged", "updated"][self as usize]
    }
}
