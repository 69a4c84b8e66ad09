//! Reading variables and assigning to them: `umbo/variable.h`.

use super::prelude::*;
use crate::collectives::Assignment;
use crate::strategy::context::with_current_replica;
use crate::strategy::variables;

/// Calls with the context of a handle; if that is NULL, with that of the thread's own replica, if it runs one.
pub(super) fn in_place<R>(
    ctx: *const umbo_replica_context,
    body: impl FnOnce(Option<&ReplicaContext>) -> Result<R>,
) -> Result<R> {
    match ctx.is_null() {
        true => with_current_replica(body),
        false => within(ctx, "ctx", |context| body(Some(context))),
    }
}

/// Shows where the value of a variable lies, for reading.
///
/// @param[in] ctx The replica's context in a replica's callback. `ctx` may be NULL outside of runs.
/// @param[in] dtype The variable's type, as a check, or UMBO_DTYPE_NONE for whatever it is. For a float32
///   variable also UMBO_DTYPE_FLOAT16 or UMBO_DTYPE_BFLOAT16, which show a copy in that type.
/// @param[out] view The value. Never write through it.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: another type.
/// - UMBO_STATUS_FAILED_PRECONDITION: `ctx` is not the context that this thread is in.
///
/// In a replica's callback the view is on the replica's device and shows what this step has written
/// so far. It is valid until the callback returns or the variable is written.
///
/// Outside of runs it is valid until the variable is written or released. No other thread may write
/// the variable meanwhile.
///
/// The memory stays where it is as long as no run assigns to the variable: updates, and assignments outside
/// of runs, write it in place, so that the view has the same address after them. A run that assigns may
/// change the address. Get the view again in each run. A variable that was made
/// with umbo_variable_create_in_memory() is always where the program put it when a run is over.
///
/// A copy in 16 bits is contiguous. Each element is rounded to the nearest one, ties to even. The variable
/// itself stays float32; updates and assignments act on that. The first call for a type makes the copy,
/// which stays as long as the variable. From then on each apply of an optimizer writes the copy along with
/// the variable, which costs as much memory traffic as the copy has bytes. After any other write the next
/// call converts the whole variable. Replicas may call at the same time. If the copy has to be made or
/// converted, one thread does it and the others wait.
#[c_call(out(view))]
pub fn umbo_variable_view(
    variable: *const umbo_variable,
    ctx: *const umbo_replica_context,
    dtype: umbo_dtype,
    view: *mut umbo_view,
) {
    let asked = dtype_or_any(dtype, "dtype")?;
    let ready = borrow(variable, "variable", |variable| {
        in_place(ctx, |context| {
            let dtype = asked.unwrap_or(variable.dtype());
            // SAFETY: the program reads the view as this function's contract says.
            let copy = unsafe { variables::current_copy(context, variable, dtype) }?;
            Ok(copy.map(view_to_read))
        })
    })??;
    if let Some(ready) = ready {
        view.write(ready);
        return Ok(());
    }
    let context = in_place(ctx, |context| Ok(context.cloned()))?;
    let variable = get(variable, "variable")?;
    let dtype = asked.unwrap_or(variable.dtype());
    // SAFETY: as above; and nobody writes the variable meanwhile, which outside of runs is the
    // program's promise.
    let copy = unsafe { variables::bring_in_step(context.as_ref(), &variable, dtype) }?;
    view.write(view_to_read(copy));
}

/// Copies the value of a variable.
///
/// @param[out] value A new tensor on the variable's device. The caller releases it.
///
/// In a run and in a merge call the copy contains what the step has written so far. Elsewhere it is
/// the value of the last step that succeeded.
#[c_call(out(value), get(variable))]
pub fn umbo_variable_read(variable: *const umbo_variable, value: *mut *mut umbo_tensor) {
    value.write(make(variables::read(&variable)?)?);
}

/// Gives a variable a new value.
///
/// @param[in] value A value of the variable's dtype and shape.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: another dtype or shape, or values that the variable's aggregation cannot
///   combine.
/// - UMBO_STATUS_FAILED_PRECONDITION: the call comes from the scope or a run of another strategy,
///   the variable's strategy is draining, or the replicas made different synchronising calls.
/// - UMBO_STATUS_CANCELLED: another replica has failed, or the run has ended.
///
/// In cross-replica and default context the value is assigned once. Of a per-replica value the
/// first component is taken; the first time for each variable, the log gets a warning.
///
/// In a replica's callback this is a synchronising call (see umbo_replica_context_merge_call()).
/// The replicas' values are combined by the variable's aggregation, and the result is assigned
/// once. With SUM it is UMBO_STATUS_INVALID_ARGUMENT to pass the very same tensor on all replicas.
/// Later reads in the step see the new value. It becomes central state if the run succeeds and is
/// dropped if not.
///
/// A variable of the default strategy is not part of the step: the call of each replica writes it
/// at once, one call after the other.
///
/// With several ranks an assignment in a replica's callback is one of the replicas of all ranks. Then
/// UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and UMBO_STATUS_UNAVAILABLE
/// for ranks that cannot meet any more. Outside of callbacks each rank assigns for itself, and all must
/// assign the same.
#[c_call(get(variable), get(value))]
pub fn umbo_variable_assign(variable: *mut umbo_variable, value: *const umbo_value) {
    variables::assign(&variable, Assignment::Assign, &value)
}

/// Adds to a variable.
///
/// @param[in] value A value of the variable's dtype and shape, which is added.
/// @return UMBO_OK, or the statuses of umbo_variable_assign().
///
/// Contexts, aggregation and commit are those of umbo_variable_assign().
#[c_call(get(variable), get(value))]
pub fn umbo_variable_assign_add(variable: *mut umbo_variable, value: *const umbo_value) {
    variables::assign(&variable, Assignment::Add, &value)
}

/// Subtracts from a variable.
///
/// @param[in] value A value of the variable's dtype and shape, which is subtracted.
/// @return UMBO_OK, or the statuses of umbo_variable_assign().
///
/// Contexts, aggregation and commit are those of umbo_variable_assign().
#[c_call(get(variable), get(value))]
pub fn umbo_variable_assign_sub(variable: *mut umbo_variable, value: *const umbo_value) {
    variables::assign(&variable, Assignment::Subtract, &value)
}
