//! Device names in every form that the field uses, and their canonical form.

use std::fmt;

use crate::device::{DeviceId, DeviceKind};
use crate::error::{Error, Result};

/// A full device name: `/job:localhost/replica:0/task:0/device:CPU:0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceName {
    /// The job, `localhost` unless a cluster says otherwise.
    pub job: String,
    /// The replica of the job.
    pub replica: u32,
    /// The task of the job.
    pub task: u32,
    /// The device in that task.
    pub device: DeviceId,
}

impl DeviceName {
    /// The name of a device of this process.
    pub fn local(device: DeviceId) -> DeviceName {
        DeviceName { job: "localhost".into(), replica: 0, task: 0, device }
    }

    /// Reads a name. Parts may be missing; they come from `defaults`. `CPU:1`, `cpu:1`, `/cpu:1`,
    /// `/device:CPU:1` and the full form mean the same; `CPU` and `CPU:*` mean index 0; the empty
    /// name is all defaults.
    pub fn parse(name: &str, defaults: &DeviceName) -> Result<DeviceName> {
        let mut parsed = defaults.clone();
        let wrong = |problem: String| Error::invalid("device", format!("'{name}': {problem}"));
        for part in name.split('/').filter(|part| !part.is_empty()) {
            let (attribute, rest) = part.split_once(':').unwrap_or((part, ""));
            let number = |text: &str| {
                text.parse::<u32>()
                    .ok()
                    .filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
                    .ok_or_else(|| wrong(format!("'{text}' is not an index (0, 1, 2, ...)")))
            };
            match attribute.to_ascii_lowercase().as_str() {
                "job" if !rest.is_empty() => parsed.job = rest.to_owned(),
                "job" => return Err(wrong("the job has no name".into())),
                "replica" => parsed.replica = number(rest)?,
                "task" => parsed.task = number(rest)?,
                device => {
                    let (kind, index) = match device {
                        "device" => rest.split_once(':').unwrap_or((rest, "")),
                        _ => (attribute, rest),
                    };
                    let kind = match kind.to_ascii_lowercase().as_str() {
                        "cpu" => DeviceKind::Cpu,
                        "gpu" => DeviceKind::Gpu,
                        _ => {
                            return Err(wrong(format!(
                                "unknown attribute '{part}'; expected job, replica, task, CPU or GPU, \
                                 as in 'CPU:0' or '/job:localhost/replica:0/task:0/device:CPU:0'"
                            )));
                        }
                    };
                    let index = if matches!(index, "" | "*") { 0 } else { number(index)? };
                    parsed.device = DeviceId { kind, index };
                }
            }
        }
        Ok(parsed)
    }

    /// Whether the name is of a device of this process.
    pub fn is_local(&self) -> bool {
        self.job == "localhost" && self.replica == 0 && self.task == 0
    }
}

impl Default for DeviceName {
    fn default() -> DeviceName {
        DeviceName::local(DeviceId::HOST)
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeviceName { job, replica, task, device } = self;
        write!(formatter, "/job:{job}/replica:{replica}/task:{task}/device:{device}")
    }
}
