//! Updates that are not of one variable, and where variables lie.

use crate::ffi::prelude::*;

/// Calls a function that changes state beside a variable.
///
/// @param[in] colocate_with The variable beside which the state lies; `function` gets it.
/// @param[in] function What to call, once.
/// @param[in] user_data Passed to `function` unchanged; may be anything.
/// @param[in] args The arguments; `args` may be NULL.
/// @param[in] options The form of the result; `options` may be NULL: grouped.
/// @param[out] result What `function` stored, which the caller releases; if it stored nothing,
///   `*result` gets NULL. `result` may be NULL, which discards it.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_FAILED_PRECONDITION: the call comes from a replica's callback.
/// - the others of umbo_strategy_update().
///
/// It is for state that lies where a variable does but is not the variable itself, such as the step
/// count of an optimizer. Otherwise it does what umbo_strategy_update() does outside of a replica's
/// callback.
#[c_call(
    optional_value(result),
    options(options),
    get(strategy),
    get(colocate_with),
    present(function),
    get_optional(args)
)]
pub fn umbo_strategy_update_non_slot(
    strategy: *mut umbo_strategy,
    colocate_with: *mut umbo_variable,
    function: umbo_update_fn,
    user_data: *mut c_void,
    args: *const umbo_value,
    options: *const umbo_update_options,
    result: *mut *mut umbo_value,
) {
    let call = update_function(function, user_data);
    let grouping = grouping(&options)?;
    result.write(strategy.update_non_slot(&colocate_with, args.as_ref(), grouping, call)?);
}

/// Gives the variable beside which shared state lies.
///
/// @param[in] count The number of variables.
/// @param[out] variable A new handle to the variable whose name is the first in byte order. The
///   caller releases it.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: no variables, or one of another strategy.
///
/// Shared state is what belongs to all of the variables together, such as a step count. See
/// umbo_strategy_update_non_slot().
#[c_call(out(variable), handles(variables, count), get(strategy))]
pub fn umbo_strategy_non_slot_devices(
    strategy: *const umbo_strategy,
    count: i64,
    variables: *const *mut umbo_variable,
    variable: *mut *mut umbo_variable,
) {
    variable.write(make(strategy.non_slot_devices(&variables)?.clone())?);
}

/// Calls a function that makes variables beside another.
///
/// @param[in] variable The variable, made in `strategy`.
/// @param[in] function What to call: once, on this thread.
/// @param[in] user_data Passed to `function` unchanged; may be anything.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a variable that was not made in this strategy.
/// - UMBO_STATUS_FAILED_PRECONDITION: the call comes from outside the strategy's scope and its
///   callbacks.
/// - what `function` returned.
///
/// All variables of a strategy lie on its parameter device anyway, so this changes nothing for
/// `function`.
#[c_call(present(function), get(variable))]
pub fn umbo_strategy_colocate_vars_with(
    strategy: *mut umbo_strategy,
    variable: *const umbo_variable,
    function: umbo_scope_fn,
    user_data: *mut c_void,
) {
    get(strategy, "strategy")?.colocate_vars_with(&variable, || {
        // SAFETY: the caller gives a function of this type and its user data.
        callback::run(|| unsafe { function(strategy, user_data) })
    })
}
