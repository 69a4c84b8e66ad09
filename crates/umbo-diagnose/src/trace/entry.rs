//! The entries of a trace.

use umbo_base::observe::trace::Event;

use crate::sample::{ReplicaSample, StepPlace, StepSample};

/// An event, with what is known about it beside its time.
#[derive(Debug)]
pub(crate) struct Entry {
    pub event: Event,
    pub detail: Detail,
}

impl From<Event> for Entry {
    fn from(event: Event) -> Entry {
        Entry {
            event,
            detail: Detail::None,
        }
    }
}

/// The details of an event, in addition to its time.
#[derive(Debug)]
pub(crate) enum Detail {
    None,
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
