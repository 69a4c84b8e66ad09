//! Deep copies of variables.

use crate::ffi::prelude::*;
use crate::strategy::variables;

/// Creates an independent variable of the same strategy, with the name, options and present value of another.
///
/// @return UMBO_STATUS_FAILED_PRECONDITION: the call comes from another strategy's scope or run.
#[c_call(out(copy), get(variable))]
pub fn umbo_variable_copy(variable: *const umbo_variable, copy: *mut *mut umbo_variable) {
    copy.write(make(variables::deep_copy(&variable)?)?);
}
