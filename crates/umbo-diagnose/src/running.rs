//! A run that is measured. Its end is the beginning of the next step.

use std::sync::atomic::Ordering;

use crate::meter::Opened;
use crate::report::Recorder;
use crate::run_end::RunEnd;
use crate::sample::{StepPlace, StepSample};
use crate::trace::{self, Detail, Entry};
use umbo_base::observe::phase::ByPhase;
use umbo_base::observe::trace::Event;
use umbo_base::observe::watching::{self, LOCAL};
use umbo_system::clock;

/// After runs that take less time, callbacks are measured only with the system's clock.
const WORTH_CLOCKS: u64 = 1_000_000;

/// A run that is measured. If it is dropped, it is left out.
#[derive(Debug)]
pub struct WatchedRun<'a> {
    recorder: &'a Recorder,
    strategy: u64,
    /// The settings with which replicas measure themselves.
    pub opened: Opened,
    /// The end of the run before, if it is known.
    before: Option<RunEnd>,
    /// The time that its thread had spent when the run began; `updated` is the bytes that it had
    /// updated.
    spent: ByPhase<u64>,
    updated: u64,
}

impl Recorder {
    /// Begins a run of the strategy with number `strategy` on the calling thread. `None` if it is
    /// not measured.
    #[inline]
    pub fn begin(&self, strategy: u64) -> Option<WatchedRun<'_>> {
        if watching::is_watched() {
            self.begin_watched(strategy)
        } else {
            None
        }
    }

    #[cold]
    fn begin_watched(&self, strategy: u64) -> Option<WatchedRun<'_>> {
        LOCAL.with(|local| {
            // A step inside of a measured one is a part of it.
            if local.running.get() || !(self.is_on() || watching::is_traced()) {
                return None;
            }
            let before = self
                .end
                .lock()
                .take()
                .filter(|end| end.place == watching::place());
            local.running.set(true);
            local.inside.set(0);
            let with_clocks = self.last_run.load(Ordering::Relaxed) > WORTH_CLOCKS;
            let spent = local.spent();
            let updated = local.updated.get();
            let opened = Opened {
                at: clock::now(),
                with_clocks,
            };
            Some(WatchedRun {
                recorder: self,
                strategy,
                opened,
                before,
                spent,
                updated,
            })
        })
    }
}

impl WatchedRun<'_> {
    /// Ends the run. `kept` says whether it was committed. A run that was not committed is left out
    /// of the report.
    pub fn finish(self, place: StepPlace, kept: bool) {
        let sample = self.sample();
        let recorder = self.recorder;
        let strategy = self.strategy;
        recorder.last_run.store(sample.run, Ordering::Relaxed);
        if watching::is_traced() {
            let name = if kept {
                "step"
            } else {
                "step that was rolled back"
            };
            trace::record(Entry {
                event: Event::of(name, "step", self.opened.at, sample.run, 0),
                detail: Detail::Step(place, sample, watching::counts()),
            });
        }
        let may_log = recorder.keep(sample, kept);
        drop(self);
        LOCAL.with(|local| *recorder.end.lock() = Some(RunEnd::now(local)));
        if may_log {
            recorder.log_advice(strategy);
        }
    }

    fn sample(&self) -> StepSample {
        let now = clock::now();
        let before = self.before.as_ref();
        let (spent, updated) = LOCAL.with(|local| (local.spent(), local.updated.get()));
        let since = |after: &ByPhase<u64>, before: &ByPhase<u64>| -> ByPhase<u64> {
            std::array::from_fn(|at| after[at].saturating_sub(before[at]))
        };
        StepSample {
            period: before.map_or(0, |end| now.saturating_sub(end.at)),
            run: now.saturating_sub(self.opened.at),
            before: before.map_or([0; 8], |end| since(&self.spent, &end.spent)),
            central: since(&spent, &self.spent),
            updated: updated - before.map_or(self.updated, |end| end.updated),
        }
    }
}

impl Drop for WatchedRun<'_> {
    fn drop(&mut self) {
        LOCAL.with(|local| {
            local.running.set(false);
            // For a strategy whose run contains this one, this run is work of the program.
            local.set_spent(&self.spent);
            local.updated.set(self.updated);
        });
    }
}
