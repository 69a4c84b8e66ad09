//! Setting what an optimizer carries from apply to apply.

use super::prelude::*;
use crate::optimizer::rule::VariableProgress;

/// How often an optimizer has updated a variable, and the numbers that its rule carries from one update
/// to the next. Start from UMBO_VARIABLE_PROGRESS_INIT.
#[c_struct]
#[repr(C)]
pub struct umbo_variable_progress {
    /// sizeof(umbo_variable_progress).
    pub struct_size: usize,
    /// How often it was updated.
    pub updates: i64,
    /// For Adam, AdamW and LAMB the power of beta1; for custom rules, and for Adagrad with a
    /// `learning_rate_decay`, the number of updates; for momentum with a dampening 1 once it was updated;
    /// otherwise 0.
    pub first_running: f64,
    /// For Adam, AdamW and LAMB the power of beta2; otherwise 0.
    pub second_running: f64,
}

/// Sets what an optimizer keeps for a variable, as if an update had left it.
///
/// @param[in] variable The variable, of the optimizer's strategy.
/// @param[in] name The name of the state, such as "momentum".
/// @param[in] state The elements, which are copied: of the variable's dtype and shape.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a variable of another strategy, or another dtype or shape.
/// - UMBO_STATUS_NOT_FOUND: the update rule has no state of this name.
/// - UMBO_STATUS_FAILED_PRECONDITION: inside a run, or as for umbo_optimizer_configure().
///
/// A variable that was not updated yet counts as updated once: umbo_optimizer_set_variable_progress()
/// says how often it was.
#[c_call(text(name), get(variable), get(state), get(optimizer))]
pub fn umbo_optimizer_set_state(
    optimizer: *mut umbo_optimizer,
    variable: *const umbo_variable,
    name: *const c_char,
    state: *const umbo_tensor,
) {
    optimizer.set_state(&variable, name, &state)
}

/// Tells how often an optimizer has updated a variable, and what its rule carries along.
///
/// @param[in] variable The variable, of the optimizer's strategy.
/// @param[out] progress Gets both. Start from UMBO_VARIABLE_PROGRESS_INIT, which sets its size.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a variable of another strategy.
/// - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
#[c_call(result(progress), get(variable), get(optimizer))]
pub fn umbo_optimizer_variable_progress(
    optimizer: *const umbo_optimizer,
    variable: *const umbo_variable,
    progress: *mut umbo_variable_progress,
) {
    let found = optimizer.variable_progress(&variable)?;
    progress.write(umbo_variable_progress {
        struct_size: size_of::<umbo_variable_progress>(),
        updates: found.updates as i64,
        first_running: found.running[0],
        second_running: found.running[1],
    });
}

/// Sets how often an optimizer has updated a variable, and what its rule carries along.
///
/// @param[in] variable The variable, of the optimizer's strategy.
/// @param[in] progress Both. With 0 updates the variable has no state that could be read.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a variable of another strategy, numbers below 0 or not finite, or more
///   than 2^52 updates.
/// - UMBO_STATUS_FAILED_PRECONDITION: inside a run, or as for umbo_optimizer_configure().
#[c_call(structure(progress), get(variable))]
pub fn umbo_optimizer_set_variable_progress(
    optimizer: *mut umbo_optimizer,
    variable: *const umbo_variable,
    progress: *const umbo_variable_progress,
) {
    let running = [progress.first_running, progress.second_running];
    let updates = natural(progress.updates, "progress.updates")?;
    let progress = VariableProgress { updates, running };
    get(optimizer, "optimizer")?.set_variable_progress(&variable, progress)
}

/// Sets how many applies have taken effect, which a schedule is asked with.
///
/// @param[in] iterations Their number; 0 to 2^52, from where they can be counted on and saved.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a number out of range.
/// - UMBO_STATUS_FAILED_PRECONDITION: inside a run, or as for umbo_optimizer_configure().
#[c_call(natural(iterations), get(optimizer))]
pub fn umbo_optimizer_set_iterations(optimizer: *mut umbo_optimizer, iterations: i64) {
    optimizer.set_iterations(iterations)
}

/// Sets the factor that callbacks multiply their loss by, from the next run on.
///
/// @param[in] loss_scale The factor; more than 0 and finite as a float32.
/// @param[in] applies How many applies in a row have taken effect with it, for a dynamic scale; 0 to
///   2^52.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a number out of range.
/// - UMBO_STATUS_FAILED_PRECONDITION: inside a run, or as for umbo_optimizer_configure().
#[c_call(natural(applies), get(optimizer))]
pub fn umbo_optimizer_set_loss_scale(
    optimizer: *mut umbo_optimizer,
    loss_scale: f64,
    applies: i64,
) {
    optimizer.set_loss_scale(loss_scale, applies)
}
