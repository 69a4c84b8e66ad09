//! Deep copies of variables.

use crate::ffi::boundary::c_call;
use crate::ffi::handle::make;
use crate::ffi::object::umbo_variable;
use crate::ffi::status::umbo_status;
use crate::strategy::variables;

/// Makes an independent variable with the value of another one.
///
/// @param[in] variable The variable.
/// @param[out] copy The new variable, of the same strategy and with the same name, aggregation,
///   synchronisation and trainable flag. It starts with the value that `variable` has now. The
///   caller releases it.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
/// - UMBO_STATUS_FAILED_PRECONDITION: the call comes from another strategy's scope or run.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is not enough memory.
#[c_call(out(copy), get(variable))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_copy(
    variable: *const umbo_variable,
    copy: *mut *mut umbo_variable,
) -> umbo_status {
    copy.write(make(variables::deep_copy(&variable)?)?);
}
