//! The host as a device: its memory. Its processors are the executor's.

pub mod memory;
