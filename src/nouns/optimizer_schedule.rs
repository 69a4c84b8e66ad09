//! Optimizers: learning rates that follow a schedule with a name.

use crate::machinery::prelude::*;
use umbo_core::optimizer::{NamedSchedule, Plateau, ScheduleKind};

/// The shape of a learning rate schedule after its warm-up.
pub type umbo_schedule_kind = i32;

/// The full rate.
pub const UMBO_SCHEDULE_CONSTANT: umbo_schedule_kind = 0;
/// A straight line to the final rate, after `updates` updates.
pub const UMBO_SCHEDULE_LINEAR: umbo_schedule_kind = 2101;
/// Half a cosine to the final rate, after `updates` updates.
pub const UMBO_SCHEDULE_COSINE: umbo_schedule_kind = 2102;
/// The rate is multiplied by `factor` after each `interval` updates.
pub const UMBO_SCHEDULE_STEP: umbo_schedule_kind = 2103;
/// Half a cosine up from the initial rate in `warmup_updates`, and another down to the final rate.
pub const UMBO_SCHEDULE_ONE_CYCLE: umbo_schedule_kind = 2104;
/// The rate is multiplied by `factor` when umbo_optimizer_observe() gets no better values.
pub const UMBO_SCHEDULE_PLATEAU: umbo_schedule_kind = 2105;

/// A learning rate schedule. The formulas are PyTorch's.
#[c_struct(
    learning_rate = UMBO_AUTO as f64, final_factor = UMBO_AUTO as f64, initial_factor = 0.04,
    factor = 0.1, patience = 10, threshold = 1e-4
)]
pub struct umbo_schedule_options {
    /// The shape.
    pub kind: umbo_schedule_kind,
    /// The full rate; finite and 0 or more. UMBO_AUTO: the rate of the optimizer.
    pub learning_rate: f64,
    /// The updates in which the rate rises at first, in equal steps; 0 or more, 2 of ONE_CYCLE.
    pub warmup_updates: i64,
    /// All updates of the training, for LINEAR, COSINE and ONE_CYCLE; 0 for the others.
    pub updates: i64,
    /// The factor of the final rate, of the lowest with PLATEAU; in [0, 1]. UMBO_AUTO: 0, of
    /// ONE_CYCLE 4e-6.
    pub final_factor: f64,
    /// The factor of the rate at the beginning of ONE_CYCLE; in [0, 1].
    pub initial_factor: f64,
    /// The factor of STEP and PLATEAU; more than 0 and less than 1.
    pub factor: f64,
    /// The updates between two steps of STEP; 1 or more.
    pub interval: i64,
    /// How many values in a row without a better one PLATEAU tolerates; 0 or more.
    pub patience: i64,
    /// How many values after a reduction PLATEAU ignores; 0 or more.
    pub cooldown: i64,
    /// A value is better if it differs from the best by more than this fraction of it; 0 or more.
    pub threshold: f64,
    /// 1: larger values are better, as of an accuracy.
    pub larger_is_better: i32,
}

fn schedule(options: &umbo_schedule_options, own_rate: f64) -> Result<NamedSchedule> {
    let kind = one_of!(options.kind, "options.kind", {
        UMBO_SCHEDULE_CONSTANT => ScheduleKind::Constant,
        UMBO_SCHEDULE_LINEAR => ScheduleKind::Linear,
        UMBO_SCHEDULE_COSINE => ScheduleKind::Cosine,
        UMBO_SCHEDULE_STEP => ScheduleKind::Step {
            factor: options.factor,
            interval: positive(options.interval, "options.interval")?,
        },
        UMBO_SCHEDULE_ONE_CYCLE => ScheduleKind::OneCycle { initial: options.initial_factor },
        UMBO_SCHEDULE_PLATEAU => ScheduleKind::Plateau(Plateau {
            factor: options.factor,
            patience: natural(options.patience, "options.patience")?,
            threshold: options.threshold,
            cooldown: natural(options.cooldown, "options.cooldown")?,
            maximize: flag(options.larger_is_better, "options.larger_is_better")?,
        }),
    })?;
    let usual = match kind {
        ScheduleKind::OneCycle { .. } => 4e-6,
        _ => 0.0,
    };
    Ok(NamedSchedule {
        kind,
        learning_rate: unless(options.learning_rate, UMBO_AUTO, "options.learning_rate")?
            .unwrap_or(own_rate),
        warmup: natural(options.warmup_updates, "options.warmup_updates")?,
        updates: natural(options.updates, "options.updates")?,
        final_factor: unless(options.final_factor, UMBO_AUTO, "options.final_factor")?
            .unwrap_or(usual),
    })
}

/// Sets a schedule with a name, which the learning rate of each update follows, in place of an
/// earlier schedule.
///
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: numbers out of range, or that do not fit each
///   other.
///
/// A checkpoint has the schedule. It is followed after a restore if the optimizer has none of its
/// own; the log warns if it has another one. The values that
/// PLATEAU has observed are always restored.
#[c_call(options(options), get(optimizer))]
pub fn umbo_optimizer_set_named_schedule(
    optimizer: *mut umbo_optimizer,
    options: *const umbo_schedule_options,
) {
    let given = schedule(&options, optimizer.learning_rate())?;
    optimizer.set_named_schedule(given)
}

/// Tells the schedule UMBO_SCHEDULE_PLATEAU a value, such as the loss of an evaluation.
///
/// @param[in] value NaN is a value that is not better.
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: the optimizer has another schedule or none.
///
/// With several ranks all of them tell the same value.
#[c_call(get(optimizer))]
pub fn umbo_optimizer_observe(optimizer: *mut umbo_optimizer, value: f64) {
    optimizer.observe(value)
}
