//! The numbers of the rows of a step, split over its replicas: in the memory of one of the last
//! steps that had as many rows, if nobody has kept them.

#![expect(unsafe_code, reason = "numbers that nobody else has are written again")]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering, fence};

use super::numbers_tensor;
use umbo_base::error::{Error, Result};
use umbo_input::split_for;
use umbo_strategy::{ReplicaContext, Strategy};
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
    /// `numbering`, and have nothing left to do if the numbers are to be there `at_once`: then they
    /// are new ones.
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
        let may_write = |kept: &mut StepRows| !at_once && has_size(kept) && kept.is_alone();
        if !self.last.as_mut().is_some_and(may_write) {
            // Its memory goes first.
            self.last = None;
            self.last = Some(StepRows::new(strategy, first..end)?);
        }
        let made = || Error::Internal("rows were not kept".into());
        let last = self.last.as_mut().ok_or_else(made)?;
        numbering.open(&last.numbers, first);
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
        // Whoever has a part can make another tensor over the numbers: the parts come first.
        let is_alone = self.batch.is_held_alone()
            && Arc::strong_count(self.numbers.storage().0) == self.tensors;
        // What others have read came before they dropped their tensors.
        fence(Ordering::Acquire);
        is_alone
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
    /// A step begins on the rows from `first` on, whose numbers lie here. An earlier one that was
    /// abandoned may still have replicas, which learn of that when they read what is stored here.
    fn open(&self, numbers: &Tensor, first: i64) {
        self.at.store(numbers.address().addr(), Ordering::Release);
        self.first.store(first, Ordering::Release);
    }

    /// Numbers the rows of the replica of `context`, which are a part of those of its step.
    ///
    /// CANCELLED, and the numbers stay as they are, if the step was abandoned: another one may have
    /// been opened since.
    ///
    /// # Safety
    /// The part is contiguous int64 elements in host memory, and nobody else has it.
    pub(super) unsafe fn write(&self, part: &Tensor, context: &ReplicaContext) -> Result<()> {
        let whole = self.at.load(Ordering::Acquire);
        let first = self.first.load(Ordering::Acquire);
        // What is of a later step was stored when this one had been abandoned.
        context.check_live()?;
        let offset = part.address().addr().wrapping_sub(whole) / size_of::<i64>();
        let first = first.wrapping_add(offset as i64);
        // SAFETY: the caller's promise.
        unsafe {
            // Numbers that are right stay in the processors' caches.
            let address = part.address().cast::<i64>();
            if part.shape()[0] > 0 && *address != first {
                number(part, first);
            }
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use parking_lot::Mutex;
    use umbo_base::error::Status;
    use umbo_strategy::Options;
    use umbo_strategy::step::cancellation::Cancellation;
    use umbo_strategy::step::run::Limits;

    const ROWS: i64 = 8;

    fn strategy() -> Strategy {
        let options = Options {
            cpu_replicas: 2,
            ..Options::default()
        };
        Strategy::new(&options).unwrap()
    }

    fn numbers_of(batch: &Value, replica: usize) -> Vec<i64> {
        let part = batch.tensor_of(replica).unwrap();
        part.to_vec::<i64>().unwrap()
    }

    /// A replica that is late when the next step has been opened keeps its numbers, and hears that
    /// its step is over: those of the next step, from its own part on, would be of no row.
    #[test]
    fn late_replicas_get_no_numbers_of_a_later_step() {
        let strategy = strategy();
        let mut kept = KeptRows::default();
        let numbering = Arc::new(Numbering::default());
        let begin = |kept: &mut KeptRows, first, rows| {
            let batch = kept.batch(&strategy, first, rows, &numbering, false);
            batch.unwrap().clone()
        };
        let batch = begin(&mut kept, 0, ROWS);
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let (say, said) = mpsc::channel();
        let late = Mutex::new((may_go_on, say));
        let token = Cancellation::new();
        let (of_replicas, stop) = (Arc::clone(&numbering), token.clone());
        let callback = move |context: &ReplicaContext| {
            if context.replica() == 1 {
                let (may_go_on, say) = &*late.lock();
                stop.cancel();
                may_go_on.recv().unwrap();
                let part = context.argument_tensor()?.unwrap();
                // SAFETY: the replica's own part of the batch.
                let written = unsafe { of_replicas.write(part, context) };
                say.send(written.map_err(|error| error.status())).unwrap();
            }
            Ok(None)
        };
        let limits = Limits {
            cancellation: Some(token),
            ..Limits::default()
        };
        let ran = strategy.run_within(Arc::new(callback), Some(batch.clone()), limits, None);
        assert_eq!(ran.unwrap_err().status(), Status::Cancelled);
        begin(&mut kept, 1000, ROWS / 2);
        go_on.send(()).unwrap();
        assert_eq!(said.recv().unwrap(), Err(Status::Cancelled));
        strategy.synchronize().unwrap();
        assert_eq!(numbers_of(&batch, 1), [4, 5, 6, 7]);
    }

    /// Each replica numbers its own rows, in the memory of the last step of as many rows, unless
    /// somebody has kept that.
    #[test]
    fn replicas_number_their_rows_in_memory_that_nobody_has() {
        let strategy = strategy();
        let mut kept = KeptRows::default();
        let numbering = Numbering::default();
        let write = |context: &ReplicaContext| {
            let part = context.argument_tensor()?.unwrap();
            // SAFETY: the replica's own part of the batch.
            unsafe { numbering.write(part, context)? };
            Ok(None)
        };
        let mut address = None;
        let mut step = |kept: &mut KeptRows, first, rows: i64| {
            let batch = kept
                .batch(&strategy, first, rows, &numbering, false)
                .unwrap();
            strategy.run_on(&write, batch).unwrap();
            let numbers = [0, 1].map(|replica| numbers_of(batch, replica)).concat();
            assert_eq!(numbers, (first..first + rows).collect::<Vec<_>>());
            let part = batch.tensor_of(0).unwrap();
            let before = address.replace(part.address());
            (before == address, part.clone())
        };
        step(&mut kept, 0, ROWS);
        assert!(step(&mut kept, 100, ROWS).0);
        // A smaller one in between leaves the memory of the others.
        let first = step(&mut kept, 200, ROWS).1.address();
        step(&mut kept, 300, 3);
        let (_, part) = step(&mut kept, 400, ROWS);
        assert_eq!(part.address(), first);
        assert!(!step(&mut kept, 500, ROWS).0);
        assert_eq!(part.to_vec::<i64>().unwrap(), [400, 401, 402, 403]);
    }
}
