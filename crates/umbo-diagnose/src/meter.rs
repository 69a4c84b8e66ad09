//! Measures the callback of a replica, on the replica's thread.

use crate::sample::{Clocks, ReplicaSample};
use umbo_base::observe::phase::ByPhase;
use umbo_base::observe::watching::LOCAL;
use umbo_system::clock;

/// The time when a measured step was opened, and how its replicas measure themselves.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    pub(super) at: u64,
    pub(super) with_clocks: bool,
}

/// Measures a replica's callback, on its thread.
#[derive(Debug)]
pub struct Meter {
    opened: Opened,
    start: u64,
    clocks: Clocks,
    before: ByPhase<u64>,
    inside: u64,
    running: bool,
}

impl Meter {
    /// Starts at the beginning of the callback.
    pub fn start(opened: Opened) -> Meter {
        let (before, inside, running) = LOCAL.with(|local| {
            (
                local.spent(),
                local.inside.replace(0),
                local.running.replace(true),
            )
        });
        let clocks = read_clocks(opened.with_clocks);
        Meter {
            opened,
            start: clock::now(),
            clocks,
            before,
            inside,
            running,
        }
    }

    /// Stops at the end of the callback. Returns the replica's sample and the time at which the
    /// callback began.
    pub fn stop(self) -> (ReplicaSample, u64) {
        let wall = clock::now().saturating_sub(self.start);
        let clocks = read_clocks(self.opened.with_clocks);
        let clocks = self.opened.with_clocks.then(|| Clocks {
            on_processor: clocks.on_processor.saturating_sub(self.clocks.on_processor),
            ready: clocks.ready.saturating_sub(self.clocks.ready),
        });
        let spent = LOCAL.with(|local| {
            let spent = local.spent();
            // On the thread that called the run, this time does not count as the thread's own work.
            local.set_spent(&self.before);
            local.inside.set(self.inside.saturating_add(wall));
            local.running.set(self.running);
            std::array::from_fn(|at| spent[at].saturating_sub(self.before[at]))
        });
        let begun = self.start.saturating_sub(self.opened.at);
        (
            ReplicaSample {
                begun,
                wall,
                spent,
                clocks,
            },
            self.start,
        )
    }
}

/// Reads the clocks of this thread, if `read`.
fn read_clocks(read: bool) -> Clocks {
    match read {
        true => Clocks {
            on_processor: clock::on_processor(),
            ready: clock::ready(),
        },
        false => Clocks::default(),
    }
}
