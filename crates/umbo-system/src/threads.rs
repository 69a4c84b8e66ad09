//! Threads of the process: their numbers, names, signals and stacks.

pub use crate::platform::threads::{BlockedSignals, is_current, name, number, stack_limit};
