//! What the system refuses, as a canonical status: the one table from `errno` for the whole library.

use std::fmt::Display;
use std::io;

use crate::error::{Error, Status};

impl Error {
    /// What the system has refused. `what` names the file, and what was to be done with it.
    ///
    /// Where the path itself is at fault, that is INVALID_ARGUMENT for `path`. It is never DATA_LOSS: that the
    /// system did not give a file's bytes says nothing about them.
    pub(crate) fn of_system(what: impl Display, cause: &io::Error) -> Error {
        let message = format!("{what}: {cause}");
        match status_of(cause) {
            Status::NotFound => Error::NotFound(message),
            Status::PermissionDenied => Error::PermissionDenied(message),
            Status::ResourceExhausted => Error::ResourceExhausted(message),
            Status::InvalidArgument => Error::invalid("path", message),
            Status::FailedPrecondition => Error::FailedPrecondition(message),
            Status::Unimplemented => Error::Unimplemented(message),
            _ => Error::Unavailable(message),
        }
    }
}

fn status_of(cause: &io::Error) -> Status {
    let Some(code) = cause.raw_os_error() else {
        // One that the standard library has made.
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
        // The path leads through a file, round in a circle, or cannot be one.
        libc::ENOTDIR
        | libc::EISDIR
        | libc::ELOOP
        | libc::ENAMETOOLONG
        | libc::EILSEQ
        | libc::EINVAL => Status::InvalidArgument,
        libc::EEXIST | libc::ENOTEMPTY | libc::EBADF => Status::FailedPrecondition,
        libc::ENOSYS | libc::EOPNOTSUPP => Status::Unimplemented,
        // Perhaps later: EIO, EAGAIN, EBUSY, EINTR, ESTALE, ETIMEDOUT, and what networks answer.
        _ => Status::Unavailable,
    }
}
