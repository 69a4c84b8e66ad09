//! The end of a run, which is the beginning of the next step.

use umbo_base::observe::phase::ByPhase;
use umbo_base::observe::watching::{self, Local};
use umbo_system::clock;

/// The end of a run, as seen by its thread.
#[derive(Debug)]
pub(super) struct RunEnd {
    pub at: u64,
    /// The thread, and the stretch of time without a break in watching.
    pub place: (u32, u64),
    pub spent: ByPhase<u64>,
    pub updated: u64,
}

impl RunEnd {
    pub fn now(local: &Local) -> RunEnd {
        let spent = local.spent();
        let updated = local.updated.get();
        RunEnd {
            at: clock::now(),
            place: watching::place(),
            spent,
            updated,
        }
    }
}
