//! The calls in which the replicas of a step meet: `umbo/replica_context.h`.

use crate::machinery::prelude::*;
use umbo_core::strategy::step::merge::{MergeCall, Operation};

/// Runs once for all replicas, in cross-replica context, on the thread that called
/// umbo_strategy_run().
///
/// @param[in] strategy The strategy, lent for the call.
/// @param[in] args What the replicas passed, lent for the call and merged as results of a run are.
///   NULL if they passed nothing.
/// @param[in] user_data That of replica 0.
/// @param[out] result NULL on entry. The library takes over a value that is stored there, and each
///   replica gets its component.
/// @return Any status but UMBO_OK fails the run with it.
pub type umbo_merge_fn = Option<
    unsafe extern "C-unwind" fn(
        strategy: *mut umbo_strategy,
        args: *const umbo_value,
        user_data: *mut c_void,
        result: *mut *mut umbo_value,
    ) -> umbo_status,
>;

/// Waits for all replicas and calls a function once.
///
/// @param[in] function The same on all replicas.
/// @param[in] args This replica's arguments. May be NULL, on all replicas or on none.
/// @param[out] result This replica's component of what was stored, or NULL. `result` may be NULL,
///   which discards it.
/// @return
/// - UMBO_STATUS_INVALID_ARGUMENT: arguments from some replicas only.
/// - UMBO_STATUS_FAILED_PRECONDITION: the replicas made different synchronising calls, or `ctx` is
///   not the context that this thread is in.
/// - UMBO_STATUS_CANCELLED: another replica or `function` has failed, or the run has ended.
///
/// It is a *synchronising call*, which blocks until every replica has made it. So are all-reduces,
/// all-gathers, assignments, scatters, updates and applies in a callback. All replicas make
/// the same ones in the same order; else they and the run get UMBO_STATUS_FAILED_PRECONDITION, with
/// who was where.
///
/// With several ranks each calls `function` once, with the values of its own replicas. In the
/// default context it runs at once.
#[c_call(
    optional_value(result),
    get(ctx),
    present(function),
    get_optional(args)
)]
pub fn umbo_replica_context_merge_call(
    ctx: *mut umbo_replica_context,
    function: umbo_merge_fn,
    args: *const umbo_value,
    user_data: *mut c_void,
    result: *mut *mut umbo_value,
) {
    let user_data = UserData::kept(user_data);
    let merge = move |strategy: &Strategy, calls: &mut [&mut MergeCall]| {
        let merged = merged_arguments(calls)?;
        let mut lent_strategy = LentHandle::<umbo_strategy>::new()?;
        let mut lent_args = LentHandle::<umbo_value>::new()?;
        let lent = lent_strategy.lend(strategy.clone())?;
        let args = merged.map_or(Ok(ptr::null_mut()), |merged| lent_args.lend(merged))?;
        stored("result", |result| {
            // SAFETY: the caller gives a function of this type and its user data.
            unsafe { function(lent, args, user_data.pointer(), result) }
        })
    };
    let operation = Operation::MergeCall {
        function: function as usize,
    };
    result.write(ctx.synchronize(operation, args, Box::new(merge))?);
}

fn merged_arguments(calls: &[&mut MergeCall]) -> Result<Option<Value>> {
    let given: Vec<Value> = calls
        .iter()
        .filter_map(|call| call.arguments.clone())
        .collect();
    if given.is_empty() {
        return Ok(None);
    }
    if given.len() < calls.len() {
        return Err(invalid!(
            "args",
            "{} of {} replicas passed a value; all or none must",
            given.len(),
            calls.len()
        ));
    }
    Value::merge(&given, false, "args").map(Some)
}

/// Reduces a tensor, indexed slices, or a nest of them over the replicas of all ranks.
///
/// @param[out] result A value on this replica's device.
/// @return
/// - UMBO_STATUS_INVALID_ARGUMENT: another kind of value, or components that differ in shape or
///   dtype.
/// - The others of umbo_replica_context_merge_call().
///
/// The nest is one synchronising call. Tensors are reduced element by element. Indexed slices are
/// concatenated in replica order; MEAN divides their values by the number of replicas; MIN and MAX
/// reduce them as dense tensors. The mean of integers is a float, with one replica too.
#[c_call(out(result), get(ctx), constant(op), get(value))]
pub fn umbo_replica_context_all_reduce(
    ctx: *mut umbo_replica_context,
    value: *const umbo_value,
    op: umbo_reduce_op,
    result: *mut *mut umbo_value,
) {
    result.write(make(ctx.all_reduce(op, value)?)?);
}

/// Concatenates a tensor or a nest of tensors over the replicas of all ranks, in replica order.
///
/// @param[in] axis Negative ones count from the back.
/// @param[out] result A value on this replica's device.
/// @return
/// - UMBO_STATUS_INVALID_ARGUMENT: another kind of value, or components that differ in number of
///   dimensions, dtype or another dimension.
/// - UMBO_STATUS_OUT_OF_RANGE: no such axis.
/// - UMBO_STATUS_UNIMPLEMENTED: indexed slices.
/// - The others of umbo_replica_context_merge_call().
///
/// The nest is one synchronising call.
#[c_call(out(result), get(ctx), get(value))]
pub fn umbo_replica_context_all_gather(
    ctx: *mut umbo_replica_context,
    value: *const umbo_value,
    axis: i32,
    result: *mut *mut umbo_value,
) {
    result.write(make(ctx.all_gather(value, axis.into())?)?);
}
