//! Which launcher works on the variables of an apply.

use crate::apply::host::CpuBackend;
use crate::apply::launcher::ApplyBackend;
use umbo_base::error::Result;
use umbo_device::registry;
use umbo_tensor::values::variable::Variable;

/// The launcher of a strategy's variables, which are all on one device.
pub(crate) fn launcher_of(variables: &[Variable]) -> Result<&'static dyn ApplyBackend> {
    Ok(match variables.first().map(Variable::device) {
        Some(device) if !device.is_host_memory() => registry::gpu(device)?,
        _ => &CpuBackend,
    })
}
