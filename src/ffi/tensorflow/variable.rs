//! Deep copies of variables.

use crate::ffi::boundary::{boundary, out};
use crate::ffi::handle::{get, make};
use crate::ffi::object::umbo_variable;
use crate::ffi::status::umbo_status;
use crate::strategy::variables;

/// An independent variable of the same strategy, with the same name and modes and the value that
/// this one has now. FAILED_PRECONDITION in another strategy's scope or run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_copy(
    variable: *const umbo_variable,
    copy: *mut *mut umbo_variable,
) -> umbo_status {
    boundary("umbo_variable_copy", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let copy = unsafe { out(copy, "copy") }?;
        copy.write(make(variables::deep_copy(&get(variable, "variable")?)?)?);
        Ok(())
    })
}
