//! Learning rate schedules with a name, as a part of an optimizer.

use serde::{Deserialize, Serialize};

use crate::numbers::{Count, Float, NonNegative};
use umbo_base::error::Result;
use umbo_optim::{NamedSchedule, Plateau, PlateauState, ScheduleKind};

/// A schedule, and what it has observed.
#[derive(Serialize, Deserialize)]
pub(super) struct SavedSchedule {
    kind: SavedKind,
    learning_rate: NonNegative,
    warmup: Count,
    updates: Count,
    final_factor: NonNegative,
    observed: SavedObservations,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SavedKind {
    Constant,
    Linear,
    Cosine,
    Step {
        factor: NonNegative,
        interval: Count,
    },
    OneCycle {
        initial: NonNegative,
    },
    Plateau {
        factor: NonNegative,
        patience: Count,
        threshold: NonNegative,
        cooldown: Count,
        maximize: bool,
    },
}

#[derive(Serialize, Deserialize)]
struct SavedObservations {
    factor: NonNegative,
    best: Option<Float>,
    bad: Count,
    cooldown: Count,
}

impl SavedSchedule {
    pub(super) fn new((schedule, plateau): (NamedSchedule, PlateauState)) -> SavedSchedule {
        SavedSchedule {
            kind: match schedule.kind {
                ScheduleKind::Constant => SavedKind::Constant,
                ScheduleKind::Linear => SavedKind::Linear,
                ScheduleKind::Cosine => SavedKind::Cosine,
                ScheduleKind::Step { factor, interval } => SavedKind::Step {
                    factor: NonNegative(factor),
                    interval: Count(interval),
                },
                ScheduleKind::OneCycle { initial } => SavedKind::OneCycle {
                    initial: NonNegative(initial),
                },
                ScheduleKind::Plateau(of_kind) => SavedKind::Plateau {
                    factor: NonNegative(of_kind.factor),
                    patience: Count(of_kind.patience),
                    threshold: NonNegative(of_kind.threshold),
                    cooldown: Count(of_kind.cooldown),
                    maximize: of_kind.maximize,
                },
            },
            learning_rate: NonNegative(schedule.learning_rate),
            warmup: Count(schedule.warmup),
            updates: Count(schedule.updates),
            final_factor: NonNegative(schedule.final_factor),
            observed: SavedObservations {
                factor: NonNegative(plateau.factor),
                best: plateau.best.map(Float),
                bad: Count(plateau.bad),
                cooldown: Count(plateau.cooldown),
            },
        }
    }

    /// The schedule in the file. Fails if no optimizer can have it.
    pub(super) fn read(&self) -> Result<(NamedSchedule, PlateauState)> {
        let kind = match self.kind {
            SavedKind::Constant => ScheduleKind::Constant,
            SavedKind::Linear => ScheduleKind::Linear,
            SavedKind::Cosine => ScheduleKind::Cosine,
            SavedKind::Step { factor, interval } => ScheduleKind::Step {
                factor: factor.0,
                interval: interval.0,
            },
            SavedKind::OneCycle { initial } => ScheduleKind::OneCycle { initial: initial.0 },
            SavedKind::Plateau {
                factor,
                patience,
                threshold,
                cooldown,
                maximize,
            } => ScheduleKind::Plateau(Plateau {
                factor: factor.0,
                patience: patience.0,
                threshold: threshold.0,
                cooldown: cooldown.0,
                maximize,
            }),
        };
        let schedule = NamedSchedule {
            kind,
            learning_rate: self.learning_rate.0,
            warmup: self.warmup.0,
            updates: self.updates.0,
            final_factor: self.final_factor.0,
        };
        schedule.check()?;
        let observed = PlateauState {
            factor: self.observed.factor.0.min(1.0),
            best: self.observed.best.map(|best| best.0),
            bad: self.observed.bad.0,
            cooldown: self.observed.cooldown.0,
        };
        Ok((schedule, observed))
    }
}
