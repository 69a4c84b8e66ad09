//! What a trace consists of.

use crate::observe::sample::{ReplicaSample, StepPlace, StepSample};

/// What a thread did.
pub(in crate::observe) struct Event {
    pub name: Name,
    pub category: &'static str,
    /// In nanoseconds of [`now`](super::now).
    pub start: u64,
    pub duration: u64,
    pub detail: Detail,
}

/// What an event is called.
pub(in crate::observe) enum Name {
    /// By the library.
    Own(&'static str),
    /// By the program.
    Given(Box<str>),
}

/// What an event says beside its time.
pub(in crate::observe) enum Detail {
    None,
    Bytes(u64),
    /// A replica's part of a step.
    Replica(StepPlace, u32, ReplicaSample),
    /// A step, with the bytes that were counted up to its end.
    Step(StepPlace, StepSample, [u64; 4]),
}

/// What a trace came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// The events that were written.
    pub events: u64,
    /// Those that were not, since there were too many.
    pub dropped: u64,
}
