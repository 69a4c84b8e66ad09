//! A run that is measured, or whose end is the beginning of the next measured step.

use std::sync::atomic::Ordering;

use super::clock;
use super::mark::{RunEnd, RunRole};
use super::meter::Opened;
use super::phase::ByPhase;
use super::report::Recorder;
use super::sample::{StepPlace, StepSample};
use super::trace::{self, Detail, Event};
use super::watching::{self, LOCAL, Local};

/// Callbacks that take less time are measured only with the system's clock.
const WORTH_CLOCKS: u64 = 200_000;

/// A run that is measured, or whose end is marked for the next run. If it is dropped, it is left out.
#[derive(Debug)]
pub struct WatchedRun<'a> {
    recorder: &'a Recorder,
    strategy: u64,
    turn: RunRole,
    measured: Option<MeasuredRun>,
    /// The time that its thread had spent when the run began; `updated` is the bytes that it had updated.
    spent: ByPhase<u64>,
    updated: u64,
    left: bool,
}

/// The data about a measured run at its beginning.
#[derive(Debug)]
struct MeasuredRun {
    opened: Opened,
    mark: Option<RunEnd>,
}

impl Recorder {
    /// Begins a run of the strategy with number `strategy` on the calling thread. `None` if it is not measured.
    #[inline]
    pub fn begin(&self, strategy: u64) -> Option<WatchedRun<'_>> {
        if watching::is_watched() { self.begin_watched(strategy) } else { None }
    }

    #[cold]
    fn begin_watched(&self, strategy: u64) -> Option<WatchedRun<'_>> {
        LOCAL.with(|local| {
            // A step inside of a measured one is a part of it.
            if local.running.get() {
                return None;
            }
            let turn = self.take_turn();
            let measured = (turn == RunRole::Now || watching::is_traced()).then(|| {
                let mark = self.mark.lock().take().filter(|mark| mark.is_of(local));
                local.measure_for(strategy);
                local.running.set(true);
                local.inside.set(0);
                let with_clocks = self.usual_run.load(Ordering::Relaxed) > WORTH_CLOCKS;
                MeasuredRun { opened: Opened { at: clock::now(), with_clocks }, mark }
            });
            if measured.is_none() {
                local.leave_out(strategy);
                if turn == RunRole::Later && !local.measuring.get() {
                    return None;
                }
            }
            let (spent, updated) = (local.spent(), local.updated.get());
            Some(WatchedRun {
                recorder: self,
                strategy,
                turn,
                measured,
                spent,
                updated,
                left: false,
            })
        })
    }
}

impl WatchedRun<'_> {
    /// The settings with which replicas measure themselves, if the run is measured.
    pub fn opened(&self) -> Option<Opened> {
        self.measured.as_ref().map(|measured| measured.opened)
    }

    /// Ends the run. `kept` says whether it was committed. A run that was not committed is left out of the report.
    pub fn finish(mut self, place: StepPlace, kept: bool) {
        self.left = true;
        let mut may_log = false;
        if let Some(measured) = self.measured.take() {
            let with_clocks = measured.opened.with_clocks;
            let sample = self.sample(&measured);
            self.recorder.note_run(sample.run);
            if watching::is_traced() {
                let name = if kept { "step" } else { "step that was rolled back" };
                trace::record(Event {
                    name: name.into(),
                    category: "step",
                    start: measured.opened.at,
                    duration: sample.run,
                    detail: Detail::Step(place, sample, watching::counts()),
                });
            }
            // A trace contains all steps. It does not change the report.
            may_log = kept && self.turn == RunRole::Now && self.recorder.keep(sample, with_clocks);
        }
        let next = self.recorder.is_due() || watching::is_traced();
        LOCAL.with(|local| self.leave(local, next));
        if may_log {
            self.recorder.log_advice(self.strategy);
        }
    }

    fn sample(&self, measured: &MeasuredRun) -> StepSample {
        let now = clock::now();
        let MeasuredRun { opened, mark } = measured;
        let (spent, updated) = LOCAL.with(|local| (local.spent(), local.updated.get()));
        let since = |after: &ByPhase<u64>, before: &ByPhase<u64>| -> ByPhase<u64> {
            std::array::from_fn(|at| after[at].saturating_sub(before[at]))
        };
        StepSample {
            period: mark.as_ref().map_or(0, |mark| now.saturating_sub(mark.at)),
            run: now.saturating_sub(opened.at),
            before: mark.as_ref().map_or([0; 8], |mark| since(&self.spent, &mark.spent)),
            central: since(&spent, &self.spent),
            updated: updated - mark.as_ref().map_or(self.updated, |mark| mark.updated),
        }
    }

    fn leave(&self, local: &Local, next: bool) {
        local.running.set(false);
        // For a strategy whose run contains this one, this run is work of the program.
        local.set_spent(&self.spent);
        local.updated.set(self.updated);
        if next {
            local.measure_for(self.strategy);
            *self.recorder.mark.lock() = Some(RunEnd::now(local));
        } else {
            local.leave_out(self.strategy);
        }
    }
}

impl Drop for WatchedRun<'_> {
    fn drop(&mut self) {
        if !self.left {
            LOCAL.with(|local| self.leave(local, false));
        }
    }
}
