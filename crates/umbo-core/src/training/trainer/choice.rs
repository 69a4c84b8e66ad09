//! The number of replicas with which steps are fastest: measured in the first steps, which count as
//! any others.

use super::parts::{Maker, Parts};
use super::{Replicas, TrainerOptions};
use std::sync::Arc;
use umbo_base::error::Result;
use umbo_base::observe::log::{self, Level};
use umbo_diagnose::advice::Cause;
use umbo_diagnose::summary::{counted, duration};
use umbo_strategy::StepReport;

/// The number of steps that are measured with each number of replicas.
const MEASURED: u64 = 48;

/// Fewer replicas are tried further, and kept, if their steps take at most this part of the time.
const FASTER: f64 = 0.97;

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

/// A number of replicas that steps were measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tried {
    /// How many replicas compute at a time.
    replicas: usize,
    /// The median time of a step, in nanoseconds.
    time: u64,
}

/// The consequence of the steps that were measured.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Steps with this number of replicas are measured.
    Try(usize),
    /// This number of replicas stays.
    Keep(usize),
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
        self.stage = Stage::Measuring(MEASURED);
        parts.strategy.measure_steps(true)
    }

    /// The steps after which the choice is made, if it is to be made at all.
    pub(super) fn steps_left(&self) -> Option<u64> {
        match self.stage {
            Stage::Measuring(left) => Some(left),
            Stage::Open | Stage::Choosing | Stage::Settled => None,
        }
    }

    /// A step was taken.
    pub(super) fn count(&mut self) {
        if let Stage::Measuring(left) = &mut self.stage {
            *left = left.saturating_sub(1);
        }
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
        let replicas = parts.strategy.compute_devices().len();
        self.tried.push(Tried {
            replicas,
            time: report.summary.run,
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
                described(&self.tried)
            ),
        };
        if number == replicas {
            log::keep(Level::Info, || reason);
            return Ok(None);
        }
        match with_replicas(parts, options, maker, number) {
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

/// The next smaller divisor of the first number while fewer replicas are faster, else the fastest.
fn next(tried: &[Tried]) -> Next {
    let (Some(first), Some(last)) = (tried.first(), tried.last()) else {
        return Next::Keep(1);
    };
    let others = &tried[..tried.len() - 1];
    let Some(fastest) = others.iter().min_by_key(|one| one.time) else {
        return smaller(first.replicas, last.replicas);
    };
    match last.time as f64 <= fastest.time as f64 * FASTER {
        true => smaller(first.replicas, last.replicas),
        false => Next::Keep(fastest.replicas),
    }
}

fn smaller(all: usize, present: usize) -> Next {
    let divisor = (1..present)
        .rev()
        .find(|number| all.is_multiple_of(*number));
    divisor.map_or(Next::Keep(present), Next::Try)
}

fn unit(replicas: usize) -> String {
    counted(replicas as u64, "replica")
}

/// The times of the steps, in words.
fn described(tried: &[Tried]) -> String {
    let times = tried
        .iter()
        .map(|one| format!("{} with {}", duration(one.time), unit(one.replicas)));
    let times: Vec<String> = times.collect();
    format!("a step takes {}", times.join(", "))
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

#[cfg(test)]
mod tests {
    use super::{Next, Tried, next};

    /// The numbers that are measured, and the one that stays, if steps take these times.
    fn chosen(all: usize, time: impl Fn(usize) -> u64) -> (Vec<usize>, usize) {
        let mut replicas = all;
        let mut tried = Vec::new();
        loop {
            let time = time(replicas);
            tried.push(Tried { replicas, time });
            match next(&tried) {
                Next::Try(number) => replicas = number,
                Next::Keep(number) => {
                    return (tried.iter().map(|one| one.replicas).collect(), number);
                }
            }
        }
    }

    #[test]
    fn a_step_that_replicas_share_stays_with_all() {
        assert_eq!(chosen(2, |replicas| 100 / replicas as u64), (vec![2, 1], 2));
        assert_eq!(
            chosen(12, |replicas| 120 / replicas as u64),
            (vec![12, 6], 12)
        );
    }

    #[test]
    fn a_step_that_costs_only_coordination_ends_with_one() {
        let tried = vec![12, 6, 4, 3, 2, 1];
        assert_eq!(chosen(12, |replicas| 10 + 10 * replicas as u64), (tried, 1));
        assert_eq!(chosen(7, |replicas| replicas as u64), (vec![7, 1], 1));
    }

    #[test]
    fn the_best_number_in_between_stays() {
        let time = |replicas: usize| 240 / replicas as u64 + 10 * replicas as u64;
        assert_eq!(chosen(16, time), (vec![16, 8, 4, 2], 4));
    }

    #[test]
    fn equal_times_stay_with_more_replicas() {
        assert_eq!(chosen(8, |_| 100), (vec![8, 4], 8));
        assert_eq!(
            chosen(8, |replicas| 98 + replicas as u64 / 4),
            (vec![8, 4], 8)
        );
    }
}
