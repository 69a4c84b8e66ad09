//! The host: its processors and its memory.

pub mod affinity;
pub mod memory;
