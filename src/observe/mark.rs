//! The point where the measurement of a step begins: the end of the run before it.

use super::clock;
use super::phase::ByPhase;
use super::watching::Local;

/// The end of a run, as seen by its thread.
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

    /// Whether it was set on this thread, and the thread has been measured without a break since.
    pub fn is_of(&self, local: &Local) -> bool {
        local.measuring.get() && local.stretch.get() == self.stretch
    }
}

/// The role of a run in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunRole {
    /// The run is measured.
    Now,
    /// The next run is measured.
    Next,
    Later,
}
