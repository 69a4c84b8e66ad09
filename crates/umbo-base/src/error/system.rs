//! Errors of the system as canonical statuses: the only table from `errno` in the library.

use std::fmt::Display;
use std::io;

use crate::error::{Error, Status};

impl Error {
    /// The error for an operation that the system has refused. `what` names the file and the
    /// operation.
    ///
    /// If the path itself is wrong, it is INVALID_ARGUMENT for `path`. It is never DATA_LOSS: if
    /// the system did not return a file's bytes, nothing is known about them.
    pub fn of_system(what: impl Display, cause: &io::Error) -> Error {
        let message = format!("{what}: {cause}");
        match status_of(cause) {
            Status::NotFound => Error::NotFound(message),
            Status::PermissionDenied => Error::PermissionDenied(message),
            Status::ResourceExhausted => Error::ResourceExhausted(message),
            Status::InvalidArgument => Error::invalid("path", message),
            _ => Error::Unavailable(message),
        }
    }
}

fn status_of(cause: &io::Error) -> Status {
    let Some(code) = cause.raw_os_error() else {
        // The standard library itself has made the error.
        return match cause.kind() {
            io::ErrorKind::OutOfMemory => Status::ResourceExhausted,
            _ => Status::Unavailable,
        };
    };
    match code {
        libc::ENOENT | libc::ENXIO | libc::ENODEV => Status::NotFound,
        libc::EACCES | libc::EPERM | libc::EROFS => Status::PermissionDenied,
        libc::ENOMEM
        | libc::ENOSPC
        | libc::EDQUOT
        | libc::EFBIG
        | libc::EMFILE
        | libc::ENFILE
        | libc::EMLINK
        | libc::ENOBUFS
        | libc::ENOLCK => Status::ResourceExhausted,
        // The path leads through a file or in a circle, or is not a valid path.
        libc::ENOTDIR
        | libc::EISDIR
        | libc::ELOOP
        | libc::ENAMETOOLONG
        | libc::EILSEQ
        | libc::EINVAL => Status::InvalidArgument,
        // These errors may pass: EIO, EAGAIN, EBUSY, EINTR, ESTALE, ETIMEDOUT, and errors of
        // networks.
        _ => Status::Unavailable,
    }
}
