//! The events of a trace.

use std::borrow::Cow;

use crate::observe::sample::{ReplicaSample, StepPlace, StepSample};

/// An event of a thread.
pub struct Event {
    /// The name. Borrowed names are the library's, and owned ones are the program's.
    pub name: Cow<'static, str>,
    /// The kind of work, as traces name it.
    pub category: &'static str,
    /// The start, in nanoseconds of [`now`](super::now).
    pub start: u64,
    /// Nanoseconds from the start to the end.
    pub duration: u64,
    pub(in crate::observe) detail: Detail,
}

impl Event {
    /// An event with a number of bytes; 0 if there is none.
    pub fn of(
        name: impl Into<Cow<'static, str>>,
        category: &'static str,
        start: u64,
        duration: u64,
        bytes: u64,
    ) -> Event {
        let detail = if bytes > 0 {
            Detail::Bytes(bytes)
        } else {
            Detail::None
        };
        Event {
            name: name.into(),
            category,
            start,
            duration,
            detail,
        }
    }
}

/// The details of an event, in addition to its time.
pub(in crate::observe) enum Detail {
    None,
    Bytes(u64),
    /// A replica's part of a step.
    Replica(StepPlace, u32, ReplicaSample),
    /// A step, with the bytes that were counted up to its end.
    Step(StepPlace, StepSample, [u64; 4]),
}

/// The result of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// The number of events that were written.
    pub events: u64,
    /// The number of events that were not written, because there were too many.
    pub dropped: u64,
}
