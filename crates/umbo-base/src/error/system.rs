//! Errors of the system, by cause.

use std::fmt::Display;
use std::io;

use umbo_system::failure::Failure;

use crate::error::{Error, Shortage};

impl Error {
    /// The error for an operation that the system has refused. `operation` names the file and the
    /// operation.
    ///
    /// If the path itself is wrong, it is INVALID_ARGUMENT for `path`. It is never DATA_LOSS: if
    /// the system did not return a file's bytes, nothing is known about them.
    pub fn of_system(operation: impl Display, cause: &io::Error) -> Error {
        let message = format!("{operation}: {cause}");
        match Failure::of(cause) {
            Failure::NotFound => Error::NotFound(message),
            Failure::NotPermitted => Error::PermissionDenied(message),
            Failure::Exhausted => {
                let operation = operation.to_string();
                let reason = cause.to_string();
                Error::ResourceExhausted(Shortage::Refused { operation, reason })
            }
            Failure::WrongPath => Error::invalid("path", message),
            Failure::Passing => Error::Unavailable(message),
        }
    }
}
