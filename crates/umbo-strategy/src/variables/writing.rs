//! Writing to variables in each context: assignments and scatter updates.

#![expect(unsafe_code, reason = "the strategy writes the variables")]

use std::slice;
use std::sync::Arc;

use super::aggregation::combine;
use crate::context::{Current, current, mixing, step_place};
use crate::setup::central_storage::Strategy;
use crate::step::ReplicaContext;
use crate::step::limits::Limits;
use crate::step::merge::MergeCall;
use crate::step::operation::Operation;
use crate::variables::{owner, read};
use umbo_base::error::{Error, Result};
use umbo_base::observe::strict;
pub use umbo_kernels::rows::scatter::ScatterOp;
use umbo_tensor::collectives::{self, Assignment};
use umbo_tensor::values::indexed_slices::IndexedSlices;
use umbo_tensor::values::variable::{Aggregation, Variable};
use umbo_tensor::values::{PerReplica, Value};
use umbo_tensor::{Tensor, TensorMut};

/// Assigns to a variable, or adds to it or subtracts from it, in any context.
///
/// In cross-replica and default context it acts once, with the value as it is (of a per-replica
/// value the first component, and the log gets one warning for each variable). In replica context
/// it is a synchronising operation: the replicas' values are combined as the variable's aggregation
/// says and the result is applied once; later reads in the step see it, and the commit point makes
/// it central state. A variable of no strategy is written by each replica in turn, at once.
pub fn assign(variable: &Variable, kind: Assignment, value: &Value) -> Result<()> {
    write(variable, Change::Assign(kind), value)
}

/// Combines the rows of indexed slices into rows of a variable, in order; a row that is named
/// several times is changed several times.
///
/// In cross-replica and default context it acts once, with the slices as they are; a per-replica
/// value is refused there, since it does not say how to combine its components. In replica context
/// it is a synchronising operation: the replicas' slices are concatenated in replica order
/// (aggregation SUM), or concatenated with the values divided by the number of replicas (MEAN), or
/// replica 0's count (ONLY_FIRST_REPLICA); later reads in the step see the result, and the commit
/// point makes it central state.
///
/// Fails, with nothing changed, with OUT_OF_RANGE for an index that is not a row of the variable,
/// and with INVALID_ARGUMENT for a dtype or dense shape other than the variable's, for an integer
/// divided by zero, for arithmetic on bool, and in replica context for aggregation NONE.
pub fn scatter(variable: &Variable, op: ScatterOp, value: &Value) -> Result<()> {
    write(variable, Change::Scatter(op), value)
}

/// The change that a value makes to a variable.
#[derive(Clone, Copy)]
enum Change {
    /// An assignment of a tensor.
    Assign(Assignment),
    /// A scatter of indexed slices.
    Scatter(ScatterOp),
}

impl Change {
    /// The operation's name, as in TensorFlow.
    fn name(self) -> &'static str {
        match self {
            Change::Assign(Assignment::Assign) => "assign",
            Change::Assign(Assignment::Add) => "assign_add",
            Change::Assign(Assignment::Subtract) => "assign_sub",
            Change::Scatter(op) => op.name(),
        }
    }

    /// Whether the old elements count.
    fn keeps(self) -> bool {
        !matches!(self, Change::Assign(Assignment::Assign))
    }

    /// The tensor or the slices in a value; of a per-replica value those of replica 0.
    fn source(self, value: &Value) -> Result<Value> {
        match (self, value) {
            (Change::Assign(_), Value::Variable(variable)) => read(variable).map(Value::Tensor),
            (Change::Assign(_), other) => other.tensor_of(0).cloned().map(Value::Tensor),
            (Change::Scatter(_), other) => slices_of(other).map(Value::IndexedSlices),
        }
    }

    /// Checks that `source` fits the variable.
    fn check(self, variable: &Variable, source: &Value) -> Result<()> {
        let Change::Scatter(_) = self else {
            return check_assignable(variable, source.tensor_of(0)?);
        };
        let slices = slices_of(source)?;
        check_dtype(variable, slices.values())?;
        if slices.dense_shape() == variable.shape() {
            return Ok(());
        }
        Err(invalid!(
            "value",
            "is slices of shape {}, but variable '{}' has shape {}",
            slices.dense_shape(),
            variable.name(),
            variable.shape()
        ))
    }

    /// Writes `source` into the staged or committed value of `variable`.
    fn write(self, variable: &Variable, source: &Value, to: &mut TensorMut<'_>) -> Result<()> {
        let op = match self {
            Change::Assign(kind) => {
                return collectives::combine_into(kind, to, source.tensor_of(0)?);
            }
            Change::Scatter(op) => op,
        };
        let slices = slices_of(source)?;
        to.scatter_rows(op, slices.values(), slices.indices())
            .map_err(|error| match error {
                Error::OutOfRange { argument, problem } => {
                    out_of_range!(argument, "{problem} of variable '{}'", variable.name())
                }
                other => other,
            })
    }
}

fn slices_of(value: &Value) -> Result<Arc<IndexedSlices>> {
    match value.component(0)? {
        Value::IndexedSlices(slices) => Ok(slices),
        other => Err(invalid!(
            "value",
            "{} where indexed slices are expected",
            other.kind_name()
        )),
    }
}

fn write(variable: &Variable, change: Change, value: &Value) -> Result<()> {
    let Some(context) = writing_context(variable)? else {
        let source = change.source(value)?;
        change.check(variable, &source)?;
        match (change, value) {
            (Change::Assign(_), Value::PerReplica(parts)) => {
                warn_of_components(variable, change.name(), parts)?;
            }
            (Change::Scatter(_), Value::PerReplica(_)) => {
                return Err(invalid!(
                    "value",
                    "a per-replica value, of which one component would be used; scatter inside of \
                     a run, where the variable's aggregation combines them, or scatter the \
                     component that is meant"
                ));
            }
            _ => {}
        }
        return write_directly(variable, change, &source);
    };
    context.check_live()?;
    check_aggregation(&context, variable, change.name())?;
    let operation = Operation::writing(slice::from_ref(variable), change.name());
    let target = variable.clone();
    let step = context.step_id();
    let source = change.source(value)?;
    let merge = move |strategy: &Strategy, calls: &mut [&mut MergeCall]| {
        let values = calls
            .iter()
            .filter_map(|call| call.arguments.clone())
            .collect();
        let combined = combine(strategy, &target, change.name(), values)?;
        change.check(&target, &combined)?;
        let write = &mut |to: &mut TensorMut<'_>| change.write(&target, &combined, to);
        stage(strategy, step, &target, change.keeps(), write).map(|()| None)
    };
    context
        .synchronize(operation, Some(source), Box::new(merge))
        .map(drop)
}

/// The replica context in which a write to `variable` is a synchronising operation, or `None` if
/// the write acts at once.
pub(crate) fn writing_context(variable: &Variable) -> Result<Option<ReplicaContext>> {
    let owner = owner(variable);
    match current() {
        Current::Replica(context) if context.strategy().is_same(&owner) => Ok(Some(context)),
        Current::Default => Ok(None),
        Current::CrossReplica(other) if other.is_same(&owner) => Ok(None),
        Current::CrossReplica(_) | Current::Replica(_) if owner.is_default() => Ok(None),
        _ => Err(mixing()),
    }
}

/// Warns once for each variable that components other than the first are not used. In a strict
/// strategy that is an error.
fn warn_of_components(variable: &Variable, operation: &str, parts: &PerReplica) -> Result<()> {
    let others = parts.count().saturating_sub(1);
    let is_strict = owner(variable).is_strict();
    if others == 0 || !(is_strict || variable.warns_now()) {
        return Ok(());
    }
    let warning = || {
        format!(
            "{operation} of a per-replica value to '{}' in cross-replica context uses replica 0's \
             component alone; {others} others are left out. Assign inside of a run, where the \
             variable's aggregation combines them, or reduce the value first",
            variable.name()
        )
    };
    strict::warn_or_fail(
        is_strict,
        |operation| Error::invalid("value", operation),
        warning,
    )
}

/// Checks that `tensor`, which is to be written to `variable`, has its dtype.
fn check_dtype(variable: &Variable, tensor: &Tensor) -> Result<()> {
    if tensor.dtype() == variable.dtype() {
        return Ok(());
    }
    let hint = match (variable.spec().aggregation, variable.dtype().is_integer()) {
        (Aggregation::Mean, true) => {
            " (the MEAN of integers is a float; give the variable a float dtype or the SUM \
             aggregation)"
        }
        _ => "; convert the value",
    };
    Err(invalid!(
        "value",
        "is {}, but variable '{}' is {}{hint}",
        tensor.dtype(),
        variable.name(),
        variable.dtype()
    ))
}

/// Checks that `tensor`, which is to be assigned to `variable`, has its dtype and shape.
pub(crate) fn check_assignable(variable: &Variable, tensor: &Tensor) -> Result<()> {
    check_dtype(variable, tensor)?;
    if tensor.shape() != variable.shape() {
        return Err(invalid!(
            "value",
            "has shape {}, but variable '{}' has shape {}, which an assignment does not change; \
             reshape the value",
            tensor.shape(),
            variable.name(),
            variable.shape()
        ));
    }
    Ok(())
}

/// Changes the value of `variable` outside replica context: the committed value, or in a step the
/// staged one.
fn write_directly(variable: &Variable, change: Change, source: &Value) -> Result<()> {
    let owner = owner(variable);
    let write = &mut |to: &mut TensorMut<'_>| change.write(variable, source, to);
    if let Some(step) = step_place(owner.id()) {
        return stage(&owner, step.number.id, variable, change.keeps(), write);
    }
    let _lock = owner.enter(&Limits::default())?;
    let _changing = owner.inner().steps.central.write();
    // SAFETY: the lock keeps out readers of central state, and the step lock keeps out writers. By
    // the contract of `current_copy`, no view is read during a write.
    write(&mut unsafe { variable.changing() })
}

/// Calls `write` to change the staged value, which later reads in the step see and the commit point
/// publishes. `write` changes the whole tensor or, if it fails, nothing; `keeps` says whether the
/// old elements count.
pub(crate) fn stage(
    owner: &Strategy,
    step: u64,
    variable: &Variable,
    keeps: bool,
    write: &mut dyn FnMut(&mut TensorMut) -> Result<()>,
) -> Result<()> {
    // SAFETY: the step has the staging buffer to itself, and one thread of it writes at a time.
    // Views are not read during a write, as above.
    let staging = &mut unsafe { variable.staging()? };
    if variable.is_staged() {
        return write(staging);
    }
    if keeps {
        // SAFETY: central state does not change before the step is over.
        let committed = unsafe { variable.committed() };
        collectives::combine_into(Assignment::Assign, staging, committed)?;
    }
    write(staging)?;
    owner.join_step(step, &Arc::new(variable.clone()))?;
    variable.stage();
    Ok(())
}

/// Checks that the values which the replicas write to `variable` can be combined.
pub(crate) fn check_aggregation(
    context: &ReplicaContext,
    variable: &Variable,
    operation: &str,
) -> Result<()> {
    let replicas = context.strategy().num_replicas_in_sync();
    if replicas > 1 && variable.spec().aggregation == Aggregation::None {
        return Err(invalid!(
            "variable",
            "'{}' has aggregation NONE, so {operation} in replica context does not say how to \
             combine the {replicas} replicas' values; create it with SUM, MEAN or \
             ONLY_FIRST_REPLICA, or assign in a merge call",
            variable.name()
        ));
    }
    Ok(())
}
