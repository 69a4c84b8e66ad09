//! Where the measurement of a step begins: at the end of the run before it.

use super::clock;
use super::phase::ByPhase;
use super::watching::Local;

/// The end of a run, as its thread saw it.
#[derive(Debug)]
pub(super) struct RunEnd {
    pub at: u64,
    stretch: u64,
    pub spent: ByPhase<u64>,
    pub updated: u64,
}

impl RunEnd {
    pub fn now(local: &Local) -> RunEnd {
        let (stretch, updated) = (local.stretch.get(), local.updated.get());
        RunEnd { at: clock::now(), stretch, spent: local.spent(), updated }
    }

    /// Whether it was set on this thread, which has been measured ever since.
    pub fn is_of(&self, local: &Local) -> bool {
        local.measuring.get() && local.stretch.get() == self.stretch
    }
}

/// What a run is to the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunRole {
    /// It is measured.
    Now,
    /// The one after it is.
    Next,
    Later,
}
