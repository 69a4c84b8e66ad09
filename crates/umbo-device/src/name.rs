//! Device names in every form that is in common use, and their canonical form.

use std::fmt;

use crate::{DeviceId, DeviceKind, kinds};
use umbo_base::error::{Error, Result};

/// A full device name: `/job:localhost/replica:0/task:0/device:CPU:0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceName {
    /// The job, which is `localhost` unless a cluster has another name for it.
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
        DeviceName {
            job: "localhost".into(),
            replica: 0,
            task: 0,
            device,
        }
    }

    /// Parses a name. Missing parts come from `defaults`. `CPU:1`, `cpu:1`, `/cpu:1`,
    /// `/device:CPU:1` and the full form mean the same. `CPU` and `CPU:*` mean index 0. The
    /// empty name means all defaults. Fails with INVALID_ARGUMENT, naming the part that is
    /// wrong. It does not check whether the device exists.
    pub fn parse(name: &str, defaults: &DeviceName) -> Result<DeviceName> {
        let mut job = None;
        let mut replica = None;
        let mut task = None;
        let mut device = None;
        for part in name.split('/').filter(|part| !part.is_empty()) {
            let part = Part { name, text: part };
            let (attribute, rest) = match part.text.split_once(':') {
                Some((attribute, rest)) => (attribute, Some(rest)),
                None => (part.text, None),
            };
            let given_before = match (attribute.to_ascii_lowercase().as_str(), rest) {
                ("job", Some(rest)) if !rest.is_empty() && !rest.contains(':') => {
                    job.replace(rest.to_owned()).is_some()
                }
                ("job", _) => {
                    return Err(part.wrong("names no job, as '/job:localhost' does"));
                }
                ("replica", rest) => replica.replace(part.number(rest.unwrap_or(""))?).is_some(),
                ("task", rest) => task.replace(part.number(rest.unwrap_or(""))?).is_some(),
                (other, rest) => {
                    let (kind, index) = match (other, rest) {
                        ("device", Some(rest)) => match rest.split_once(':') {
                            Some((kind, index)) => (kind, Some(index)),
                            None => (rest, None),
                        },
                        _ => (attribute, rest),
                    };
                    device.replace(part.device(kind, index)?).is_some()
                }
            };
            if given_before {
                return Err(part.wrong("says again what the name has said before"));
            }
        }
        Ok(DeviceName {
            job: job.unwrap_or_else(|| defaults.job.clone()),
            replica: replica.unwrap_or(defaults.replica),
            task: task.unwrap_or(defaults.task),
            device: device.unwrap_or(defaults.device),
        })
    }

    /// Whether the name belongs to a device of this process.
    pub fn is_local(&self) -> bool {
        self.job == "localhost" && self.replica == 0 && self.task == 0
    }
}

impl DeviceId {
    /// The canonical name, `/job:localhost/replica:0/task:0/device:CPU:0`.
    pub fn canonical_name(self) -> String {
        DeviceName::local(self).to_string()
    }
}

impl Default for DeviceName {
    fn default() -> DeviceName {
        DeviceName::local(DeviceId::HOST)
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeviceName {
            job,
            replica,
            task,
            device,
        } = self;
        write!(
            formatter,
            "/job:{job}/replica:{replica}/task:{task}/device:{device}"
        )
    }
}

/// A part of a device's name, between slashes.
struct Part<'a> {
    /// The whole name.
    name: &'a str,
    text: &'a str,
}

impl Part<'_> {
    /// The error for this part; `problem` follows its text.
    fn wrong(&self, problem: &str) -> Error {
        invalid!("device", "'{}': '{}' {problem}", self.name, self.text)
    }

    fn number(&self, text: &str) -> Result<u32> {
        text.parse::<u32>()
            .ok()
            .filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
            .ok_or_else(|| {
                invalid!(
                    "device",
                    "'{}': in '{}', '{text}' is not an index (0, 1, 2, ...)",
                    self.name,
                    self.text
                )
            })
    }

    /// The device of a kind and an index.
    fn device(&self, kind: &str, index: Option<&str>) -> Result<DeviceId> {
        let kind = match kind.to_ascii_lowercase().as_str() {
            "cpu" => DeviceKind::Cpu,
            "gpu" => DeviceKind::Gpu,
            "cuda" => {
                return Err(invalid!(
                    "device",
                    "'{}': unknown attribute '{}'; a CUDA device is called 'GPU:{}' here",
                    self.name,
                    self.text,
                    index.unwrap_or("0")
                ));
            }
            other => kinds::named(other).ok_or_else(|| {
                invalid!(
                    "device",
                    "'{}': unknown attribute '{}'; expected job, replica, task, CPU or GPU, as in \
                     'CPU:0' or '/job:localhost/replica:0/task:0/device:CPU:0'",
                    self.name,
                    self.text
                )
            })?,
        };
        let index = match index {
            None | Some("*") => 0,
            Some(index) => self.number(index)?,
        };
        Ok(DeviceId { kind, index })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use umbo_base::error::Status;

    const HOST: &str = "/job:localhost/replica:0/task:0/device:CPU:0";
    const SECOND: &str = "/job:localhost/replica:0/task:0/device:CPU:1";

    fn canonical(name: &str) -> String {
        DeviceName::parse(name, &DeviceName::default())
            .unwrap()
            .to_string()
    }

    #[track_caller]
    fn refused(name: &str, culprit: &str) {
        let error = DeviceName::parse(name, &DeviceName::default()).unwrap_err();
        assert_eq!(error.status(), Status::InvalidArgument, "{error}");
        let text = error.to_string();
        let problem = text
            .strip_prefix(&format!("device: '{name}': "))
            .unwrap_or_else(|| {
                panic!("'{text}' does not begin with the argument and the name '{name}'")
            });
        assert!(
            problem.contains(&format!("'{culprit}'")),
            "no '{culprit}' in: {problem}"
        );
    }

    #[test]
    fn other_names_of_gpus_are_known() {
        for (name, advice) in [
            ("cuda:1", "'GPU:1'"),
            ("CUDA", "'GPU:0'"),
            ("/device:cuda:2", "'GPU:2'"),
        ] {
            let error = DeviceName::parse(name, &DeviceName::default()).unwrap_err();
            assert_eq!(error.status(), Status::InvalidArgument);
            assert!(error.to_string().contains(advice), "{error}");
        }
    }

    #[test]
    fn every_form_means_the_same() {
        for name in [
            "CPU:1",
            "cpu:1",
            "/cpu:1",
            "/CPU:1",
            "/device:CPU:1",
            "/device:cpu:1",
            SECOND,
        ] {
            assert_eq!(canonical(name), SECOND, "{name}");
        }
        for name in [
            "device:CPU:1",
            "/task:0/cpu:1",
            "/cpu:1/job:localhost",
            "//cpu:1/",
            "CPU:01",
        ] {
            assert_eq!(canonical(name), SECOND, "{name}");
        }
        assert_eq!(
            canonical("gpu:12"),
            "/job:localhost/replica:0/task:0/device:GPU:12"
        );
        assert_eq!(
            canonical("CPU:4294967295").rsplit(':').next(),
            Some("4294967295")
        );
    }

    #[test]
    fn missing_parts_are_the_defaults() {
        for name in [
            "",
            "/",
            "CPU",
            "cpu",
            "CPU:*",
            "/cpu:*",
            "/device:CPU",
            "/device:CPU:*",
        ] {
            assert_eq!(canonical(name), HOST, "{name}");
        }
        let text = "/job:worker/replica:2/task:3/device:GPU:4";
        let defaults = DeviceName::parse(text, &DeviceName::default()).unwrap();
        let with_defaults = |name| DeviceName::parse(name, &defaults).unwrap().to_string();
        assert_eq!(with_defaults(""), text);
        assert_eq!(
            with_defaults("CPU:1"),
            "/job:worker/replica:2/task:3/device:CPU:1"
        );
        // A name with a kind and no index means the first of that kind.
        assert_eq!(
            with_defaults("CPU"),
            "/job:worker/replica:2/task:3/device:CPU:0"
        );
        assert_eq!(
            with_defaults("/job:ps"),
            "/job:ps/replica:2/task:3/device:GPU:4"
        );
        assert_eq!(with_defaults(SECOND), SECOND);
    }

    #[test]
    fn other_jobs_are_kept() {
        let name = DeviceName::parse("/job:worker/task:1/cpu:0", &DeviceName::default()).unwrap();
        assert_eq!(
            name.to_string(),
            "/job:worker/replica:0/task:1/device:CPU:0"
        );
        assert!(!name.is_local());
        for (name, local) in [("CPU:3", true), ("/task:1", false), ("/replica:1", false)] {
            let name = DeviceName::parse(name, &DeviceName::default()).unwrap();
            assert_eq!(name.is_local(), local, "{name}");
        }
    }

    #[test]
    fn unknown_attributes_are_named() {
        for name in [
            "foo",
            "/foo:0",
            "XPU:0",
            "/device:XPU:0",
            "device",
            "/device:0",
            " CPU:0",
        ] {
            refused(name, name.trim_start_matches('/'));
        }
        refused("/job:localhost/foo:0/cpu:1", "foo:0");
        refused("CPU:0,CPU:1", "0,CPU:1");
        refused("\u{130}PU:0", "\u{130}PU:0");
    }

    #[test]
    fn indices_are_plain_numbers() {
        for index in [
            "x",
            "-1",
            "+1",
            "",
            " 1",
            "1 ",
            "0x1",
            "1.0",
            "0:1",
            "4294967296",
            "**",
        ] {
            refused(&format!("CPU:{index}"), index);
            refused(&format!("/device:CPU:{index}"), index);
        }
        for index in ["x", "-1", "", "*"] {
            refused(&format!("/replica:{index}/cpu:0"), index);
            refused(&format!("/task:{index}/cpu:0"), index);
        }
        refused("/task/cpu:0", "task");
    }

    #[test]
    fn a_job_has_one_name() {
        for job in ["job", "job:", "job:a:b"] {
            refused(&format!("/{job}/cpu:0"), job);
        }
    }

    #[test]
    fn repeated_parts_of_names_are_refused() {
        refused("CPU:0/GPU:1", "GPU:1");
        refused("/device:CPU:0/CPU:0", "CPU:0");
        refused("/job:a/job:b", "job:b");
        refused("/task:0/task:0", "task:0");
        refused("/replica:0/replica:1", "replica:1");
    }

    #[test]
    fn canonical_names_read_back() {
        for device in [DeviceId::HOST, DeviceId::cpu(4095), DeviceId::cpu(u32::MAX)] {
            let name = DeviceName::local(device);
            assert_eq!(device.canonical_name(), name.to_string());
            let parsed = DeviceName::parse(&name.to_string(), &DeviceName::default()).unwrap();
            assert_eq!(parsed, name);
            assert_eq!(parsed.device, device);
        }
    }
}
