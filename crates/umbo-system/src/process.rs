//! The process: its end, and its children.

pub use crate::platform::process::{at_exit, in_forked_child};
