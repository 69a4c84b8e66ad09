//! The host as a device: its memory. The executor has its processors.

pub mod memory;
