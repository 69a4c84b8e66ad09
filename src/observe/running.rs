//! A run that is measured, or at whose end the next one that is begins.

use std::sync::atomic::Ordering;

use super::clock;
use super::mark::{RunEnd, RunRole};
use super::meter::Opened;
use super::phase::ByPhase;
use super::report::Recorder;
use super::sample::{StepPlace, StepSample};
use super::trace::{self, Detail, Event};
use super::watching::{self, LOCAL, Local};

/// Callbacks that take less are measured by the clock on the wall alone.
const WORTH_CLOCKS: u64 = 200_000;

/// A run that is watched: measured, or one at whose end the next is that is. Dropping it leaves it out.
#[derive(Debug)]
pub struct WatchedRun<'a> {
    recorder: &'a Recorder,
    strategy: u64,
    turn: RunRole,
    measured: Option<MeasuredRun>,
    /// What its thread had spent, and the bytes that it had updated, when the run began.
    spent: ByPhase<u64>,
    updated: u64,
    left: bool,
}

/// What is known of a measured run at its beginning.
#[derive(Debug)]
struct MeasuredRun {
    opened: Opened,
    mark: Option<RunEnd>,
}

impl Recorder {
    /// The calling thread begins a run of the strategy with number `strategy`. `None` if it is not
    /// measured.
    #[inline]
    pub fn begin(&self, strategy: u64) -> Option<WatchedRun<'_>> {
        if watching::is_watched() { self.begin_watched(strategy) } else { None }
    }

    #[cold]
    fn begin_watched(&self, strategy: u64) -> Option<WatchedRun<'_>> {
        LOCAL.with(|local| {
            // A step inside of one that is measured is a part of it.
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
    /// What replicas need to measure themselves, if the run is measured.
    pub fn opened(&self) -> Option<Opened> {
        self.measured.as_ref().map(|measured| measured.opened)
    }

    /// The run has ended, and `kept` says whether it was committed. Others are left out of the report.
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
            // A trace has all steps, and changes nothing in the report.
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
        // To a strategy whose runs are around this one, it is something that the program does.
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
