//! A schedule that has a state of its own: what it has observed.

use umbo_core::optimizer::{NamedSchedule, Plateau, ScheduleKind};

/// The rate falls after two observations in a row that have not risen.
pub const PLATEAU: NamedSchedule = NamedSchedule {
    kind: ScheduleKind::Plateau(Plateau {
        factor: 0.75,
        patience: 1,
        threshold: 0.125,
        cooldown: 1,
        maximize: true,
    }),
    learning_rate: 0.05,
    warmup: 2,
    updates: 0,
    final_factor: 0.1,
};
