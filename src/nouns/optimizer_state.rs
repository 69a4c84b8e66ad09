//! Setting what an optimizer carries from apply to apply.

use crate::machinery::prelude::*;
use umbo_core::optimizer::rules::VariableProgress;

/// How often an optimizer has updated a variable, and the numbers that its rule carries from one
/// update to the next.
#[c_struct]
pub struct umbo_variable_progress {
    /// How often it was updated. With 0 there is no state that could be read.
    pub update_count: i64,
    /// Rules that correct their moments: the power of beta1, of NAdam the product of its momenta.
    /// Custom rules, Adafactor, and Adagrad with `learning_rate_decay`: the number of updates.
    /// Momentum with dampening: 1 once it was updated. Other rules: 0.
    pub first_running: f64,
    /// Rules that correct their moments: the power of beta2. Other rules: 0.
    pub second_running: f64,
}

/// Sets a state that an optimizer keeps for a variable, as if an update had left it.
///
/// @param[in] state Copied; of the variable's dtype and shape, or of the shape of Adafactor's
///   states.
/// @return UMBO_OK, or UMBO_STATUS_NOT_FOUND: the rule has no such state.
///   UMBO_STATUS_FAILED_PRECONDITION: inside a run.
///
/// A variable that was not updated yet counts as updated once: see
/// umbo_optimizer_set_variable_progress().
#[c_call(text(name), get(variable), get(state), get(optimizer))]
pub fn umbo_optimizer_assign_state(
    optimizer: *mut umbo_optimizer,
    variable: *const umbo_variable,
    name: *const c_char,
    state: *const umbo_tensor,
) {
    optimizer.set_state(&variable, name, &state)
}

/// Gets how often an optimizer has updated a variable, and what its rule carries along.
#[c_call(result(progress), get(variable), get(optimizer))]
pub fn umbo_optimizer_variable_progress(
    optimizer: *const umbo_optimizer,
    variable: *const umbo_variable,
    progress: *mut umbo_variable_progress,
) {
    let found = optimizer.variable_progress(&variable)?;
    progress.write(umbo_variable_progress {
        struct_size: struct_size::<umbo_variable_progress>(),
        update_count: found.updates as i64,
        first_running: found.running[0],
        second_running: found.running[1],
    });
}

/// Sets how often an optimizer has updated a variable, and what its rule carries along.
///
/// @param[in] progress Numbers of 0 or more, and at most 2^52 updates.
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: inside a run.
#[c_call(structure(progress), get(variable))]
pub fn umbo_optimizer_set_variable_progress(
    optimizer: *mut umbo_optimizer,
    variable: *const umbo_variable,
    progress: *const umbo_variable_progress,
) {
    let running = [progress.first_running, progress.second_running];
    let updates = natural(progress.update_count, "progress.update_count")?;
    let progress = VariableProgress { updates, running };
    get(optimizer, "optimizer")?.set_variable_progress(&variable, progress)
}

/// Sets how many applies have taken effect: the `step` of a schedule.
///
/// @param[in] iterations 0 to 2^52.
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: inside a run.
#[c_call(natural(iterations), get(optimizer))]
pub fn umbo_optimizer_set_iterations(optimizer: *mut umbo_optimizer, iterations: i64) {
    optimizer.set_iterations(iterations)
}

/// Sets the loss scale from the next run on.
///
/// @param[in] loss_scale More than 0, and finite as a float32.
/// @param[in] applies How many applies in a row took effect with it; 0 to 2^52.
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: inside a run.
#[c_call(natural(applies), get(optimizer))]
pub fn umbo_optimizer_set_loss_scale(
    optimizer: *mut umbo_optimizer,
    loss_scale: f64,
    applies: i64,
) {
    optimizer.set_loss_scale(loss_scale, applies)
}
