//! The host: its processors, its memory, and the threads that do central work.

pub mod affinity;
pub mod memory;
pub mod pieces;
pub mod workers;
