//! Reading variables and assigning to them: `umbo/variable.h`.

use super::prelude::*;
use crate::collectives::Assignment;
use crate::strategy::context::with_current_replica;
use crate::strategy::variables::{self, current_copy, refreshed_copy};

/// Calls with the context of a handle; if that is NULL, with that of the thread's own replica, if it runs one.
pub(super) fn in_place<R>(
    ctx: *const umbo_replica_context,
    body: impl FnOnce(Option<&ReplicaContext>) -> Result<R>,
) -> Result<R> {
    match ctx.is_null() {
        // A copy: what waits for the ends of uses in `body` (`hazard::call_when_unused`) may enter a context.
        true => body(with_current_replica(|own| own.cloned()).as_ref()),
        false => within(ctx, "ctx", |context| body(Some(context))),
    }
}

/// A view of the present value of a handle's variable, in the variable's dtype or another one.
pub(super) fn current_view(
    handle: *const umbo_variable,
    argument: &'static str,
    context: Option<&ReplicaContext>,
    dtype: Option<DType>,
) -> Result<umbo_view> {
    let ready = borrow(handle, argument, |variable| {
        // SAFETY: the program reads the view as the contract of `umbo_variable_view` says.
        unsafe { current_copy(context, variable, dtype.unwrap_or(variable.dtype())) }
            .map(|copy| copy.map(view_to_read))
    })??;
    if let Some(ready) = ready {
        return Ok(ready);
    }
    let variable = get(handle, argument)?;
    // SAFETY: as above; and nobody writes the variable meanwhile, which outside of runs is the program's promise.
    let copy = unsafe { refreshed_copy(context, &variable, dtype.unwrap_or(variable.dtype())) };
    copy.map(view_to_read)
}

/// Gets a view of a variable's value, for reading.
///
/// @param[in] ctx The replica's context in a replica's callback. `ctx` may be NULL outside of runs.
/// @param[in] dtype The variable's type, as a check, or UMBO_DTYPE_NONE. For a float32 variable
///   also UMBO_DTYPE_FLOAT16 or UMBO_DTYPE_BFLOAT16: a copy in that type.
/// @param[out] view In a callback valid until it returns or the variable is written; outside of
///   runs until the variable is written or released.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: another type.
/// - UMBO_STATUS_FAILED_PRECONDITION: `ctx` is not the context of this thread.
///
/// In a callback the view is on the replica's device and shows what the step has written so far. A
/// run that assigns may change the address: get the view again in each run. Updates, and
/// assignments outside of runs, keep the address.
///
/// A 16-bit copy is contiguous and rounded to the nearest, ties to even. The first call for a type
/// makes the copy, which stays. From then on optimizers write it along with the variable; after any
/// other write, the next call converts the whole variable. Replicas may call at the same time.
#[c_call(out(view))]
pub fn umbo_variable_view(
    variable: *const umbo_variable,
    ctx: *const umbo_replica_context,
    dtype: umbo_dtype,
    view: *mut umbo_view,
) {
    let dtype = dtype_or_any(dtype, "dtype")?;
    view.write(in_place(ctx, |context| current_view(variable, "variable", context, dtype))?);
}

/// Copies the value of a variable to a new tensor on the variable's device.
///
/// In a run and in a merge call, the copy has what the step has written so far.
#[c_call(out(value), get(variable))]
pub fn umbo_variable_read(variable: *const umbo_variable, value: *mut *mut umbo_tensor) {
    value.write(make(variables::read(&variable)?)?);
}

/// Gives a variable a new value.
///
/// @param[in] value A value of the variable's dtype and shape. Outside of callbacks a per-replica
///   value stands for its first component, with a warning.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: another dtype or shape, or values that the aggregation cannot
///   combine, such as the very same tensor on all replicas for UMBO_AGGREGATION_SUM.
/// - UMBO_STATUS_FAILED_PRECONDITION: the scope or a run of another strategy, a strategy that is
///   draining, or replicas that made different synchronising calls.
/// - UMBO_STATUS_CANCELLED: another replica has failed, or the run has ended.
#[c_call(get(variable), get(value))]
pub fn umbo_variable_assign(variable: *mut umbo_variable, value: *const umbo_value) {
    variables::assign(&variable, Assignment::Assign, &value)
}

/// Adds to a variable.
///
/// @param[in] value As for umbo_variable_assign().
/// @return As umbo_variable_assign().
#[c_call(get(variable), get(value))]
pub fn umbo_variable_assign_add(variable: *mut umbo_variable, value: *const umbo_value) {
    variables::assign(&variable, Assignment::Add, &value)
}

/// Subtracts from a variable.
///
/// @param[in] value As for umbo_variable_assign().
/// @return As umbo_variable_assign().
#[c_call(get(variable), get(value))]
pub fn umbo_variable_assign_sub(variable: *mut umbo_variable, value: *const umbo_value) {
    variables::assign(&variable, Assignment::Subtract, &value)
}
