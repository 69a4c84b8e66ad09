//! Reading and assigning variables in each context.

#![expect(unsafe_code, reason = "the strategy writes the variables")]

use std::sync::Arc;

use super::aggregation::combine;
use super::central_storage::Strategy;
use super::commit::StepParticipant;
use super::context::{Current, current, mixing, step_place, step_place_of};
pub use super::creation::{Initial, NewVariable, create};
use super::limits::Limits;
use super::merge::MergeCall;
use super::operation::Operation;
use super::step::ReplicaContext;
use crate::collectives::{self, Assignment};
use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::observe::strict;
use crate::tensor::{DType, Tensor, TensorMut};
use crate::values::Value;
use crate::values::buffer::is_readable_as;
use crate::values::variable::{Aggregation, Variable};

impl StepParticipant for Variable {
    fn join(&self, _step: u64) -> bool {
        true
    }

    fn commit(&self, _step: u64) {
        self.publish();
    }

    fn finish(&self) {
        // SAFETY: called at the commit point, under the step lock and that of central state.
        unsafe { self.bring_home() }
    }

    fn roll_back(&self, _step: u64) {
        self.discard();
    }
}

/// An independent variable of the same strategy, with the present value of `variable`.
pub fn deep_copy(variable: &Variable) -> Result<Variable> {
    let owner = owner(variable);
    match current() {
        Current::CrossReplica(other) if !owner.is_default() && !other.is_same(&owner) => {
            return Err(mixing());
        }
        Current::Replica(context) if !owner.is_default() && !context.strategy().is_same(&owner) => {
            return Err(mixing());
        }
        _ => {}
    }
    let (fresh, sharding) = (read(variable)?, variable.sharding().cloned());
    Ok(Variable::divided(variable.spec().clone(), fresh, owner.keeper(), sharding))
}

/// Whether `variable` was made in the scope of this very strategy.
pub fn created_in_scope(strategy: &Strategy, variable: &Variable) -> bool {
    !strategy.is_default() && variable.spec().strategy == strategy.id()
}

/// Fails if another strategy has made `variable`, which the error calls `argument`. A variable without a strategy
/// may be used with any.
pub(super) fn check_owner(
    strategy: &Strategy,
    argument: &'static str,
    variable: &Variable,
) -> Result<()> {
    let owner = owner(variable);
    if owner.is_same(strategy) || owner.is_default() {
        return Ok(());
    }
    let problem =
        format!("'{}' was made by another strategy; call this of that one", variable.name());
    Err(Error::invalid(argument, problem))
}

/// The strategy of a variable. A variable that outlives its strategy has the default one.
fn owner(variable: &Variable) -> Strategy {
    Strategy::with_id(variable.spec().strategy).unwrap_or_else(Strategy::default_strategy)
}

/// A copy of the value that `variable` has now, as this thread sees it: inside of a run or a
/// merge call, with what the step has written so far.
pub fn read(variable: &Variable) -> Result<Tensor> {
    with_value(variable, |value| collectives::copy_to(value, variable.device()))
}

/// As [`read`], into `to`, a tensor of the variable's dtype and shape.
pub fn read_into(variable: &Variable, to: &mut TensorMut) -> Result<()> {
    with_value(variable, |value| collectives::copy_into(value, to))
}

/// Calls `inspect` with the present value of `variable`, as this thread sees it. Nobody changes it during the
/// call.
fn with_value<T>(variable: &Variable, inspect: impl FnOnce(&Tensor) -> Result<T>) -> Result<T> {
    let owner = owner(variable);
    let in_step = match current() {
        Current::Replica(context) => context.strategy().is_same(&owner),
        _ => step_place(&owner).is_some(),
    };
    if in_step {
        // SAFETY: a writer in a step waits for all of its replicas first, and so for this thread.
        return inspect(unsafe { variable.visible() });
    }
    let _unchanging = owner.inner().steps.central.read();
    // SAFETY: committed values do not change while `_unchanging` lives.
    inspect(unsafe { variable.committed() })
}

/// Whether a replica, or the thread that is in no run if `context` is `None`, sees what the step in
/// flight has written to `variable`. Takes no reference to the strategy.
fn sees_step(context: Option<&ReplicaContext>, variable: &Variable) -> bool {
    let owner = variable.spec().strategy;
    match context {
        Some(context) => context.strategy().id() == owner,
        None => step_place_of(if Strategy::is_alive(owner) { owner } else { 0 }).is_some(),
    }
}

/// The variable's buffer that a replica sees, or a thread that is in no run, and the device where it reads the value.
fn seen(context: Option<&ReplicaContext>, variable: &Variable) -> (usize, DeviceId) {
    let buffer = match sees_step(context, variable) {
        true => variable.visible_buffer(),
        false => variable.committed_buffer(),
    };
    (buffer, context.map_or(variable.device(), ReplicaContext::device))
}

/// The tensor of `variable` that a callback is shown. A strict strategy records it.
fn guarded<'a>(
    context: Option<&ReplicaContext>,
    variable: &Variable,
    value: &'a Tensor,
) -> Result<&'a Tensor> {
    if let Some(context) = context
        && context.strategy().is_strict()
        && context.strategy().id() == variable.spec().strategy
    {
        context.guard_view(variable, variable.visible_buffer(), value)?;
    }
    Ok(value)
}

/// Keeps a variable that a callback reads until the callback returns. The memory of the same strategy's variables
/// is kept anyway. A trial of the callback records the variable.
fn note_read(context: Option<&ReplicaContext>, variable: &Variable) -> Result<()> {
    let Some(context) = context else { return Ok(()) };
    if context.strategy().id() != variable.spec().strategy {
        context.keep_viewed(variable);
    } else if let Some(watcher) = &context.watcher {
        watcher.reads(variable)?;
    }
    Ok(())
}

/// The tensor that `variable` is right now for a replica, or for the thread that is in no run if `context` is
/// `None`. It has this dtype: the variable's own, or float16 or bfloat16 for a float32 variable. It is in the memory of
/// the replica's device. `None` if it is a copy that has to be made or brought up to date first (see
/// [`refreshed_copy`]). Takes no lock and allocates nothing.
///
/// Fails with INVALID_ARGUMENT for other dtypes.
///
/// # Safety
/// The elements of the returned tensor are read until the callback or the step ends, or
/// until the variable is written next: a replica writes by synchronising calls alone, and outside of
/// runs the caller knows that no other thread assigns, updates or commits.
pub unsafe fn current_copy<'a>(
    context: Option<&ReplicaContext>,
    variable: &'a Variable,
    dtype: DType,
) -> Result<Option<&'a Tensor>> {
    note_read(context, variable)?;
    check_readable(variable, dtype)?;
    let (buffer, device) = seen(context, variable);
    // SAFETY: the caller's promise.
    let value = unsafe { variable.copy(buffer, device, dtype) };
    value.map(|value| guarded(context, variable, value)).transpose()
}

/// The same, made or brought up to date if necessary. Several threads may call this at the same time; one of them does
/// the work, shared by the worker set, and the others wait for it.
///
/// Fails with INVALID_ARGUMENT for other dtypes, and with RESOURCE_EXHAUSTED if there is no memory.
///
/// # Safety
/// That of [`current_copy`], from the beginning of the call on.
pub unsafe fn refreshed_copy<'a>(
    context: Option<&ReplicaContext>,
    variable: &'a Variable,
    dtype: DType,
) -> Result<&'a Tensor> {
    note_read(context, variable)?;
    check_readable(variable, dtype)?;
    // A writer in a step waits for all replicas first. Committed values do not change while the lock is held.
    let owner = (!sees_step(context, variable)).then(|| owner(variable));
    let _unchanging = owner.as_ref().map(|owner| owner.inner().steps.central.read());
    let (buffer, device) = seen(context, variable);
    // SAFETY: as said above; for what is read afterwards the caller's promise.
    guarded(context, variable, unsafe { variable.refreshed_copy(buffer, device, dtype) }?)
}

fn check_readable(variable: &Variable, dtype: DType) -> Result<()> {
    if is_readable_as(variable.dtype(), dtype) {
        return Ok(());
    }
    let what = "a variable can be viewed in its own dtype, a float32 one also in float16 and \
                bfloat16";
    Err(invalid!(
        "dtype",
        "{dtype}, but variable '{}' is {}; {what}",
        variable.name(),
        variable.dtype()
    ))
}

/// Assigns to a variable, or adds to it or subtracts from it, in any context.
///
/// In cross-replica and default context it acts once, with the value as it is (of a per-replica
/// value the first component, and the log gets one warning for each variable). In replica context it is a synchronising operation: the replicas'
/// values are combined as the variable's aggregation says and the result is applied once; later
/// reads in the step see it, and the commit point makes it central state. A variable of no
/// strategy is written by each replica in turn, at once.
pub fn assign(variable: &Variable, kind: Assignment, value: &Value) -> Result<()> {
    match writing_context(variable)? {
        Some(context) => assign_in_replica(&context, variable, kind, value),
        None => {
            let tensor = plain_tensor(value)?;
            check_assignable(variable, &tensor)?;
            warn_of_components(variable, verb(kind), value)?;
            write_directly(variable, kind != Assignment::Assign, &mut |to| {
                collectives::combine_into(kind, to, &tensor)
            })
        }
    }
}

/// The replica context in which a write to `variable` is a synchronising operation, or `None` if the write acts at
/// once.
pub(super) fn writing_context(variable: &Variable) -> Result<Option<ReplicaContext>> {
    let owner = owner(variable);
    match current() {
        Current::Replica(context) if context.strategy().is_same(&owner) => Ok(Some(context)),
        Current::Default => Ok(None),
        Current::CrossReplica(other) if other.is_same(&owner) => Ok(None),
        Current::CrossReplica(_) | Current::Replica(_) if owner.is_default() => Ok(None),
        _ => Err(mixing()),
    }
}

/// The operation's name, as in TensorFlow.
fn verb(kind: Assignment) -> &'static str {
    match kind {
        Assignment::Assign => "assign",
        Assignment::Add => "assign_add",
        Assignment::Subtract => "assign_sub",
    }
}

/// Warns once for each variable that components other than the first are not used. In a strict strategy that is an
/// error.
fn warn_of_components(variable: &Variable, what: &str, value: &Value) -> Result<()> {
    let Value::PerReplica(parts) = value else { return Ok(()) };
    let others = parts.count().saturating_sub(1);
    let is_strict = owner(variable).is_strict();
    if others == 0 || !(is_strict || variable.warns_now()) {
        return Ok(());
    }
    let warning = || {
        format!(
            "{what} of a per-replica value to '{}' in cross-replica context uses replica 0's component \
             alone; {others} others are left out. Assign inside of a run, where the variable's \
             aggregation combines them, or reduce the value first",
            variable.name()
        )
    };
    strict::suspect(is_strict, |what| Error::invalid("value", what), warning)
}

fn plain_tensor(value: &Value) -> Result<Tensor> {
    match value {
        Value::Variable(variable) => read(variable),
        other => other.tensor_of(0).cloned(),
    }
}

/// Checks that `tensor`, which is to be written to `variable`, has its dtype.
pub(super) fn check_dtype(variable: &Variable, tensor: &Tensor) -> Result<()> {
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

pub(super) fn check_assignable(variable: &Variable, tensor: &Tensor) -> Result<()> {
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

/// Lets `write` change the value of `variable` outside replica context: the committed value, or in a step the
/// staged one. `write` changes the whole tensor or, if it fails, nothing; `keeps` says whether it reads the old
/// elements.
pub(super) fn write_directly(
    variable: &Variable,
    keeps: bool,
    write: &mut dyn FnMut(&mut TensorMut) -> Result<()>,
) -> Result<()> {
    let owner = owner(variable);
    if let Some(step) = step_place(&owner) {
        return stage(&owner, step.number.id, variable, keeps, write);
    }
    let _lock = owner.enter(&Limits::default())?;
    let _changing = owner.inner().steps.central.write();
    // SAFETY: the lock keeps out readers of central state, and the step lock keeps out writers. By the contract of
    // `current_copy`, no view is read during a write.
    let mut changing = unsafe { variable.changing() };
    write(&mut changing)
}

/// Lets `write` change the staged value, which later reads in the step see and the commit point publishes.
pub(super) fn stage(
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
pub(super) fn check_aggregation(
    context: &ReplicaContext,
    variable: &Variable,
    what: &str,
) -> Result<()> {
    let replicas = context.strategy().num_replicas_in_sync();
    if replicas > 1 && variable.spec().aggregation == Aggregation::None {
        return Err(invalid!(
            "variable",
            "'{}' has aggregation NONE, so {what} in replica context does not say how to \
                 combine the {replicas} replicas' values; create it with SUM, MEAN or \
                 ONLY_FIRST_REPLICA, or assign in a merge call",
            variable.name()
        ));
    }
    Ok(())
}

fn assign_in_replica(
    context: &ReplicaContext,
    variable: &Variable,
    kind: Assignment,
    value: &Value,
) -> Result<()> {
    context.check_live()?;
    check_aggregation(context, variable, verb(kind))?;
    let value = Value::Tensor(plain_tensor(value)?);
    let (target, step) = (variable.clone(), context.step_id());
    write_in_replica(context, variable, verb(kind), value, move |strategy, combined| {
        let combined = combined.tensor_of(0)?;
        check_assignable(&target, combined)?;
        stage(strategy, step, &target, kind != Assignment::Assign, &mut |to| {
            collectives::combine_into(kind, to, combined)
        })
    })
}

/// Calls `write` once, with the values of all replicas combined by the variable's aggregation.
pub(super) fn write_in_replica(
    context: &ReplicaContext,
    variable: &Variable,
    verb: &'static str,
    value: Value,
    write: impl FnOnce(&Strategy, Value) -> Result<()> + Send + 'static,
) -> Result<()> {
    let operation = Operation::writing(std::slice::from_ref(variable), verb);
    let target = variable.clone();
    let merge = move |strategy: &Strategy, calls: &mut [&mut MergeCall]| {
        let values = calls.iter().filter_map(|call| call.arguments.clone()).collect();
        write(strategy, combine(strategy, &target, verb, values)?).map(|()| None)
    };
    context.synchronize(operation, Some(value), Box::new(merge)).map(drop)
}
