//! The numbers of the rows of a step, split over its replicas: in the memory of the step before, if
//! that had as many rows and nobody has kept them.

#![expect(unsafe_code, reason = "numbers that nobody else has are written again")]

use std::sync::Arc;

use super::numbers_tensor;
use umbo_base::error::{Error, Result};
use umbo_input::split_for;
use umbo_strategy::Strategy;
use umbo_tensor::Tensor;
use umbo_tensor::values::Value;

/// The most rows of a step, whose numbers then take 2 GiB.
pub(super) const MOST_ROWS: i64 = 1 << 28;

/// The rows of a step.
pub(super) struct StepRows {
    numbers: Tensor,
    batch: Value,
    /// How many tensors there are over the numbers.
    tensors: usize,
}

impl StepRows {
    /// The batch of a step of `strategy`: `rows` rows from `first` on. `last` has that of the last
    /// step.
    pub(super) fn batch(
        last: &mut Option<StepRows>,
        strategy: &Strategy,
        first: i64,
        rows: i64,
    ) -> Result<Value> {
        if rows > MOST_ROWS {
            return Err(invalid!(
                "row_count",
                "{rows}; a step has at most {MOST_ROWS} rows"
            ));
        }
        let Some(end) = first.checked_add(rows) else {
            return Err(invalid!(
                "first_row",
                "{first}, and {rows} rows from there on have no numbers"
            ));
        };
        if let Some(last) = last
            && last.renumber(first, rows)
        {
            return Ok(last.batch.clone());
        }
        // Its memory goes first.
        *last = None;
        let Value::Tensor(numbers) = numbers_tensor(first..end)? else {
            return Err(Error::Internal("row numbers are a tensor".into()));
        };
        let batch = split_for(strategy, &Value::Tensor(numbers.clone()))?;
        let made = last.insert(StepRows {
            tensors: Arc::strong_count(numbers.storage().0),
            numbers,
            batch,
        });
        Ok(made.batch.clone())
    }

    /// Writes other numbers, unless there is another number of them, or somebody has them.
    fn renumber(&mut self, first: i64, rows: i64) -> bool {
        let is_same = self.numbers.shape()[0] as i64 == rows;
        if !is_same
            || !self.batch.is_held_alone()
            || Arc::strong_count(self.numbers.storage().0) != self.tensors
        {
            return false;
        }
        let numbers = self.numbers.address().cast::<i64>();
        // SAFETY: nobody else has a tensor over the numbers, which are as many int64 elements in
        // host memory, one after the other.
        let numbers = unsafe { std::slice::from_raw_parts_mut(numbers, rows as usize) };
        for (index, number) in numbers.iter_mut().enumerate() {
            *number = first + index as i64;
        }
        true
    }
}
