//! Optimizers: their learning rate, loss scale and state, and their handles.

use super::prelude::*;

/// Computes the learning rate of an update.
///
/// @param[in] step How many updates the optimizer has made before this one.
/// @param[in] user_data What umbo_optimizer_set_schedule() was given.
/// @param[out] learning_rate The learning rate, which must be written; finite and 0 or more.
/// @return UMBO_OK, or why it failed. Any other status than UMBO_OK fails the apply, which then
///   changes nothing.
///
/// Each apply that is to update calls it, on the thread that carries out the apply; an apply that
/// is then skipped because of a gradient that is not finite has called it too. Inside it, functions
/// that run steps of the strategy or change its state (runs, applies, assignments,
/// umbo_strategy_synchronize()) give UMBO_STATUS_FAILED_PRECONDITION.
pub type umbo_schedule_fn = Option<
    unsafe extern "C-unwind" fn(
        step: i64,
        user_data: *mut c_void,
        learning_rate: *mut f64,
    ) -> umbo_status,
>;

/// Sets a function that computes the learning rate of each update.
///
/// @param[in] schedule The function, which replaces an earlier one. `schedule` may be NULL: the
///   learning rate stays what it is now, as with umbo_optimizer_set_learning_rate().
/// @param[in] user_data Passed to the function unchanged; may be anything.
/// @param[in] destroy Releases the user data when the function is replaced or the optimizer ends,
///   and if this call fails. NULL: nothing to release.
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
#[c_call(gives(user_data, destroy), get(optimizer))]
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

/// Tells the factor that callbacks multiply their loss by.
///
/// @param[out] loss_scale The factor of this run, valid until the next apply; 1 if there is no loss
///   scale.
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
///
/// It may be called inside a run. A callback may multiply its gradients instead of its loss.
/// Several gradients of one run may be applied one after the other: each apply divides by the scale
/// that the run had.
#[c_call(out(loss_scale), get(optimizer))]
pub fn umbo_optimizer_loss_scale(optimizer: *const umbo_optimizer, loss_scale: *mut f64) {
    loss_scale.write(optimizer.loss_scale());
}

/// Sets the learning rate and ends a schedule.
///
/// @param[in] learning_rate The learning rate from the next apply on; finite and 0 or more.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a learning rate that is out of range; 0 also is for FTRL, which divides by
///   it.
/// - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
#[c_call(get(optimizer))]
pub fn umbo_optimizer_set_learning_rate(optimizer: *mut umbo_optimizer, learning_rate: f64) {
    optimizer.set_learning_rate(learning_rate)
}

/// Tells the learning rate.
///
/// @param[out] learning_rate That of the next apply; with a schedule that of the last one.
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
#[c_call(out(learning_rate), get(optimizer))]
pub fn umbo_optimizer_learning_rate(optimizer: *const umbo_optimizer, learning_rate: *mut f64) {
    learning_rate.write(optimizer.learning_rate());
}

/// Tells how many applies have taken effect.
///
/// @param[out] iterations Their number.
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
#[c_call(out(iterations), get(optimizer))]
pub fn umbo_optimizer_iterations(optimizer: *const umbo_optimizer, iterations: *mut i64) {
    iterations.write(optimizer.iterations() as i64);
}

/// Copies what an optimizer keeps for a variable. Where several ranks train together each keeps a part of
/// it, and the copy is put together of all parts: all ranks make this call, outside of runs.
///
/// @param[in] name The name of the state, such as "momentum". The function that made the optimizer
///   lists the names.
/// @param[out] state A new tensor of the variable's dtype and shape. The caller releases it.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_NOT_FOUND: the update rule has no state of this name, or the optimizer has not
///   updated the variable yet.
/// - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure(); with several ranks also inside a
///   run, and if the ranks make different calls.
/// - UMBO_STATUS_UNAVAILABLE: the ranks cannot meet any more.
#[c_call(out(state), text(name), get(variable), get(optimizer))]
pub fn umbo_optimizer_state(
    optimizer: *const umbo_optimizer,
    variable: *const umbo_variable,
    name: *const c_char,
    state: *mut *mut umbo_tensor,
) {
    state.write(make(optimizer.state(&variable, name)?)?);
}
