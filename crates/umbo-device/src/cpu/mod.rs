//! The host as a device.

mod backend;
pub mod memory;

pub use backend::Cpu;
pub(crate) use backend::DLPACK_TYPE;
