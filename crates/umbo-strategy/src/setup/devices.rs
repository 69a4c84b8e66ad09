//! The devices of a strategy: where its replicas compute, and where its variables are.

use super::layout::ReplicaLayout;
use umbo_base::error::Result;
use umbo_device::cuda::gpu::Gpu;
use umbo_device::registry::{self, DeviceHold};
use umbo_device::{DeviceId, DeviceKind};

pub(crate) struct Devices {
    pub layout: ReplicaLayout,
    /// The GPU of each replica that has one.
    pub gpus: Vec<Option<&'static Gpu>>,
    /// The name of the device of each replica.
    pub names: Vec<String>,
    /// The device that holds the variables.
    pub parameter: DeviceId,
    _hold: DeviceHold,
}

fn gpu_of(device: DeviceId) -> Result<Option<&'static Gpu>> {
    match device.kind {
        DeviceKind::Cpu => Ok(None),
        DeviceKind::Gpu => registry::gpu(device).map(Some),
    }
}

impl Devices {
    /// Opens the devices of all replicas and of the variables, and keeps them open.
    pub fn open(layout: ReplicaLayout, parameter: DeviceId) -> Result<Devices> {
        let mut held = layout.compute_devices.clone();
        held.push(parameter);
        let hold = registry::REGISTRY.hold(&held)?;
        let of_replicas = &layout.replica_devices;
        let gpus = of_replicas
            .iter()
            .map(|&device| gpu_of(device))
            .collect::<Result<_>>()?;
        gpu_of(parameter)?;
        let names = of_replicas
            .iter()
            .map(|device| device.canonical_name())
            .collect();
        Ok(Devices {
            layout,
            gpus,
            names,
            parameter,
            _hold: hold,
        })
    }

    /// The GPU that holds the variables, if one does.
    pub fn parameter_gpu(&self) -> Result<Option<&'static Gpu>> {
        gpu_of(self.parameter)
    }
}
