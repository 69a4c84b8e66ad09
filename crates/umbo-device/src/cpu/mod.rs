//! The host as a device.

mod backend;
pub mod memory;

pub use backend::Cpu;
