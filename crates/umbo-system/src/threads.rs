//! Threads of the process: their numbers, names, signals and stacks.

/// Whether the system has threads besides the first.
pub const EXIST: bool = !cfg!(target_os = "wasi");

pub use crate::platform::threads::{BlockedSignals, is_current, name, number, stack_limit};
