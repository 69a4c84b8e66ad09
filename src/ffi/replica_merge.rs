//! Where the replicas of a step meet: `umbo/replica_context.h`.

use super::prelude::*;
use crate::strategy::merge::Operation;

/// What runs once for all replicas in a merge call.
///
/// @param[in] strategy The strategy, lent for the call.
/// @param[in] args What the replicas passed, lent for the call and merged as the results of a run
///   are. NULL if they passed nothing.
/// @param[in] user_data The user data of replica 0.
/// @param[out] result The place for a value; NULL on entry. The library takes over a value that is
///   stored there, and each replica gets its component of it.
/// @return UMBO_OK, or why it failed. Any other status than UMBO_OK fails the run.
///
/// It runs on the thread that called umbo_strategy_run(), in cross-replica context.
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
/// @param[in] ctx The replica's context.
/// @param[in] function What to call; the same on all replicas.
/// @param[in] user_data Passed to `function`, which gets that of replica 0; may be anything.
/// @param[in] args This replica's arguments; `args` may be NULL, on all replicas or on none.
/// @param[out] result This replica's part of what `function` stored: a new handle, which the caller
///   releases. If it stored nothing, `*result` gets NULL. `result` may be NULL, which discards the
///   part.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: arguments from some replicas only.
/// - UMBO_STATUS_FAILED_PRECONDITION: the replicas made different synchronising calls (the message
///   says which one each of them made), or `ctx` is not the context that this thread is in.
/// - UMBO_STATUS_CANCELLED: another replica has failed, `function` has failed, or the run has
///   ended.
///
/// It is a *synchronising call*: it blocks until every replica has made it. Synchronising calls are
/// merge calls, all-reduces, all-gathers, assignments to variables, scatter updates, updates and
/// applies. All replicas make the same ones in the same order. If they do not, all of them get
/// UMBO_STATUS_FAILED_PRECONDITION, and so does the run.
///
/// If `function` fails, the run fails with its status. In the default context `function` runs at
/// once.
///
/// With several ranks each of them calls `function` once, with the values of its own replicas.
#[c_call(optional_value(result), get(ctx), present(function), get_optional(args))]
pub fn umbo_replica_context_merge_call(
    ctx: *mut umbo_replica_context,
    function: umbo_merge_fn,
    user_data: *mut c_void,
    args: *const umbo_value,
    result: *mut *mut umbo_value,
) {
    let user_data = UserData::kept(user_data);
    let merge = move |strategy: &Strategy, parts: Vec<Option<Value>>| {
        let replicas = parts.len();
        let merged = merged_arguments(parts)?;
        let mut lent_strategy = Lent::<umbo_strategy>::new()?;
        let mut lent_args = Lent::<umbo_value>::new()?;
        let strategy = lent_strategy.lend(strategy.clone())?;
        let args = merged.map_or(Ok(ptr::null_mut()), |merged| lent_args.lend(merged))?;
        let value = stored("result", |result| {
            // SAFETY: the caller gives a function of this type and its user data.
            unsafe { function(strategy, args, user_data.pointer(), result) }
        })?;
        (0..replicas)
            .map(|replica| value.as_ref().map(|value| value.component(replica)).transpose())
            .collect()
    };
    let operation = Operation::MergeCall { function: function as usize };
    result.write(ctx.synchronize(operation, args, Box::new(merge))?);
}

fn merged_arguments(parts: Vec<Option<Value>>) -> Result<Option<Value>> {
    let given: Vec<Value> = parts.iter().flatten().cloned().collect();
    if given.is_empty() {
        return Ok(None);
    }
    if given.len() < parts.len() {
        return Err(Error::invalid(
            "args",
            format!("{} of {} replicas passed a value; all or none must", given.len(), parts.len()),
        ));
    }
    Value::merge(&given, false, "args").map(Some)
}

/// Reduces a tensor or a nest of tensors over the replicas.
///
/// @param[in] ctx The replica's context.
/// @param[in] op UMBO_REDUCE_SUM or UMBO_REDUCE_MEAN.
/// @param[in] value This replica's tensor or indexed slices, or a nest of them.
/// @param[out] result The reduced value, on this replica's device. The caller releases it.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an unknown `op`, another kind of value, or components that differ in shape
///   or dtype.
/// - UMBO_STATUS_FAILED_PRECONDITION or UMBO_STATUS_CANCELLED: as for
///   umbo_replica_context_merge_call().
///
/// Each replica gets a value of its own. The whole nest is one synchronising call. Tensors are
/// reduced element by element. Indexed slices are concatenated in replica order; MEAN divides their
/// values by the number of replicas. MEAN of integers is a float, also with one replica.
///
/// With several ranks a call of the replicas of all of them. Then UMBO_STATUS_FAILED_PRECONDITION is also
/// for ranks that make different calls, and UMBO_STATUS_UNAVAILABLE for ranks that cannot meet any more.
#[c_call(out(result), get(ctx), constant(op), get(value))]
pub fn umbo_replica_context_all_reduce(
    ctx: *mut umbo_replica_context,
    op: umbo_reduce_op,
    value: *const umbo_value,
    result: *mut *mut umbo_value,
) {
    result.write(make(ctx.all_reduce(op, value)?)?);
}

/// Concatenates a tensor or nest of tensors over the replicas.
///
/// @param[in] ctx The replica's context.
/// @param[in] value This replica's tensor, or a nest of tensors.
/// @param[in] axis The axis to concatenate along; negative ones count from the back.
/// @param[out] result The concatenation in replica order, on this replica's device. The caller
///   releases it.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: another kind of value, or components that differ in rank, dtype or another
///   dimension.
/// - UMBO_STATUS_OUT_OF_RANGE: no such axis.
/// - UMBO_STATUS_UNIMPLEMENTED: indexed slices.
/// - UMBO_STATUS_FAILED_PRECONDITION or UMBO_STATUS_CANCELLED: as for
///   umbo_replica_context_merge_call().
///
/// Each replica gets a value of its own. The whole nest is one synchronising call.
///
/// With several ranks a call of the replicas of all of them. Then UMBO_STATUS_FAILED_PRECONDITION is also
/// for ranks that make different calls, and UMBO_STATUS_UNAVAILABLE for ranks that cannot meet any more.
#[c_call(out(result), get(ctx), get(value))]
pub fn umbo_replica_context_all_gather(
    ctx: *mut umbo_replica_context,
    value: *const umbo_value,
    axis: i32,
    result: *mut *mut umbo_value,
) {
    result.write(make(ctx.all_gather(value, axis.into())?)?);
}
