//! One piece of work on a stream.

use std::ffi::c_void;
use std::sync::Arc;

use crate::clock::{Actor, Clock};
use crate::launch::Launch;

/// Who an operation is and what was finished before it starts.
pub struct Stamp {
    /// The operation in words.
    pub name: Arc<str>,
    /// Its stream in words.
    pub stream: Arc<str>,
    actor: Actor,
    number: u64,
    pub clock: Clock,
}

impl Stamp {
    pub fn new(name: Arc<str>, stream: Arc<str>, actor: Actor, number: u64, clock: Clock) -> Stamp {
        Stamp {
            name,
            stream,
            actor,
            number,
            clock,
        }
    }

    /// Whether `other` is finished before this operation starts, or is this one.
    pub fn knows(&self, other: &Stamp) -> bool {
        other.is_known_to(&self.clock)
    }

    /// Whether a clock covers this operation.
    pub fn is_known_to(&self, clock: &Clock) -> bool {
        clock.get(self.actor) >= self.number
    }

    /// The operation in words, with its stream and its number there.
    pub fn describe(&self) -> String {
        format!(
            "{} (operation {} of {})",
            self.name, self.number, self.stream
        )
    }
}

/// Where the bytes of a copy to a device come from.
pub enum Source {
    /// They were read when the call was made.
    Staged(Vec<u8>),
    /// They are read when the copy runs.
    Address(u64),
}

/// Where a copy ends.
pub enum Destination {
    /// Device memory or page-locked memory.
    Address(u64),
    /// Memory of the program; the call does not return before the copy is made.
    Pageable(*mut u8),
}

/// A function of the program that a stream calls.
#[derive(Clone, Copy)]
pub struct HostFunction {
    pub function: unsafe extern "C" fn(*mut c_void),
    pub data: *mut c_void,
}

/// What an operation does.
pub enum Work {
    /// Only its order matters: waits, allocations.
    Nothing,
    /// An event is recorded, for this number of times.
    Record {
        event: u32,
        time: u64,
    },
    Copy {
        from: Source,
        to: Destination,
        bytes: u64,
    },
    Fill {
        at: u64,
        value: u8,
        bytes: u64,
    },
    Free {
        at: u64,
    },
    Host(HostFunction),
    Launch(Box<Launch>),
}

/// Work with what it must wait for.
pub struct Operation {
    pub stamp: Arc<Stamp>,
    pub work: Work,
    /// Streams and how many of their operations must have finished.
    pub after: Vec<(u32, u64)>,
}

// SAFETY: the pointers are the program's, given with the promise that they may be used until the
// operation has run, by whichever thread runs it.
unsafe impl Send for Operation {}
// SAFETY: as above; a stamp holds no pointers and work is only used by the thread that runs it.
unsafe impl Send for HostFunction {}
