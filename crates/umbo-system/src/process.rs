//! The process: its end, and its children.

use std::process;

pub use crate::platform::process::{at_exit, id, in_forked_child};
use crate::platform::streams;

/// Writes what the program has printed so far, then the message to standard error, and ends the
/// process with failure, as the C function `exit` does.
pub fn fail_after_message(message: &str) -> ! {
    streams::flush_output();
    streams::write_error(message.as_bytes());
    process::exit(1)
}
