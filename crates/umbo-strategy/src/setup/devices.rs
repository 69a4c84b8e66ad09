//! The devices of a strategy: where its replicas compute, and where its variables are.

use super::layout::ReplicaLayout;
use umbo_base::error::Result;
use umbo_device::DeviceId;
use umbo_device::backend::Backend;
use umbo_device::registry::{self, DeviceHold};

pub(crate) struct Devices {
    pub layout: ReplicaLayout,
    /// The opened device of each replica.
    pub backends: Vec<&'static dyn Backend>,
    /// The name of the device of each replica.
    pub names: Vec<String>,
    /// The device that holds the variables.
    pub parameter: DeviceId,
    _hold: DeviceHold,
}

impl Devices {
    /// Opens the devices of all replicas and of the variables, and keeps them open.
    pub fn open(layout: ReplicaLayout, parameter: DeviceId) -> Result<Devices> {
        let mut held = layout.compute_devices.clone();
        held.push(parameter);
        let hold = registry::REGISTRY.hold(&held)?;
        let of_replicas = &layout.replica_devices;
        let backends = of_replicas
            .iter()
            .map(|&device| registry::backend(device))
            .collect::<Result<_>>()?;
        registry::backend(parameter)?;
        let names = of_replicas
            .iter()
            .map(|device| device.canonical_name())
            .collect();
        Ok(Devices {
            layout,
            backends,
            names,
            parameter,
            _hold: hold,
        })
    }

    /// Waits for everything that was queued on the devices.
    pub fn synchronize(&self) -> Result<()> {
        let parameter = registry::backend(self.parameter)?;
        let mut all = self.backends.iter().chain([&parameter]);
        all.try_for_each(|backend| backend.synchronize())
    }
}
