//! What the environment asks for.

use std::env;

use crate::faults::Faults;

/// The settings of one process, read when the driver is first called.
pub struct Settings {
    /// `FAKE_CUDA_DEVICES`: how many devices there are; 1 if it is not set.
    pub devices: usize,
    /// `FAKE_CUDA_MEMORY`: bytes of each device, separated by commas; the last one holds for the
    /// devices that follow. 1 GiB if it is not set.
    pub memory: Vec<u64>,
    /// `FAKE_CUDA_LOCKABLE`: how many bytes of the program's memory can be registered at a time;
    /// any number if it is not set.
    pub lockable: u64,
    /// `FAKE_CUDA_CAPABILITY`: the compute capability, such as `9.0`.
    pub capability: (i32, i32),
    /// `FAKE_CUDA_ABORT=1`: the process is aborted at the first mistake that is found.
    pub abort: bool,
    /// `FAKE_CUDA_QUIET=1`: mistakes are not printed, only counted.
    pub quiet: bool,
    /// `FAKE_CUDA_FAULT`: which calls fail, from the start on, as `faults` has them.
    pub faults: Faults,
}

fn number(name: &str, default: u64) -> u64 {
    match env::var(name) {
        Err(_) => default,
        Ok(text) => parse(name, &text),
    }
}

/// A setting that cannot be read ends the process: a test would otherwise check less than it says.
fn parse(name: &str, text: &str) -> u64 {
    text.trim().parse().unwrap_or_else(|_| {
        eprintln!("fake-cuda: {name}={text} is not a number");
        std::process::abort()
    })
}

impl Settings {
    pub fn from_environment() -> Settings {
        let memory = env::var("FAKE_CUDA_MEMORY").unwrap_or_else(|_| (1u64 << 30).to_string());
        let capability = env::var("FAKE_CUDA_CAPABILITY").unwrap_or_else(|_| "9.0".into());
        let mut faults = Faults::default();
        let text = env::var("FAKE_CUDA_FAULT").unwrap_or_default();
        if faults.set(&text).is_none() {
            eprintln!("fake-cuda: FAKE_CUDA_FAULT={text} is not FUNCTION:NUMBER:CODE,...");
            std::process::abort()
        }
        let (major, minor) = capability.split_once('.').unwrap_or((&capability, "0"));
        Settings {
            devices: number("FAKE_CUDA_DEVICES", 1) as usize,
            memory: memory
                .split(',')
                .map(|text| parse("FAKE_CUDA_MEMORY", text))
                .collect(),
            lockable: number("FAKE_CUDA_LOCKABLE", u64::MAX),
            capability: (
                parse("FAKE_CUDA_CAPABILITY", major) as i32,
                parse("FAKE_CUDA_CAPABILITY", minor) as i32,
            ),
            abort: number("FAKE_CUDA_ABORT", 0) != 0,
            quiet: number("FAKE_CUDA_QUIET", 0) != 0,
            faults,
        }
    }

    /// The memory of one device in bytes.
    pub fn memory_of(&self, device: usize) -> u64 {
        self.memory[device.min(self.memory.len() - 1)]
    }
}
