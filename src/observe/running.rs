//! A run that is measured, or at whose end the next one that is begins.

use super::clock;
use super::meter::Opened;
use super::phase::ByPhase;
use super::report::{Recorder, StepPlace, StepSample};
use super::span::{self, LOCAL, Local};
use super::trace::{self, Detail, Event, Name};

/// The end of a run, as its thread saw it.
#[derive(Debug)]
pub(super) struct Mark {
    at: u64,
    stretch: u64,
    spent: ByPhase<u64>,
    updated: u64,
}

impl Mark {
    fn now(local: &Local) -> Mark {
        let (stretch, updated) = (local.stretch.get(), local.updated.get());
        Mark { at: clock::now(), stretch, spent: local.spent(), updated }
    }

    /// Whether it was set on this thread, which has been measured ever since.
    pub fn is_of(&self, local: &Local) -> bool {
        local.measuring.get() && local.stretch.get() == self.stretch
    }
}

/// What a run is to the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is measured.
    Now,
    /// The one after it is.
    Next,
    Later,
}

/// A run that is watched: measured, or one at whose end the next is that is. Dropping it leaves it out.
#[derive(Debug)]
pub struct Running<'a> {
    pub(super) recorder: &'a Recorder,
    pub(super) strategy: u64,
    pub(super) turn: Turn,
    pub(super) measured: Option<Measured>,
    /// What its thread had spent, and the bytes that it had updated, when the run began.
    pub(super) spent: ByPhase<u64>,
    pub(super) updated: u64,
    pub(super) left: bool,
}

/// What is known of a measured run at its beginning.
#[derive(Debug)]
pub(super) struct Measured {
    pub opened: Opened,
    pub mark: Option<Mark>,
}

impl Running<'_> {
    /// What replicas need to measure themselves, if the run is measured.
    pub fn opened(&self) -> Option<Opened> {
        self.measured.as_ref().map(|measured| measured.opened)
    }

    /// The run has ended, and `kept` says whether it was committed. Others are left out of the report.
    pub fn finish(mut self, place: StepPlace, kept: bool) {
        self.left = true;
        let mut tell = false;
        if let Some(measured) = self.measured.take() {
            let with_clocks = measured.opened.with_clocks;
            let sample = self.sample(&measured);
            self.recorder.note_run(sample.run);
            if span::is_traced() {
                let name = if kept { "step" } else { "step that was rolled back" };
                trace::record(Event {
                    name: Name::Own(name),
                    category: "step",
                    start: measured.opened.at,
                    duration: sample.run,
                    detail: Detail::Step(place, sample, span::counts()),
                });
            }
            // A trace has all steps, and changes nothing in the report.
            tell = kept && self.turn == Turn::Now && self.recorder.keep(sample, with_clocks);
        }
        let next = self.recorder.is_due() || span::is_traced();
        LOCAL.with(|local| self.leave(local, next));
        if tell {
            self.recorder.tell(self.strategy);
        }
    }

    fn sample(&self, measured: &Measured) -> StepSample {
        let now = clock::now();
        let Measured { opened, mark } = measured;
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
            *self.recorder.mark.lock() = Some(Mark::now(local));
        } else {
            local.leave_out(self.strategy);
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.left {
            LOCAL.with(|local| self.leave(local, false));
        }
    }
}
