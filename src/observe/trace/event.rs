//! What a trace consists of.

use std::borrow::Cow;

use crate::observe::sample::{ReplicaSample, StepPlace, StepSample};

/// What a thread did.
pub(crate) struct Event {
    /// By the library or, owned, by the program.
    pub name: Cow<'static, str>,
    pub category: &'static str,
    /// In nanoseconds of [`now`](super::now).
    pub start: u64,
    pub duration: u64,
    pub(in crate::observe) detail: Detail,
}

impl Event {
    /// An event about so many bytes; 0 if that is not said.
    pub fn of(
        name: impl Into<Cow<'static, str>>,
        category: &'static str,
        start: u64,
        duration: u64,
        bytes: u64,
    ) -> Event {
        let detail = if bytes > 0 { Detail::Bytes(bytes) } else { Detail::None };
        Event { name: name.into(), category, start, duration, detail }
    }
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
