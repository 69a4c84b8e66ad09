//! Whether one replica is faster than all: measured in the first steps, which count as any others.

use super::parts::{Maker, Parts};
use super::{Replicas, TrainerOptions};
use std::sync::Arc;
use umbo_base::error::Result;
use umbo_base::observe::log::{self, Level};
use umbo_diagnose::advice::Cause;

/// The number of steps that are measured.
const MEASURED: u64 = 48;

/// How far the measurement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// It has not begun.
    Open,
    /// The number of steps that are still to be measured.
    Measuring(u64),
    /// All steps were measured, and the parts may change.
    Choosing,
    /// The number of replicas does not change any more.
    Settled,
}

impl Choice {
    /// A step is about to be taken. The measurement begins if there is something to choose.
    pub(super) fn begin(&mut self, parts: &Parts, options: &TrainerOptions) -> Result<()> {
        if *self != Choice::Open {
            return Ok(());
        }
        let several = parts.strategy.compute_devices().len() > 1;
        if !several || options.replicas == Replicas::Given || !parts.strategy.ranks().is_alone() {
            *self = Choice::Settled;
            return Ok(());
        }
        *self = Choice::Measuring(MEASURED);
        parts.strategy.measure_steps(true)
    }

    /// The steps after which the choice is made, if it is to be made at all.
    pub(super) fn steps_left(self) -> Option<u64> {
        match self {
            Choice::Measuring(left) => Some(left),
            Choice::Open | Choice::Choosing | Choice::Settled => None,
        }
    }

    /// A step was taken.
    pub(super) fn count(&mut self) {
        if let Choice::Measuring(left) = self {
            *left = left.saturating_sub(1);
        }
    }

    /// The present parts stay.
    pub(super) fn settle(&mut self, parts: &Parts) -> Result<()> {
        if let Choice::Measuring(_) = std::mem::replace(self, Choice::Settled) {
            return parts.strategy.measure_steps(false);
        }
        Ok(())
    }

    /// If all steps were measured, the choice is now to be made ([`one_if_faster`]).
    pub(super) fn begin_choosing(&mut self) -> bool {
        let is_measured = *self == Choice::Measuring(0);
        if is_measured {
            *self = Choice::Choosing;
        }
        is_measured
    }

    /// The choice is made. Whether the parts may change: they may not if they were settled
    /// meanwhile.
    pub(super) fn may_change(&mut self) -> bool {
        std::mem::replace(self, Choice::Settled) == Choice::Choosing
    }
}

/// Other parts, with one replica, and the reason, if that is faster than these, whose steps were
/// measured, and the trainer may choose. If it may not, the log says so.
pub(super) fn one_if_faster(
    parts: &Parts,
    options: &TrainerOptions,
    maker: &Maker,
) -> Result<Option<(Arc<Parts>, String)>> {
    let report = parts.strategy.step_report();
    parts.strategy.measure_steps(false)?;
    let small = |cause| cause == Cause::SmallStep;
    let advice = report.map(|report| report.advice).unwrap_or_default();
    let Some(advice) = advice.into_iter().find(|advice| small(advice.cause)) else {
        return Ok(None);
    };
    let number = parts.strategy.id();
    if options.replicas != Replicas::Chosen {
        log::keep(Level::Warning, || {
            format!(
                "strategy {number}: a trainer's steps are faster with one replica: {}",
                advice.text
            )
        });
        return Ok(None);
    }
    match with_one(parts, options, maker) {
        Ok(one) => {
            let text = advice.text;
            let reason =
                format!("strategy {number}: the trainer continues with one replica: {text}");
            Ok(Some((one, reason)))
        }
        Err(error) => {
            log::keep(Level::Warning, || {
                format!(
                    "strategy {number}: one replica would be faster, but the trainer cannot \
                     continue with one: {error}"
                )
            });
            Ok(None)
        }
    }
}

/// Parts on one compute device, with the state of these.
fn with_one(parts: &Parts, options: &TrainerOptions, maker: &Maker) -> Result<Arc<Parts>> {
    let state = parts.checkpoint.to_bytes()?;
    let other = Parts::new(maker(Some(1))?, options)?;
    other.checkpoint.restore_from_memory(&state)?;
    if !parts.optimizer.has_schedule() {
        // The program may have ended the schedule with which the maker begins.
        let rate = parts.optimizer.learning_rate();
        other.optimizer.set_learning_rate(rate)?;
    }
    Ok(other)
}
