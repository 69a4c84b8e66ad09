//! The numbers of the rows of a step, split over its replicas: in the memory of one of the last
//! steps that had as many rows, if nobody has kept them.

#![expect(unsafe_code, reason = "numbers that nobody else has are written again")]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use super::numbers_tensor;
use umbo_base::error::{Error, Result};
use umbo_input::split_for;
use umbo_strategy::Strategy;
use umbo_tensor::Tensor;
use umbo_tensor::values::Value;

/// The most rows of a step, whose numbers then take 2 GiB.
pub(super) const MOST_ROWS: i64 = 1 << 28;

/// The rows of a step.
struct StepRows {
    numbers: Tensor,
    batch: Value,
    /// How many tensors there are over the numbers.
    tensors: usize,
}

/// The rows of steps of the last two sizes: an epoch often ends with a smaller one.
#[derive(Default)]
pub(super) struct KeptRows {
    last: Option<StepRows>,
    before: Option<StepRows>,
}

impl KeptRows {
    /// The batch of a step of `strategy`: `rows` rows from `first` on. The replicas number them by
    /// `numbering`, and have nothing left to do if they are numbered `at_once`.
    pub(super) fn batch(
        &mut self,
        strategy: &Strategy,
        first: i64,
        rows: i64,
        numbering: &Numbering,
        at_once: bool,
    ) -> Result<&Value> {
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
        let has_size = |kept: &StepRows| kept.numbers.shape()[0] as i64 == rows;
        if !self.last.as_ref().is_some_and(has_size) {
            std::mem::swap(&mut self.last, &mut self.before);
        }
        let may_write = |kept: &mut StepRows| has_size(kept) && kept.is_alone();
        if !self.last.as_mut().is_some_and(may_write) {
            // Its memory goes first.
            self.last = None;
            self.last = Some(StepRows::new(strategy, first..end)?);
        }
        let made = || Error::Internal("rows were not kept".into());
        let last = self.last.as_mut().ok_or_else(made)?;
        numbering.open(&last.numbers, first);
        if at_once {
            // SAFETY: nobody else has a tensor over the numbers.
            unsafe { number(&last.numbers, first) };
        }
        Ok(&last.batch)
    }
}

impl StepRows {
    fn new(strategy: &Strategy, rows: Range<i64>) -> Result<StepRows> {
        let Value::Tensor(numbers) = numbers_tensor(rows)? else {
            return Err(Error::Internal("row numbers are a tensor".into()));
        };
        let batch = split_for(strategy, &Value::Tensor(numbers.clone()))?;
        Ok(StepRows {
            tensors: Arc::strong_count(numbers.storage().0),
            numbers,
            batch,
        })
    }

    /// Whether nobody else has the numbers.
    fn is_alone(&mut self) -> bool {
        self.batch.is_held_alone() && Arc::strong_count(self.numbers.storage().0) == self.tensors
    }
}

/// How the replicas of a step number their rows: each on its own thread, so that the numbers are
/// where they are read.
#[derive(Default)]
pub(super) struct Numbering {
    /// The address of the first number of all.
    at: AtomicUsize,
    first: AtomicI64,
}

impl Numbering {
    /// A step begins on the rows from `first` on, whose numbers lie here.
    fn open(&self, numbers: &Tensor, first: i64) {
        self.at.store(numbers.address().addr(), Ordering::Relaxed);
        self.first.store(first, Ordering::Relaxed);
    }

    /// Numbers the rows of a replica, which are a part of those of the step that was opened last. A
    /// replica of an earlier step, which was abandoned, gets other numbers, and what it makes of
    /// them is dropped.
    ///
    /// # Safety
    /// The part is contiguous int64 elements in host memory, and nobody else has it.
    pub(super) unsafe fn write(&self, part: &Tensor) {
        let at = part.address().addr();
        let offset = at.wrapping_sub(self.at.load(Ordering::Relaxed)) / size_of::<i64>();
        let first = self.first.load(Ordering::Relaxed);
        let first = first.wrapping_add(offset as i64);
        // SAFETY: the caller's promise.
        unsafe {
            // Numbers that are right stay in the processors' caches.
            let address = part.address().cast::<i64>();
            if part.shape()[0] > 0 && *address != first {
                number(part, first);
            }
        }
    }
}

/// Numbers rows from `first` on.
///
/// # Safety
/// `numbers` are contiguous int64 elements in host memory, which nobody else reads or writes.
unsafe fn number(numbers: &Tensor, first: i64) {
    let rows = numbers.shape()[0];
    let address = numbers.address().cast::<i64>();
    // SAFETY: the caller's promise.
    let numbers = unsafe { std::slice::from_raw_parts_mut(address, rows) };
    for (index, number) in numbers.iter_mut().enumerate() {
        *number = first.wrapping_add(index as i64);
    }
}
