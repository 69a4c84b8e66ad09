//! Which launcher works on the variables of an apply.

use std::ops::Deref;

use crate::apply::host::CpuBackend;
use crate::apply::launcher::ApplyBackend;
use crate::apply::on_device::DeviceBackend;
use umbo_base::error::Result;
use umbo_device::registry;
use umbo_tensor::values::variable::Variable;

/// The launcher of a strategy's variables.
#[derive(Clone, Copy)]
pub(crate) enum Launcher {
    /// They are in host memory.
    Host(CpuBackend),
    /// They are in memory that the host cannot address.
    Device(DeviceBackend),
}

impl Deref for Launcher {
    type Target = dyn ApplyBackend;

    fn deref(&self) -> &(dyn ApplyBackend + 'static) {
        match self {
            Launcher::Host(host) => host,
            Launcher::Device(device) => device,
        }
    }
}

/// The launcher of a strategy's variables, which are all on one device.
pub(crate) fn launcher_of(variables: &[Variable]) -> Result<Launcher> {
    Ok(match variables.first().map(Variable::device) {
        Some(device) if !device.is_host_memory() => {
            Launcher::Device(DeviceBackend(registry::backend(device)?))
        }
        _ => Launcher::Host(CpuBackend),
    })
}
