//! Updates that are not of one variable, and where variables lie.

use std::ffi::c_void;

use crate::ffi::boundary::{array, boundary, collect, out};
use crate::ffi::callback;
use crate::ffi::handle::{get, make};
use crate::ffi::object::{umbo_strategy, umbo_value, umbo_variable};
use crate::ffi::scope::{present, umbo_scope_fn};
use crate::ffi::status::umbo_status;
use crate::ffi::update::{umbo_update_fn, umbo_update_options, update};
use crate::strategy::Strategy;

/// As umbo_strategy_update(), for state that is kept where the variable is but is not the variable
/// itself, such as an optimizer's step count. `args` may be NULL. `options` may be NULL. `result` may
/// be NULL, which discards the result. FAILED_PRECONDITION in a replica's callback.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_update_non_slot(
    strategy: *mut umbo_strategy,
    colocate_with: *mut umbo_variable,
    function: umbo_update_fn,
    user_data: *mut c_void,
    args: *const umbo_value,
    options: *const umbo_update_options,
    result: *mut *mut umbo_value,
) -> umbo_status {
    let variable = (colocate_with.cast_const(), "colocate_with");
    let updater = Strategy::update_non_slot;
    // SAFETY: the caller keeps the header's promise on pointers.
    unsafe {
        update(
            "umbo_strategy_update_non_slot",
            strategy,
            variable,
            function,
            user_data,
            args,
            options,
            result,
            updater,
        )
    }
}

/// The variable beside which state of all of `variables` together is kept: the one whose name comes
/// first. A new handle. INVALID_ARGUMENT if there are none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_non_slot_devices(
    strategy: *const umbo_strategy,
    count: i64,
    variables: *const *mut umbo_variable,
    variable: *mut *mut umbo_variable,
) -> umbo_status {
    boundary("umbo_strategy_non_slot_devices", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (variable, variables) =
            unsafe { (out(variable, "variable")?, array(variables, count, "variables")?) };
        let variables = collect(variables.iter().map(|&variable| get(variable, "variables")))?;
        let strategy = get(strategy, "strategy")?;
        variable.write(make(strategy.non_slot_devices(&variables)?.clone())?);
        Ok(())
    })
}

/// Calls `function` once, on this thread; variables that it makes lie on the device of `variable`.
/// (All variables of a strategy lie on its parameter device, so they would do so anyway.) Returns
/// what `function` returned.
///
/// FAILED_PRECONDITION outside of the strategy's scope and its callbacks; INVALID_ARGUMENT for a
/// variable that was not made in this strategy's scope.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_colocate_vars_with(
    strategy: *mut umbo_strategy,
    variable: *const umbo_variable,
    function: umbo_scope_fn,
    user_data: *mut c_void,
) -> umbo_status {
    boundary("umbo_strategy_colocate_vars_with", || {
        let function = present(function, "function")?;
        let variable = get(variable, "variable")?;
        get(strategy, "strategy")?.colocate_vars_with(&variable, || {
            // SAFETY: the caller gives a function of this type and its user data.
            callback::run(|| unsafe { function(strategy, user_data) })
        })
    })
}
