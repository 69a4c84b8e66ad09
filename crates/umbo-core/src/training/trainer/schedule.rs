//! The learning rate over a training: it rises at first, stays, and falls.

use std::fmt;

use umbo_base::error::{Error, Result};
use umbo_checkpoint::{Checkpoint, Number};
use umbo_optim::{NamedSchedule, ScheduleKind};

/// How the learning rate falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decay {
    /// It does not.
    #[default]
    Constant,
    /// As a straight line to 0.
    Linear,
    /// As half a wave of the cosine to 0.
    Cosine,
}

/// A learning rate that depends on how many updates there were.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateSchedule {
    /// How it falls.
    pub decay: Decay,
    /// The updates in which it rises to the full rate.
    pub warmup: u64,
    /// The updates after which it is 0, with those in which it rises. 0 if it does not fall.
    pub updates: u64,
}

const DECAY: &str = "trainer.schedule.decay";
const WARMUP: &str = "trainer.schedule.warmup_updates";
const UPDATES: &str = "trainer.schedule.updates";

/// In the order of their numbers in a checkpoint.
const DECAYS: [Decay; 3] = [Decay::Constant, Decay::Linear, Decay::Cosine];

impl RateSchedule {
    /// Sets the checkpoint's numbers.
    pub(super) fn store(&self, checkpoint: &Checkpoint) -> Result<()> {
        for (name, number) in [
            (DECAY, self.decay as u64),
            (WARMUP, self.warmup),
            (UPDATES, self.updates),
        ] {
            checkpoint.set_number(name, Number::Integer(number as i64))?;
        }
        Ok(())
    }

    /// Gets the checkpoint's numbers.
    pub(super) fn load(checkpoint: &Checkpoint) -> Result<RateSchedule> {
        let number = |name| match checkpoint.number(name)? {
            Number::Integer(number) if number >= 0 => Ok(number as u64),
            other => Err(Error::DataLoss(format!(
                "checkpoint: its number '{name}' is {other:?}; a trainer has 0 or more there"
            ))),
        };
        let decay = number(DECAY)?;
        let decay = DECAYS.get(decay as usize).copied().ok_or_else(|| {
            Error::DataLoss(format!(
                "checkpoint: its number '{DECAY}' is {decay}, which no trainer has"
            ))
        })?;
        Ok(RateSchedule {
            decay,
            warmup: number(WARMUP)?,
            updates: number(UPDATES)?,
        })
    }

    /// Refuses numbers that do not fit each other.
    pub fn check(&self) -> Result<()> {
        let RateSchedule {
            decay,
            warmup,
            updates,
        } = *self;
        match decay {
            Decay::Constant if updates > 0 => Err(invalid!(
                "schedule_updates",
                "{updates}; a learning rate that does not fall has no end, so give 0, or a schedule"
            )),
            Decay::Linear | Decay::Cosine if updates <= warmup => Err(invalid!(
                "schedule_updates",
                "{updates}; must be more than the {warmup} of the warm-up: all updates of the \
                 training"
            )),
            _ => Ok(()),
        }
    }

    /// Whether the rate changes at all.
    pub fn is_constant(&self) -> bool {
        self.decay == Decay::Constant && self.warmup == 0
    }

    /// The schedule of an optimizer whose full rate is `learning_rate`.
    pub fn named(&self, learning_rate: f64) -> NamedSchedule {
        NamedSchedule {
            kind: match self.decay {
                Decay::Constant => ScheduleKind::Constant,
                Decay::Linear => ScheduleKind::Linear,
                Decay::Cosine => ScheduleKind::Cosine,
            },
            learning_rate,
            warmup: self.warmup,
            updates: self.updates,
            final_factor: 0.0,
        }
    }
}

impl fmt::Display for RateSchedule {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RateSchedule {
            decay,
            warmup,
            updates,
        } = self;
        match decay {
            Decay::Constant => write!(to, "no schedule")?,
            Decay::Linear => write!(to, "the schedule linear over {updates} updates")?,
            Decay::Cosine => write!(to, "the schedule cosine over {updates} updates")?,
        }
        match warmup {
            0 => Ok(()),
            _ => write!(to, " with {warmup} of warm-up"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use umbo_optim::PlateauState;

    fn factors(decay: Decay, warmup: u64, updates: u64) -> Vec<f64> {
        let schedule = RateSchedule {
            decay,
            warmup,
            updates,
        };
        schedule.check().unwrap();
        let factors = (0..updates.max(5) + 2)
            .map(|before| schedule.named(1.0).rate(before, &PlateauState::default()));
        factors
            .map(|factor| (factor * 1000.0).round() / 1000.0)
            .collect()
    }

    #[test]
    fn rates_rise_and_fall() {
        assert_eq!(
            factors(Decay::Constant, 2, 0),
            [0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
        );
        assert_eq!(
            factors(Decay::Linear, 2, 6),
            [0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
        );
        assert_eq!(
            factors(Decay::Cosine, 0, 4),
            [1.0, 0.854, 0.5, 0.146, 0.0, 0.0, 0.0]
        );
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        for (decay, warmup, updates) in [
            (Decay::Constant, 0, 1),
            (Decay::Linear, 3, 3),
            (Decay::Cosine, 0, 0),
        ] {
            let schedule = RateSchedule {
                decay,
                warmup,
                updates,
            };
            let error = schedule.check().unwrap_err().to_string();
            assert!(error.contains("schedule_updates"), "{error}");
        }
    }
}
