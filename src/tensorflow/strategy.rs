//! The default strategy, a thread's strategy, and copies of strategies and variables.

use crate::machinery::prelude::*;
use umbo_core::strategy::context::set_strategy;
use umbo_core::strategy::variables;

/// Gets a new handle to the default strategy, with one replica on CPU:0.
///
/// It is current wherever no other strategy is, cannot be copied, and lives as long as the process.
#[c_call(part(tensorflow), out(strategy))]
pub fn umbo_strategy_default(strategy: *mut *mut umbo_strategy) {
    strategy.write(make(Strategy::default_strategy())?);
}

/// Makes a strategy current for this thread, which is then in cross-replica context wherever no
/// scope is open.
///
/// @param[in] strategy The thread keeps it. NULL: the default strategy again.
/// @return UMBO_STATUS_FAILED_PRECONDITION: this thread is inside a scope or a run.
#[c_call(part(tensorflow), get_optional(strategy))]
pub fn umbo_strategy_set_current(strategy: *mut umbo_strategy) {
    set_strategy(strategy)
}

/// Creates an independent strategy with the same devices. Variables stay with the first.
/// Collective.
///
/// @return UMBO_STATUS_FAILED_PRECONDITION: the default strategy, which cannot be copied.
#[c_call(part(tensorflow), out(copy), get(strategy))]
pub fn umbo_strategy_copy(strategy: *const umbo_strategy, copy: *mut *mut umbo_strategy) {
    copy.write(make(strategy.deep_copy()?)?);
}

/// Gets whether a variable was made in this strategy, not the default one: 1 or 0.
#[c_call(part(tensorflow), out(result), get(strategy), get(variable))]
pub fn umbo_strategy_created_variable(
    strategy: *const umbo_strategy,
    variable: *const umbo_variable,
    result: *mut i32,
) {
    result.write(i32::from(variables::created_in_scope(&strategy, &variable)));
}

/// Creates an independent variable of the same strategy, with the name, options and present value
/// of another.
///
/// @return UMBO_STATUS_FAILED_PRECONDITION: the call comes from another strategy's scope or run.
#[c_call(part(tensorflow), out(copy), get(variable))]
pub fn umbo_variable_copy(variable: *const umbo_variable, copy: *mut *mut umbo_variable) {
    copy.write(make(variables::deep_copy(&variable)?)?);
}
