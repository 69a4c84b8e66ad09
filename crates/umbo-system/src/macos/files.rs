//! Files, as the kernel knows them.

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

pub use crate::posix::files::{
    FileIdentity, Folder, canonical, has_name, keep_attributes, limit_access, open, read_exact_at,
    too_many_links, without_waiting,
};

/// The flag that opens nothing but folders. Reads and writes fail, since it is a folder.
pub const FOLDER_ONLY: c_int = libc::O_DIRECTORY;

/// Waits until the file is on the disk, and the disk has written what it keeps in its own memory
/// (`F_FULLFSYNC`). A file system that cannot ask the disk for that, such as one of a network, is
/// asked for what it can do.
pub fn synchronise(file: &File) -> io::Result<()> {
    const NOT_KNOWN: [c_int; 3] = [libc::ENOTSUP, libc::ENOTTY, libc::EINVAL];
    // The standard library asks for it in this way.
    let error = match file.sync_all() {
        Err(error)
            if error
                .raw_os_error()
                .is_some_and(|code| NOT_KNOWN.contains(&code)) =>
        {
            error
        }
        done => return done,
    };
    // SAFETY: the descriptor is that of an open file.
    match unsafe { libc::fsync(file.as_raw_fd()) } {
        0 => Ok(()),
        _ => Err(error),
    }
}
