//! Optimizers: their learning rate and state, and their handles.

use crate::machinery::prelude::*;

/// Computes the learning rate of an update.
///
/// @param[in] step The number of updates that the optimizer has made before this one.
/// @param[out] learning_rate Must be written; finite and 0 or more.
/// @return UMBO_OK, or why it failed: then the apply fails and changes nothing.
///
/// Each apply that is to update calls it, on its own thread, also one that is then skipped. In it
/// runs, applies and assignments of the strategy are UMBO_STATUS_FAILED_PRECONDITION.
pub type umbo_schedule_fn = Option<
    unsafe extern "C-unwind" fn(
        step: i64,
        user_data: *mut c_void,
        learning_rate: *mut f64,
    ) -> umbo_status,
>;

/// Sets a function that computes the learning rate of each update, in place of an earlier one.
///
/// @param[in] schedule NULL: none; the learning rate stays what it is.
#[c_call(owned(user_data, destroy), get(optimizer))]
pub fn umbo_optimizer_set_schedule(
    optimizer: *mut umbo_optimizer,
    schedule: umbo_schedule_fn,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
) {
    let Some(schedule) = schedule else {
        return optimizer.set_learning_rate(optimizer.learning_rate());
    };
    optimizer.set_schedule(Arc::new(move |step: u64| {
        let mut learning_rate = f64::NAN;
        // SAFETY: the caller gave the function for this, with the user data that lives as long
        // as this closure; the output is a variable.
        callback::run(|| unsafe {
            schedule(step as i64, user_data.pointer(), &raw mut learning_rate)
        })?;
        Ok(learning_rate)
    }));
}

/// Sets the learning rate from the next apply on, and ends a schedule.
///
/// @param[in] learning_rate Finite and 0 or more; for FTRL, which divides by it, more than 0.
#[c_call(get(optimizer))]
pub fn umbo_optimizer_set_learning_rate(optimizer: *mut umbo_optimizer, learning_rate: f64) {
    optimizer.set_learning_rate(learning_rate)
}

/// Copies a state that an optimizer keeps for a variable to a new tensor.
///
/// @param[in] name Such as "momentum"; the creator of the optimizer lists the names. "average" is
///   the moving average of the weights.
/// @return UMBO_OK, or UMBO_STATUS_NOT_FOUND: the rule has no such state of a variable of this
///   shape, or the optimizer has not updated the variable yet.
///
/// Collective, outside of runs: each rank keeps a part of the state.
#[c_call(out(state), text(name), get(variable), get(optimizer))]
pub fn umbo_optimizer_read_state(
    optimizer: *const umbo_optimizer,
    variable: *const umbo_variable,
    name: *const c_char,
    state: *mut *mut umbo_tensor,
) {
    state.write(make(optimizer.state(&variable, name)?)?);
}

/// Runs while variables have the averages of their weights as values.
pub type umbo_average_fn =
    Option<unsafe extern "C-unwind" fn(user_data: *mut c_void) -> umbo_status>;

/// Calls a function while the variables that an optimizer has updated have the moving averages of
/// their weights as values: to evaluate them, or to export them.
///
/// @return What `function` returned, or UMBO_STATUS_FAILED_PRECONDITION: the optimizer keeps no
///   average, or this is called in a run or in `function`. It takes memory for the weights again.
///
/// `function` may run steps and save the variables, which have their weights again afterwards, but
/// not apply, save or restore the optimizer. Collective: each rank keeps a part of the averages.
#[c_call(present(function), get(optimizer))]
pub fn umbo_optimizer_with_average(
    optimizer: *mut umbo_optimizer,
    function: umbo_average_fn,
    user_data: *mut c_void,
) {
    optimizer.with_average(|| {
        // SAFETY: the caller gives a function of this type and its user data.
        callback::run(|| unsafe { function(user_data) })
    })
}
