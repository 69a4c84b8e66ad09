//! The device on which a benchmark of memory runs: host memory, or a GPU.

use serde_json::{Value, json};
use umbo_core::device::{DeviceId, DeviceKind, registry};
use umbo_core::error::{Error, Result};
use umbo_core::tensor::{DType, Shape, Tensor};

use super::memory::{Timed, whole};
use crate::failure::Failure;

// A continued line would lose its indentation.
pub const HELP: &str = "      --device NAME      where all of the memory is: CPU:0, or a GPU such \
                        as GPU:0, on which the probe is a
                         copy within it (default: CPU:0)
";

/// The device of this name, if it can be measured.
pub fn measured(name: &str) -> std::result::Result<DeviceId, Failure> {
    let device = registry::REGISTRY.resolve(name, "device").ok();
    let device =
        device.filter(|device| device.kind == DeviceKind::Gpu || *device == DeviceId::HOST);
    let device = device.ok_or_else(|| {
        let possible = possible(registry::REGISTRY.logical_count(DeviceKind::Gpu));
        Failure::wrong(format!(
            "--device: '{name}' is not possible here; give {possible}"
        ))
    })?;
    registry::backend(device)?;
    Ok(device)
}

/// The possible names with this number of GPUs.
fn possible(gpus: u32) -> String {
    match gpus {
        0 => "CPU:0, whose memory all CPUs share; there is no GPU".to_owned(),
        1 => "CPU:0, whose memory all CPUs share, or GPU:0".to_owned(),
        gpus => format!(
            "CPU:0, whose memory all CPUs share, or one of GPU:0 to GPU:{}",
            gpus - 1
        ),
    }
}

/// The GPU's model, if it is one that interprets kernels, as the driver of Umbo's tests does.
fn interpreter(device: DeviceId) -> Option<String> {
    let name = registry::backend(device).ok()?.model();
    name.starts_with("Fake CUDA device")
        .then(|| name.to_owned())
}

/// Whether times on the device are meaningful.
pub fn is_real(device: DeviceId) -> bool {
    interpreter(device).is_none()
}

/// A note to print beside the times.
pub fn note(device: DeviceId) -> Option<String> {
    let name = interpreter(device)?;
    Some(format!(
        "{device} is '{name}', which interprets kernels: these times are the interpreter's, and \
         say nothing of a GPU\n"
    ))
}

/// The labels that distinguish rows of a GPU from those of the host.
pub fn labels(device: DeviceId) -> Vec<(&'static str, Value)> {
    if device.is_host_memory() {
        return Vec::new();
    }
    vec![
        ("device", json!(device.to_string())),
        ("interpreted", json!(!is_real(device))),
    ]
}

/// The tensor on the device.
pub fn on(device: DeviceId, tensor: Tensor) -> Result<Tensor> {
    if device.is_host_memory() {
        Ok(tensor)
    } else {
        tensor.copied_to(device)
    }
}

/// Waits until the device has finished the work in its queue.
pub fn wait(device: DeviceId) -> Result<()> {
    registry::backend(device)?.synchronize()
}

/// A copy within a GPU that reads and writes `traffic` bytes in all. It measures the speed of the
/// GPU's memory.
pub fn copy_within(device: DeviceId, traffic: usize) -> Result<Timed<'static>> {
    let shape = Shape::new(&[traffic.div_ceil(2)])?;
    let from = Tensor::zeros(DType::UInt8, shape, device)?;
    let mut to = Tensor::zeros(DType::UInt8, shape, device)?;
    Ok(whole(move || {
        let mut target = to
            .get_mut()
            .ok_or_else(|| Error::Internal("a probe is shared".into()))?;
        target.copy_from(&from)?;
        wait(device)
    }))
}
