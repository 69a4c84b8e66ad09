//! How far a training is, as numbers of its checkpoint.

use umbo_base::error::{Error, Result};
use umbo_checkpoint::{Checkpoint, Counter, Number};
use umbo_strategy::context::metrics::Metric;

/// How far a training is. Its checkpoint has these numbers, so that whatever saves or restores that
/// has them right.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct State {
    /// Epochs that have ended.
    pub epochs: u64,
    /// Steps that took effect.
    pub steps: u64,
    /// The epoch that has ended early.
    pub part: PartOfEpoch,
}

/// The part of an epoch that was done before it ended early. Without steps there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PartOfEpoch {
    /// The rows of the whole epoch.
    pub rows: i64,
    /// The rows of a batch.
    pub batch: i64,
    /// The seed of the order of its rows; 0 if they are not shuffled.
    pub order: i64,
    /// Steps that took effect.
    pub steps: u64,
    /// The sum of the losses.
    pub loss: Metric,
}

const EPOCHS: &str = "trainer.epoch_count";
const STEPS: &str = "trainer.step_count";
const PART_ROWS: &str = "trainer.epoch.row_count";
const PART_BATCH: &str = "trainer.epoch.batch_size";
const PART_ORDER: &str = "trainer.epoch.order";
const PART_STEPS: &str = "trainer.epoch.step_count";
const LOSS_SUM: &str = "trainer.epoch.loss_sum";
const LOSS_WEIGHT: &str = "trainer.epoch.loss_weight";

impl PartOfEpoch {
    /// An epoch that has not begun.
    pub(super) fn of(rows: i64, batch: i64, order: i64) -> PartOfEpoch {
        PartOfEpoch {
            rows,
            batch,
            order,
            ..PartOfEpoch::default()
        }
    }

    /// Adds a step with the loss of its rows.
    pub(super) fn add(&mut self, loss: Metric) {
        self.steps += 1;
        self.loss.sum += loss.sum;
        self.loss.weight += loss.weight;
    }
}

impl State {
    /// Sets the checkpoint's numbers.
    pub(super) fn store(&self, checkpoint: &Checkpoint) -> Result<()> {
        let part = &self.part;
        for (name, number) in [
            (EPOCHS, Number::Integer(self.epochs as i64)),
            (STEPS, Number::Integer(self.steps as i64)),
            (PART_ROWS, Number::Integer(part.rows)),
            (PART_BATCH, Number::Integer(part.batch)),
            (PART_ORDER, Number::Integer(part.order)),
            (PART_STEPS, Number::Integer(part.steps as i64)),
            (LOSS_SUM, Number::Float(part.loss.sum)),
            (LOSS_WEIGHT, Number::Float(part.loss.weight)),
        ] {
            checkpoint.set_number(name, number)?;
        }
        Ok(())
    }

    /// The counter of steps, for those that belong to no epoch.
    pub(super) fn step_counter(checkpoint: &Checkpoint) -> Result<Counter> {
        checkpoint.counter(STEPS)
    }

    /// Gets the checkpoint's numbers.
    pub(super) fn load(checkpoint: &Checkpoint) -> Result<State> {
        let any = |name| match checkpoint.number(name)? {
            Number::Integer(number) => Ok(number),
            Number::Float(other) => Err(Error::DataLoss(format!(
                "checkpoint: its number '{name}' is {other}; a trainer has an integer there"
            ))),
        };
        let integer = |name| match checkpoint.number(name)? {
            Number::Integer(number) if number >= 0 => Ok(number),
            other => Err(Error::DataLoss(format!(
                "checkpoint: its number '{name}' is {other:?}; a trainer counts from 0"
            ))),
        };
        let float = |name| match checkpoint.number(name)? {
            Number::Float(number) => Ok(number),
            Number::Integer(number) => Ok(number as f64),
        };
        Ok(State {
            epochs: integer(EPOCHS)? as u64,
            steps: integer(STEPS)? as u64,
            part: PartOfEpoch {
                rows: integer(PART_ROWS)?,
                batch: integer(PART_BATCH)?,
                order: any(PART_ORDER)?,
                steps: integer(PART_STEPS)? as u64,
                loss: Metric {
                    sum: float(LOSS_SUM)?,
                    weight: float(LOSS_WEIGHT)?,
                },
            },
        })
    }
}
