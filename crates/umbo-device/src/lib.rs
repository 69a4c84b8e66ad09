//! Devices: their names, their number, and the memory and threads of each.
#![expect(
    unsafe_code,
    reason = "system calls, the CUDA driver, and work that is lent to other threads"
)]

#[macro_use]
extern crate umbo_base;

pub mod backend;
pub mod cpu;
#[cfg_attr(
    not(all(feature = "cuda", not(target_family = "wasm"))),
    path = "cuda/absent.rs"
)]
pub mod cuda;
pub mod kinds;
mod logical_gpus;
pub mod memory;
pub mod name;
pub mod page_lock;
pub mod registry;

use std::fmt;

/// The names of the optional parts that this crate was built with.
pub const FEATURES: &[&str] = &[
    #[cfg(all(feature = "cuda", not(target_family = "wasm")))]
    "cuda",
];

/// The kinds of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeviceKind {
    /// A share of the host's processors, with host memory.
    Cpu,
    /// A CUDA device or a share of one.
    Gpu,
    /// A kind that the program has added, see [`kinds`].
    Added(kinds::KindNumber),
}

impl DeviceKind {
    /// The number of the kind in interfaces without enums: 1 for CPUs, 2 for GPUs, and from 3 on
    /// those of added kinds.
    pub fn number(self) -> i32 {
        match self {
            DeviceKind::Cpu => 1,
            DeviceKind::Gpu => 2,
            DeviceKind::Added(number) => 3 + number.position() as i32,
        }
    }

    /// The kind in the names of devices: `CPU`, `GPU`, or the name of an added kind.
    pub fn name(self) -> &'static str {
        match self {
            DeviceKind::Cpu => "CPU",
            DeviceKind::Gpu => "GPU",
            DeviceKind::Added(number) => kinds::added(number).name(),
        }
    }

    /// The number of the kind among the device types of DLPack, if it has one.
    pub fn dlpack_type(self) -> Option<u32> {
        match self {
            DeviceKind::Cpu => Some(DLPACK_CPU),
            DeviceKind::Gpu => Some(DLPACK_CUDA),
            DeviceKind::Added(number) => kinds::added(number).dlpack_type(),
        }
    }

    /// All kinds of this process: CPUs, GPUs, and those that the program has added, in their order.
    pub fn all() -> impl Iterator<Item = DeviceKind> {
        [DeviceKind::Cpu, DeviceKind::Gpu]
            .into_iter()
            .chain(kinds::all())
    }
}

/// `kDLCPU` and `kDLCUDA` of DLPack.
const DLPACK_CPU: u32 = 1;
const DLPACK_CUDA: u32 = 2;

/// Whether there can be devices besides the processors.
pub const HAS_OTHERS: bool = cfg!(feature = "cuda");

/// A logical device of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId {
    /// Its kind.
    pub kind: DeviceKind,
    /// Its index among the logical devices of its kind.
    pub index: u32,
}

impl DeviceId {
    /// `CPU:0`, the device of the host's memory.
    pub const HOST: DeviceId = DeviceId {
        kind: DeviceKind::Cpu,
        index: 0,
    };

    /// The logical CPU with this number.
    pub const fn cpu(index: u32) -> DeviceId {
        DeviceId {
            kind: DeviceKind::Cpu,
            index,
        }
    }

    /// Whether the CPU can address this device's memory. All other memory is reached through a
    /// [`Backend`](backend::Backend) only.
    #[inline]
    pub fn is_host_memory(self) -> bool {
        // In a library without other devices the compiler leaves out what serves them.
        !HAS_OTHERS || self.kind == DeviceKind::Cpu
    }
}

/// The memory that a device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// All of the device's memory.
    pub total_bytes: u64,
    /// The memory that could be allocated now, if nobody else allocates.
    pub available_bytes: u64,
}

/// Shows the short name, such as `CPU:0`.
impl fmt::Display for DeviceId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.kind.name(), self.index)
    }
}
