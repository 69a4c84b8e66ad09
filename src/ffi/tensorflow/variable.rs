//! Deep copies of variables.

use crate::ffi::prelude::*;
use crate::strategy::variables;

/// Makes an independent variable with the value, and what else a variable has, of another one.
///
/// @param[out] copy A variable of the same strategy. The caller releases it.
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: the call comes from another strategy's
///   scope or run.
#[c_call(out(copy), get(variable))]
pub fn umbo_variable_copy(variable: *const umbo_variable, copy: *mut *mut umbo_variable) {
    copy.write(make(variables::deep_copy(&variable)?)?);
}
