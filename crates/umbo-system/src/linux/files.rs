//! Files, as the kernel knows them.

use std::ffi::c_int;
use std::fs::File;
use std::io;

pub use crate::posix::files::{
    FileIdentity, Folder, canonical, has_name, keep_attributes, limit_access, open, read_exact_at,
    too_many_links, without_waiting,
};

/// The flag that opens a folder as no more than a path.
pub const FOLDER_ONLY: c_int = libc::O_PATH;

/// Waits until the file is on the disk.
pub fn synchronise(file: &File) -> io::Result<()> {
    file.sync_all()
}
