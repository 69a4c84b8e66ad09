//! Why the system has refused an operation.

use std::io;

use crate::platform;

/// A kind of refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The file, folder or device does not exist.
    NotFound,
    /// The process may not do it.
    NotPermitted,
    /// Memory, room on a disk, descriptors or locks are used up.
    Exhausted,
    /// The path leads through a file or in a circle, or is not a valid path.
    WrongPath,
    /// Anything else, which may pass: an interruption, a busy file, a network.
    Passing,
}

impl Failure {
    /// The kind of an error.
    pub fn of(error: &io::Error) -> Failure {
        match error.raw_os_error() {
            Some(code) => platform::failure::of_code(code),
            // The standard library itself has made the error.
            None if error.kind() == io::ErrorKind::OutOfMemory => Failure::Exhausted,
            None => Failure::Passing,
        }
    }
}
