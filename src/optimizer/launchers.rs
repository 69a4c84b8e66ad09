//! Which launcher works on which variables.

use crate::device::registry;
use crate::error::Result;
use crate::optimizer::host::Host;
use crate::optimizer::launcher::Launcher;
use crate::values::variable::Variable;

/// What works on the variables of a strategy, which are all in one place.
pub(super) fn launcher_of(variables: &[Variable]) -> Result<&'static dyn Launcher> {
    Ok(match variables.first().map(Variable::device) {
        Some(device) if !device.is_host_memory() => registry::gpu(device)?,
        _ => &Host,
    })
}
