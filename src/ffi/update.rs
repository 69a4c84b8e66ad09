//! Updating variables in cross-replica context.

use super::prelude::*;
use crate::strategy::extended::Grouping;

/// What runs once in an update, in cross-replica context.
///
/// @param[in] variable The variable, lent for the call.
/// @param[in] args The arguments, lent for the call: each per-replica value is replaced by its
///   first component. NULL if there are none.
/// @param[in] user_data What the caller passed.
/// @param[out] result The place for a result; NULL on entry. The library takes over a value that is
///   stored there.
/// @return UMBO_OK, or why it failed. Any other status than UMBO_OK fails the update.
pub type umbo_update_fn = Option<
    unsafe extern "C-unwind" fn(
        variable: *mut umbo_variable,
        args: *const umbo_value,
        user_data: *mut c_void,
        result: *mut *mut umbo_value,
    ) -> umbo_status,
>;

/// In which form the result of an update comes back.
pub type umbo_update_grouping = i32;

/// As the function stored it.
pub const UMBO_UPDATE_GROUPED: umbo_update_grouping = 0;
/// Each leaf as a tuple with one item for each device that has a copy of the variable. There is one
/// such device.
pub const UMBO_UPDATE_UNGROUPED: umbo_update_grouping = 1;

/// How an update is done. Start from UMBO_UPDATE_OPTIONS_INIT.
#[c_struct]
#[repr(C)]
pub struct umbo_update_options {
    /// sizeof(umbo_update_options).
    pub struct_size: usize,
    /// UMBO_UPDATE_GROUPED, the default, or UMBO_UPDATE_UNGROUPED.
    pub grouping: umbo_update_grouping,
}

pub(crate) fn grouping(options: &umbo_update_options) -> Result<Grouping> {
    one_of!(options.grouping, "options.grouping", {
        UMBO_UPDATE_GROUPED => Grouping::Grouped,
        UMBO_UPDATE_UNGROUPED => Grouping::Ungrouped,
    })
}

/// What the core calls with the variable and the arguments.
type Call = Box<dyn FnOnce(&Variable, Option<Value>) -> Result<Option<Value>> + Send>;

/// A function of the program's, with its user data, as the core calls it.
pub(crate) fn update_function(
    function: unsafe extern "C-unwind" fn(
        *mut umbo_variable,
        *const umbo_value,
        *mut c_void,
        *mut *mut umbo_value,
    ) -> umbo_status,
    user_data: *mut c_void,
) -> Call {
    let user_data = UserData::kept(user_data);
    Box::new(move |variable: &Variable, args: Option<Value>| {
        let mut lent_variable = Lent::<umbo_variable>::new()?;
        let mut lent_args = Lent::<umbo_value>::new()?;
        let variable = lent_variable.lend(variable.clone())?;
        let args = args.map_or(Ok(ptr::null_mut()), |args| lent_args.lend(args))?;
        stored("result", |result| {
            // SAFETY: the caller gives a function of this type and its user data.
            unsafe { function(variable, args, user_data.pointer(), result) }
        })
    })
}

/// Calls a function that changes a variable, for all replicas at once.
///
/// @param[in] variable The variable, which `function` gets.
/// @param[in] function What to call, once.
/// @param[in] user_data Passed to `function` unchanged; may be anything.
/// @param[in] args The arguments; `args` may be NULL.
/// @param[in] options The form of the result; `options` may be NULL: grouped.
/// @param[out] result What `function` stored, which the caller releases; if it stored nothing,
///   `*result` gets NULL. `result` may be NULL, which discards it.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an unknown grouping, or a variable of another strategy.
/// - UMBO_STATUS_FAILED_PRECONDITION: the call comes from another strategy's scope, or the strategy is
///   draining.
/// - what `function` returned.
///
/// `function` runs on this thread, in cross-replica context. What it assigns, to this variable and
/// to others of the strategy, becomes central state if it succeeds and is dropped if it fails.
///
/// In a replica's callback this is a synchronising call (see umbo_replica_context_merge_call()).
/// `function` then runs on the thread that called umbo_strategy_run(), with the arguments and user
/// data of replica 0, and each replica gets its part of the result.
///
/// With several ranks a call that all of them make: it fails on all if it fails on one. Then
/// UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and UMBO_STATUS_UNAVAILABLE
/// for ranks that cannot meet any more.
#[c_call(
    optional_value(result),
    options(options),
    get(strategy),
    get(variable),
    present(function),
    get_optional(args)
)]
pub fn umbo_strategy_update(
    strategy: *mut umbo_strategy,
    variable: *mut umbo_variable,
    function: umbo_update_fn,
    user_data: *mut c_void,
    args: *const umbo_value,
    options: *const umbo_update_options,
    result: *mut *mut umbo_value,
) {
    let call = update_function(function, user_data);
    result.write(strategy.update(&variable, args.as_ref(), grouping(&options)?, call)?);
}
