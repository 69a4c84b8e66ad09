//! Devices: their names, their number, and the memory and threads of each.
#![allow(
    rustdoc::private_intra_doc_links,
    reason = "these pages are for those who change the core: they are made with private items"
)]
#![expect(
    unsafe_code,
    reason = "system calls, the CUDA driver, and work that is lent to other threads"
)]

#[macro_use]
extern crate umbo_base;

pub mod cpu;
pub mod cuda;
mod logical_gpus;
pub mod name;
pub mod registry;

use std::fmt;

/// The kinds of device. The numbers are those of the C constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i32)]
pub enum DeviceKind {
    /// A share of the host's processors, with host memory.
    Cpu = 1,
    /// A CUDA device or a share of one.
    Gpu = 2,
}

impl DeviceKind {
    /// `CPU` or `GPU`.
    pub fn name(self) -> &'static str {
        match self {
            DeviceKind::Cpu => "CPU",
            DeviceKind::Gpu => "GPU",
        }
    }
}

/// A logical device of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId {
    /// CPU or GPU.
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

    /// Whether the CPU can address this device's memory.
    pub fn is_host_memory(self) -> bool {
        self.kind == DeviceKind::Cpu
    }
}

/// How much memory a device has.
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
