//! What the environment asks for.

use std::env;
use std::path::PathBuf;

/// The settings of one process, read when the driver is first called.
pub struct Settings {
    /// `FAKE_CUDA_DEVICES`: how many devices there are; 1 if it is not set.
    pub devices: usize,
    /// `FAKE_CUDA_MEMORY`: bytes of each device, separated by commas; the last one holds for the
    /// devices that follow. 1 GiB if it is not set.
    pub memory: Vec<u64>,
    /// `FAKE_CUDA_SEED`: decides in what order work runs; 1 if it is not set.
    pub seed: u64,
    /// `FAKE_CUDA_CAPABILITY`: the compute capability, such as `9.0`.
    pub capability: (i32, i32),
    /// `FAKE_CUDA_PEER=0`: devices cannot reach each other's memory.
    pub peer: bool,
    /// `FAKE_CUDA_FAULT`: see `faults`.
    pub fault: Option<String>,
    /// `FAKE_CUDA_ABORT=1`: the process is aborted at the first mistake that is found.
    pub abort: bool,
    /// `FAKE_CUDA_IDLE`: after so many milliseconds without a call, waiting work goes on by
    /// itself, as it would on a device; 0 is never. 10 if it is not set.
    pub idle: u64,
    /// `FAKE_CUDA_BRANCHES`: how many branches a launch may take before it counts as endless.
    pub branches: u64,
    /// `FAKE_CUDA_MODULE`: files of PTX, with colons between them, that are loaded in place of every module
    /// with kernels of the same names, to see whether a program notices a change in them.
    pub modules: Vec<PathBuf>,
    /// `FAKE_CUDA_LAUNCHED`: a file to which the names of the kernels are added that run.
    pub launched: Option<PathBuf>,
    /// `FAKE_CUDA_ACCESSES`: a file in which the accesses of kernels are counted, as a number of 64 bits.
    pub accesses: Option<PathBuf>,
    /// `FAKE_CUDA_QUIET=1`: mistakes are not printed, only counted.
    pub quiet: bool,
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
        let (major, minor) = capability.split_once('.').unwrap_or((&capability, "0"));
        Settings {
            devices: number("FAKE_CUDA_DEVICES", 1) as usize,
            memory: memory.split(',').map(|text| parse("FAKE_CUDA_MEMORY", text)).collect(),
            seed: number("FAKE_CUDA_SEED", 1),
            capability: (
                parse("FAKE_CUDA_CAPABILITY", major) as i32,
                parse("FAKE_CUDA_CAPABILITY", minor) as i32,
            ),
            peer: number("FAKE_CUDA_PEER", 1) != 0,
            fault: env::var("FAKE_CUDA_FAULT").ok(),
            abort: number("FAKE_CUDA_ABORT", 0) != 0,
            idle: number("FAKE_CUDA_IDLE", 10),
            branches: number("FAKE_CUDA_BRANCHES", 4_000_000_000),
            modules: env::var_os("FAKE_CUDA_MODULE")
                .map(|paths| env::split_paths(&paths).collect())
                .unwrap_or_default(),
            launched: env::var_os("FAKE_CUDA_LAUNCHED").map(PathBuf::from),
            accesses: env::var_os("FAKE_CUDA_ACCESSES").map(PathBuf::from),
            quiet: number("FAKE_CUDA_QUIET", 0) != 0,
        }
    }

    /// The memory of one device in bytes.
    pub fn memory_of(&self, device: usize) -> u64 {
        self.memory[device.min(self.memory.len() - 1)]
    }
}
