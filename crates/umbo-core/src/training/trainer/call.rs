//! The call of the program's function on one replica, and the requests of that function.

use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use super::row_gradients::RowGradients;
use super::row_table::{RowPlaces, RowShape};
use umbo_base::error::{Error, Result};
use umbo_optim::{Gradients, LossReduction};
use umbo_strategy::ReplicaContext;
use umbo_strategy::context::metrics::Metric;
use umbo_tensor::Tensor;
use umbo_tensor::values::variable::Variable;

/// The program's function. It adds to the gradients of the rows, and returns their loss.
pub type Learn = dyn Fn(&RowsOfReplica<'_>) -> Result<f64> + Send + Sync;

/// The rows of a batch that one replica has, of which there is at least one.
pub struct RowsOfReplica<'a> {
    /// The context of the replica.
    pub context: &'a ReplicaContext,
    /// The numbers of the rows: int64, contiguous.
    pub indices: &'a Tensor,
    /// The arrays.
    pub variables: &'a [Variable],
    /// The gradients, or none if the rows are evaluated.
    pub gradients: Option<&'a Arc<Gradients>>,
    /// The number of this call, by which the function refers to it.
    pub call: u64,
    /// For each array the rows to whose gradients the call adds; NULL if the rows are evaluated.
    pub places: *const RowPlaces,
}

/// The state of a call, on the thread of its replica.
struct Running {
    call: u64,
    /// The rows of gradients; none if the rows are evaluated.
    rows: Option<Box<RowGradients>>,
    /// The weight of the rows, if it is not their number.
    weight: Option<f64>,
}

thread_local! {
    static RUNNING: RefCell<Option<Running>> = const { RefCell::new(None) };
}

/// The numbers of calls that a thread takes at a time.
const AT_ONCE: u64 = 1 << 20;

/// A number that no other call has, on any thread. Threads rarely meet at the counter that they
/// share.
fn next_call() -> u64 {
    static GIVEN: AtomicU64 = AtomicU64::new(0);
    thread_local!(static LAST: Cell<u64> = const { Cell::new(0) });
    let mut last = LAST.get();
    if last.is_multiple_of(AT_ONCE) {
        last = GIVEN.fetch_add(AT_ONCE, Ordering::Relaxed);
    }
    LAST.set(last + 1);
    last + 1
}

fn with_running<R>(call: u64, body: impl FnOnce(&mut Running) -> Result<R>) -> Result<R> {
    RUNNING.with_borrow_mut(|running| match running {
        Some(running) if running.call == call => body(running),
        _ => Err(Error::precondition(
            "rows: they are not those of the call that this thread is in; use them in the \
             function that gets them, on its own thread, until it returns",
        )),
    })
}

/// The memory to which the gradient of a row of an array is added. It is zero when it is asked for
/// first in the call, and stays where it is until the call ends.
///
/// FAILED_PRECONDITION: not in that call, or it evaluates. The errors of a wrong array or row.
pub fn gradient_row(call: u64, array: usize, row: i64) -> Result<*mut f32> {
    with_running(call, |running| match &mut running.rows {
        Some(rows) => rows.row(array, row),
        None => Err(evaluates()),
    })
}

/// The same, if nothing is wrong and nothing has to be allocated. It does not panic.
#[inline]
pub fn usual_gradient_row(call: u64, array: i64, row: i64) -> Option<*mut f32> {
    let found = RUNNING.try_with(|running| {
        let mut running = running.try_borrow_mut().ok()?;
        let running = running.as_mut().filter(|running| running.call == call)?;
        running.rows.as_mut()?.usual(array, row)
    });
    found.ok().flatten()
}

#[cold]
fn evaluates() -> Error {
    Error::precondition(
        "rows: they are evaluated, which has no gradients; ask only if training is 1",
    )
}

/// Makes the rows of a call count by this weight instead of their number.
pub fn weigh(call: u64, weight: f64) -> Result<()> {
    if !(weight.is_finite() && weight >= 0.0) {
        return Err(invalid!(
            "weight",
            "{weight}; must be finite and at least 0"
        ));
    }
    with_running(call, |running| {
        running.weight = Some(weight);
        Ok(())
    })
}

/// The memory of a replica for rows, while it is in no call. It is locked by the replica's calls,
/// which come one after the other.
pub(super) type Spare = Mutex<Option<Box<RowGradients>>>;

/// The objects with which the replicas of a trainer call the program's function.
pub(super) struct Caller {
    pub(super) variables: Vec<Variable>,
    pub(super) gradients: Arc<Gradients>,
    pub(super) reduction: LossReduction,
    /// The shape of the rows of each array that has gradients by rows.
    pub(super) shapes: Vec<Option<RowShape>>,
    /// One for each replica.
    pub(super) spare: Vec<CachePadded<Spare>>,
}

impl Caller {
    /// Calls the program's function with the rows of a replica, and submits what it has added.
    pub(super) fn call(
        &self,
        learn: &Learn,
        context: &ReplicaContext,
        is_training: bool,
    ) -> Result<()> {
        let indices = context.argument_tensor()?;
        let indices = indices.ok_or_else(|| Error::Internal("a step without rows".into()))?;
        let count = indices.shape()[0];
        if count == 0 {
            return match is_training {
                true => self.gradients.submit_in(context, Some(0.0)),
                false => Ok(()),
            };
        }
        let call = next_call();
        let mut spare = self.spare[context.replica()].lock();
        let rows = match is_training {
            true => Some(self.begin_rows(&mut spare, call, context)?),
            false => None,
        };
        let rows_of_replica = RowsOfReplica {
            context,
            indices,
            variables: &self.variables,
            gradients: is_training.then_some(&self.gradients),
            call,
            places: rows.as_ref().map_or(ptr::null(), |rows| rows.shown()),
        };
        let mut entered = Entered::new(&mut spare, call, rows);
        let loss = learn(&rows_of_replica).map_err(|error| error.within(place_of(indices)))?;
        let ended = entered.leave();
        let weight = ended.weight.unwrap_or(count as f64);
        let sum = match self.reduction {
            LossReduction::Sum => loss,
            LossReduction::Mean => loss * weight,
            LossReduction::GlobalMean => {
                let all = context.batch_position().global_examples;
                loss * all.unwrap_or(count as u64) as f64
            }
        };
        context.add_metric("loss", Metric { sum, weight })?;
        if let Some(mut rows) = ended.rows {
            rows.end()?;
            *entered.spare = Some(rows);
            self.gradients.submit_in(context, Some(weight))?;
        }
        Ok(())
    }

    /// The memory of a replica for rows, at the beginning of a call.
    fn begin_rows(
        &self,
        spare: &mut Option<Box<RowGradients>>,
        call: u64,
        context: &ReplicaContext,
    ) -> Result<Box<RowGradients>> {
        let kept = spare.take();
        let new = || Box::new(RowGradients::new(&self.gradients, &self.shapes));
        let mut rows = kept.unwrap_or_else(new);
        rows.begin(call, context)?;
        Ok(rows)
    }
}

/// The rows of a replica, in words.
fn place_of(indices: &Tensor) -> String {
    let numbers = indices.to_vec::<i64>().unwrap_or_default();
    match numbers[..] {
        [] => String::new(),
        [only] => format!("row {only}"),
        [first, .., last] if last.wrapping_sub(first) == numbers.len() as i64 - 1 => {
            format!("rows {first} to {last}")
        }
        [first, second, ..] => format!("{} rows ({first}, {second}, ...)", numbers.len()),
    }
}

/// As long as it lives, the thread is in a call.
struct Entered<'a> {
    spare: &'a mut Option<Box<RowGradients>>,
    /// The call around this one, as in a merge call in which another trainer is used.
    around: Option<Running>,
    has_left: bool,
}

impl<'a> Entered<'a> {
    fn new(
        spare: &'a mut Option<Box<RowGradients>>,
        call: u64,
        rows: Option<Box<RowGradients>>,
    ) -> Entered<'a> {
        let running = Running {
            call,
            rows,
            weight: None,
        };
        Entered {
            spare,
            around: RUNNING.replace(Some(running)),
            has_left: false,
        }
    }

    /// Ends the call, whose state is returned.
    fn leave(&mut self) -> Running {
        self.has_left = true;
        let ended = RUNNING.replace(self.around.take());
        ended.unwrap_or(Running {
            call: 0,
            rows: None,
            weight: None,
        })
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if !self.has_left
            && let Some(mut rows) = self.leave().rows
        {
            rows.withdraw();
            *self.spare = Some(rows);
        }
    }
}
