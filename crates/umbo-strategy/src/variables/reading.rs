//! Reading variables in each context.

#![expect(unsafe_code, reason = "the strategy says who may read its variables")]

pub use super::creation::{Initial, NewVariable, create};
pub use super::writing::assign;
use crate::commit::StepParticipant;
use crate::context::{Current, current, mixing, step_place};
use crate::setup::central_storage::Strategy;
use crate::step::ReplicaContext;
use umbo_base::error::{Error, Result};
use umbo_device::DeviceId;
use umbo_tensor::collectives;
use umbo_tensor::values::buffer::is_readable_as;
use umbo_tensor::values::variable::Variable;
use umbo_tensor::{DType, Tensor, TensorMut};

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
    let fresh = read(variable)?;
    let sharding = variable.sharding().cloned();
    Ok(Variable::divided(
        variable.spec().clone(),
        fresh,
        owner.keeper(),
        sharding,
    ))
}

/// Whether `variable` was made in the scope of this very strategy.
pub fn created_in_scope(strategy: &Strategy, variable: &Variable) -> bool {
    !strategy.is_default() && variable.spec().strategy == strategy.id()
}

/// Fails if another strategy has made `variable`, which the error calls `argument`. A variable
/// without a strategy may be used with any.
pub(crate) fn check_owner(
    strategy: &Strategy,
    argument: &'static str,
    variable: &Variable,
) -> Result<()> {
    let owner = owner(variable);
    if owner.is_same(strategy) || owner.is_default() {
        return Ok(());
    }
    let problem = format!(
        "'{}' was made by another strategy; call this of that one",
        variable.name()
    );
    Err(Error::invalid(argument, problem))
}

/// The strategy of a variable. A variable that outlives its strategy has the default one.
pub(crate) fn owner(variable: &Variable) -> Strategy {
    Strategy::with_id(variable.spec().strategy).unwrap_or_else(Strategy::default_strategy)
}

/// A copy of the value that `variable` has now, as this thread sees it: inside of a run or a
/// merge call, with what the step has written so far.
pub fn read(variable: &Variable) -> Result<Tensor> {
    with_value(variable, |value| {
        collectives::copy_to(value, variable.device())
    })
}

/// As [`read`], into `to`, a tensor of the variable's dtype and shape.
pub fn read_into(variable: &Variable, to: &mut TensorMut) -> Result<()> {
    with_value(variable, |value| collectives::copy_into(value, to))
}

/// Calls `inspect` with the present value of `variable`, as this thread sees it. Nobody changes it
/// during the call.
fn with_value<T>(variable: &Variable, inspect: impl FnOnce(&Tensor) -> Result<T>) -> Result<T> {
    let owner = owner(variable);
    let in_step = match current() {
        Current::Replica(context) => context.strategy().is_same(&owner),
        _ => step_place(owner.id()).is_some(),
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
        None => step_place(if Strategy::is_alive(owner) { owner } else { 0 }).is_some(),
    }
}

/// The variable's buffer that a replica sees, or a thread that is in no run, and the device where
/// it reads the value.
fn seen(context: Option<&ReplicaContext>, variable: &Variable) -> (usize, DeviceId) {
    let buffer = match sees_step(context, variable) {
        true => variable.visible_buffer(),
        false => variable.committed_buffer(),
    };
    (
        buffer,
        context.map_or(variable.device(), ReplicaContext::device),
    )
}

/// The tensor of `variable` that a callback is shown. A strict strategy records it, and every
/// strategy does so in its first steps.
fn guarded<'a>(
    context: Option<&ReplicaContext>,
    variable: &Variable,
    value: &'a Tensor,
) -> Result<&'a Tensor> {
    if let Some(context) = context
        && (context.strategy().is_strict() || context.looks_at_views())
        && context.strategy().id() == variable.spec().strategy
    {
        match context.strategy().is_strict() {
            true => context.guard_view(variable, variable.visible_buffer(), value)?,
            false => context.note_view(variable, value),
        }
    }
    Ok(value)
}

/// Keeps a variable that a callback reads until the callback returns. The memory of the same
/// strategy's variables is kept anyway. A trial of the callback records the variable.
fn record_read(context: Option<&ReplicaContext>, variable: &Variable) -> Result<()> {
    let Some(context) = context else {
        return Ok(());
    };
    if context.strategy().id() != variable.spec().strategy {
        context.keep_viewed(variable);
    } else if let Some(watcher) = &context.watcher {
        watcher.reads(variable)?;
    }
    Ok(())
}

/// The tensor that `variable` is right now for a replica, or for the thread that is in no run if
/// `context` is `None`. It has this dtype: the variable's own, or float16 or bfloat16 for a float32
/// variable. It is in the memory of the replica's device. `None` if it is a copy that has to be
/// made or brought up to date first (see [`refreshed_copy`]). Takes no lock and allocates nothing.
///
/// Fails with INVALID_ARGUMENT for other dtypes.
///
/// # Safety
/// The elements of the returned tensor are read until the callback or the step ends, or
/// until the variable is written next: a replica writes by synchronising calls alone, and outside
/// of runs the caller knows that no other thread assigns, updates or commits.
pub unsafe fn current_copy<'a>(
    context: Option<&ReplicaContext>,
    variable: &'a Variable,
    dtype: DType,
) -> Result<Option<&'a Tensor>> {
    record_read(context, variable)?;
    check_readable(variable, dtype)?;
    let (buffer, device) = seen(context, variable);
    // SAFETY: the caller's promise.
    let value = unsafe { variable.copy(buffer, device, dtype) };
    value
        .map(|value| guarded(context, variable, value))
        .transpose()
}

/// The same, made or brought up to date if necessary. Several threads may call this at the same
/// time; one of them does the work, shared by the worker set, and the others wait for it.
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
    record_read(context, variable)?;
    check_readable(variable, dtype)?;
    // A writer in a step waits for all replicas first. Committed values do not change while the
    // lock is held.
    let owner = (!sees_step(context, variable)).then(|| owner(variable));
    let _unchanging = owner
        .as_ref()
        .map(|owner| owner.inner().steps.central.read());
    let (buffer, device) = seen(context, variable);
    // SAFETY: as said above; for what is read afterwards the caller's promise.
    guarded(context, variable, unsafe {
        variable.refreshed_copy(buffer, device, dtype)
    }?)
}

fn check_readable(variable: &Variable, dtype: DType) -> Result<()> {
    if is_readable_as(variable.dtype(), dtype) {
        return Ok(());
    }
    let advice =
        "a variable can be viewed in its own dtype, a float32 one also in float16 and bfloat16";
    Err(invalid!(
        "dtype",
        "{dtype}, but variable '{}' is {}; {advice}",
        variable.name(),
        variable.dtype()
    ))
}
