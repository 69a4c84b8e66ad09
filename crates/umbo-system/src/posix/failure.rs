//! The only table from `errno` in the library.

use crate::failure::Failure;

pub fn of_code(code: i32) -> Failure {
    match code {
        libc::ENOENT | libc::ENXIO | libc::ENODEV => Failure::NotFound,
        libc::EACCES | libc::EPERM | libc::EROFS => Failure::NotPermitted,
        libc::ENOMEM
        | libc::ENOSPC
        | libc::EDQUOT
        | libc::EFBIG
        | libc::EMFILE
        | libc::ENFILE
        | libc::EMLINK
        | libc::ENOBUFS
        | libc::ENOLCK => Failure::Exhausted,
        libc::ENOTDIR
        | libc::EISDIR
        | libc::ELOOP
        | libc::ENAMETOOLONG
        | libc::EILSEQ
        | libc::EINVAL => Failure::WrongPath,
        // EIO, EAGAIN, EBUSY, EINTR, ESTALE, ETIMEDOUT, and errors of networks.
        _ => Failure::Passing,
    }
}
