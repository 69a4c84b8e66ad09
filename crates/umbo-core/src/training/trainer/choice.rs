//! The number of replicas with which steps are fastest: measured in the first steps, which count as
//! any others.

use super::parts::{Maker, Parts};
use super::{Replicas, TrainerOptions};
use crate::training::replica_choice::{Next, STEPS, Tried, next, times, unit};
use std::sync::Arc;
use umbo_base::error::Result;
use umbo_base::observe::log::{self, Level};
use umbo_diagnose::advice::Cause;
use umbo_strategy::StepReport;

/// How far the choice is.
#[derive(Debug)]
pub(super) struct Choice {
    stage: Stage,
    tried: Vec<Tried>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The measurement has not begun.
    Open,
    /// The number of steps that are still to be measured.
    Measuring(u64),
    /// All steps were measured, and the parts may change.
    Choosing,
    /// The number of replicas does not change any more.
    Settled,
}

impl Choice {
    /// Nothing was measured.
    pub(super) fn open() -> Choice {
        Choice {
            stage: Stage::Open,
            tried: Vec::new(),
        }
    }

    /// A step is about to be taken. The measurement begins if there is something to choose.
    pub(super) fn begin(&mut self, parts: &Parts, options: &TrainerOptions) -> Result<()> {
        if self.stage != Stage::Open {
            return Ok(());
        }
        let several = parts.strategy.compute_devices().len() > 1;
        if !several || options.replicas == Replicas::Given || !parts.strategy.ranks().is_alone() {
            self.stage = Stage::Settled;
            return Ok(());
        }
        self.measure(parts)
    }

    fn measure(&mut self, parts: &Parts) -> Result<()> {
        self.stage = Stage::Measuring(STEPS as u64);
        parts.strategy.measure_steps(true)
    }

    /// The steps after which the choice is made, if it is to be made at all.
    pub(super) fn steps_left(&self) -> Option<u64> {
        match self.stage {
            Stage::Measuring(left) => Some(left),
            Stage::Open | Stage::Choosing | Stage::Settled => None,
        }
    }

    /// Counts steps that were taken.
    pub(super) fn count(&mut self, steps: u64) {
        if let Stage::Measuring(left) = &mut self.stage {
            *left = left.saturating_sub(steps);
        }
    }

    /// Whether the parts stay for good.
    pub(super) fn is_settled(&self) -> bool {
        self.stage == Stage::Settled
    }

    /// The present parts stay.
    pub(super) fn settle(&mut self, parts: &Parts) -> Result<()> {
        if let Stage::Measuring(_) = std::mem::replace(&mut self.stage, Stage::Settled) {
            return parts.strategy.measure_steps(false);
        }
        Ok(())
    }

    /// If all steps were measured, the choice is now to be made ([`Choosing::decide`]).
    pub(super) fn begin_choosing(&mut self) -> Option<Choosing> {
        (self.stage == Stage::Measuring(0)).then(|| {
            self.stage = Stage::Choosing;
            Choosing {
                tried: self.tried.clone(),
            }
        })
    }

    /// The choice is made, for these parts, or for the present ones. Returns whether they take
    /// their place: they do not if those were settled meanwhile.
    pub(super) fn end_choosing(&mut self, decided: Option<&Decided>) -> Result<bool> {
        if std::mem::replace(&mut self.stage, Stage::Settled) != Stage::Choosing {
            return Ok(false);
        }
        let Some(decided) = decided else {
            return Ok(false);
        };
        if decided.is_trial {
            self.tried.clone_from(&decided.tried);
            self.measure(&decided.parts)?;
        }
        Ok(true)
    }
}

/// A choice that is being made.
pub(super) struct Choosing {
    tried: Vec<Tried>,
}

/// Parts that are to take the place of the present ones.
pub(super) struct Decided {
    pub(super) parts: Arc<Parts>,
    /// The message to the log when they do.
    pub(super) reason: String,
    is_trial: bool,
    tried: Vec<Tried>,
}

impl Choosing {
    /// The parts with which the training continues instead of these, whose steps were measured, if
    /// the trainer may choose. If it may not, the log says whether one replica would be faster.
    pub(super) fn decide(
        mut self,
        parts: &Parts,
        options: &TrainerOptions,
        maker: &Maker,
    ) -> Result<Option<Decided>> {
        let report = parts.strategy.step_report();
        parts.strategy.measure_steps(false)?;
        let Ok(report) = report else {
            return Ok(None);
        };
        if options.replicas != Replicas::Chosen {
            warn_of_small_steps(parts, &report);
            return Ok(None);
        }
        let replicas = parts.strategy.compute_devices().len() as u64;
        self.tried.push(Tried {
            replicas,
            seconds: report.summary.run as f64 / 1e9,
        });
        let (number, is_trial) = match next(&self.tried) {
            Next::Try(number) => (number, true),
            Next::Keep(number) => (number, false),
        };
        let id = parts.strategy.id();
        let reason = match is_trial {
            true => format!("strategy {id}: the trainer tries {}", unit(number)),
            false => format!(
                "strategy {id}: the trainer continues with {}: {}",
                unit(number),
                times(&self.tried)
            ),
        };
        if number == replicas {
            log::keep(Level::Info, || reason);
            return Ok(None);
        }
        match with_replicas(parts, options, maker, number as usize) {
            Ok(parts) => Ok(Some(Decided {
                parts,
                reason,
                is_trial,
                tried: self.tried,
            })),
            Err(error) => {
                log::keep(Level::Warning, || {
                    format!(
                        "strategy {id}: the trainer continues with {}; {} could not be made: \
                         {error}",
                        unit(replicas),
                        unit(number)
                    )
                });
                Ok(None)
            }
        }
    }
}

fn warn_of_small_steps(parts: &Parts, report: &StepReport) {
    let small = |cause| cause == Cause::SmallStep;
    if let Some(advice) = report.advice.iter().find(|advice| small(advice.cause)) {
        log::keep(Level::Warning, || {
            format!(
                "strategy {}: a trainer's steps are faster with one replica: {}",
                parts.strategy.id(),
                advice.text
            )
        });
    }
}

/// Parts on so many compute devices, with the state of these.
fn with_replicas(
    parts: &Parts,
    options: &TrainerOptions,
    maker: &Maker,
    number: usize,
) -> Result<Arc<Parts>> {
    let state = parts.checkpoint.to_bytes()?;
    let other = Parts::new(maker(Some(number))?, options)?;
    if !parts.optimizer.has_schedule() {
        // The program may have ended the schedule with which the maker begins, and which the
        // restored state would not end.
        let rate = parts.optimizer.learning_rate();
        other.optimizer.set_learning_rate(rate)?;
    }
    other.checkpoint.restore_from_memory(&state)?;
    Ok(other)
}
