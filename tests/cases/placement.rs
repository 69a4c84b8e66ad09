//! Where the devices of cases are: on the CPU as they say, or on GPUs in their place.
//!
//! `UMBO_CASES_PLACEMENT=gpus` puts every compute device CPU:k on GPU:k, `mixed` every second one.
//! What cases are told of devices is translated back, so that they expect what they always do.
//! CPU:0 that is no compute device stays what it is: the host.

use std::sync::OnceLock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    Cpus,
    Gpus,
    Mixed,
}

impl Placement {
    /// What the environment says.
    pub fn chosen() -> Placement {
        static CHOSEN: OnceLock<Placement> = OnceLock::new();
        *CHOSEN.get_or_init(|| match std::env::var("UMBO_CASES_PLACEMENT").as_deref() {
            Ok("gpus") => Placement::Gpus,
            Ok("mixed") => Placement::Mixed,
            Ok("cpus") | Err(_) => Placement::Cpus,
            Ok(other) => panic!("UMBO_CASES_PLACEMENT={other}; cpus, gpus and mixed are known"),
        })
    }
}

/// The number of the CPU that a name means, in whatever form.
fn cpu_number(name: &str) -> Option<u32> {
    let at = name.to_ascii_uppercase().rfind("CPU:")?;
    name[at + 4..].parse().ok()
}

/// Where a device is that a case names as a compute device.
pub fn of_compute_device(name: &str) -> String {
    let moves = |number: u32| match Placement::chosen() {
        Placement::Cpus => false,
        Placement::Gpus => true,
        Placement::Mixed => number % 2 == 1,
    };
    match cpu_number(name) {
        Some(number) if moves(number) && number < super::DEVICES as u32 => format!("GPU:{number}"),
        _ => name.to_owned(),
    }
}

/// Where a device is that a case names for something else.
pub fn of_device(name: &str) -> String {
    match cpu_number(name) {
        Some(0) | None => name.to_owned(),
        Some(_) => of_compute_device(name),
    }
}

/// What a case calls a device that the library names.
pub fn as_said(name: &str) -> String {
    match Placement::chosen() {
        Placement::Cpus => name.to_owned(),
        Placement::Gpus | Placement::Mixed => name.replace("GPU:", "CPU:"),
    }
}
