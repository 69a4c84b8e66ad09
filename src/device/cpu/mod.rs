//! The host: its processors, its memory, and the threads that do central work.

pub mod affinity;
mod floating_point;
pub mod memory;
pub mod pieces;
pub mod workers;
