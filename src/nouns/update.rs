//! Updating variables in cross-replica context.

use crate::machinery::prelude::*;

/// Changes a variable, in cross-replica context.
///
/// @param[in] variable The variable, lent for the call.
/// @param[in] args The arguments, lent for the call, with the first component in place of each
///   per-replica value. NULL if there are none.
/// @param[out] result NULL on entry. The library takes over a value that is stored there.
pub type umbo_update_fn = Option<
    unsafe extern "C-unwind" fn(
        variable: *mut umbo_variable,
        args: *const umbo_value,
        user_data: *mut c_void,
        result: *mut *mut umbo_value,
    ) -> umbo_status,
>;

/// The function that the core calls with the variable and the arguments.
type UpdateCall = Box<dyn FnOnce(&Variable, Option<Value>) -> Result<Option<Value>> + Send>;

/// A function of the program's, with its user data, as the core calls it.
fn update_function(
    function: unsafe extern "C-unwind" fn(
        *mut umbo_variable,
        *const umbo_value,
        *mut c_void,
        *mut *mut umbo_value,
    ) -> umbo_status,
    user_data: *mut c_void,
) -> UpdateCall {
    let user_data = UserData::kept(user_data);
    Box::new(move |variable: &Variable, args: Option<Value>| {
        let mut lent_variable = LentHandle::<umbo_variable>::new()?;
        let mut lent_args = LentHandle::<umbo_value>::new()?;
        let variable = lent_variable.lend(variable.clone())?;
        let args = args.map_or(Ok(ptr::null_mut()), |args| lent_args.lend(args))?;
        stored("result", |result| {
            // SAFETY: the caller gives a function of this type and its user data.
            unsafe { function(variable, args, user_data.pointer(), result) }
        })
    })
}

/// Calls a function once that changes a variable for all replicas.
///
/// @param[in] args May be NULL.
/// @param[out] result What was stored, or NULL. `result` may be NULL, which discards it.
/// @return What `function` returned, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a variable of another strategy.
/// - UMBO_STATUS_FAILED_PRECONDITION: the call comes from another strategy's scope, or the strategy
///   is draining.
///
/// `function` runs on this thread. What it assigns, to any variable of the strategy, becomes
/// central state if it succeeds. In a replica's callback this is a synchronising call
/// (umbo_replica_context_merge_call()): `function` runs on the thread that called
/// umbo_strategy_run(), with the arguments and user data of replica 0, and each replica gets its
/// component of the result. Collective.
#[c_call(
    optional_value(result),
    get(strategy),
    get(variable),
    present(function),
    get_optional(args)
)]
pub fn umbo_strategy_update(
    strategy: *mut umbo_strategy,
    variable: *mut umbo_variable,
    function: umbo_update_fn,
    args: *const umbo_value,
    user_data: *mut c_void,
    result: *mut *mut umbo_value,
) {
    let call = update_function(function, user_data);
    result.write(strategy.update(&variable, args.as_ref(), call)?);
}
