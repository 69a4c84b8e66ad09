//! Names of files: any bytes but zeros and, between folders, slashes.

use std::ffi::OsStr;
#[cfg(unix)]
use std::os::unix::ffi::OsStrExt;
#[cfg(target_os = "wasi")]
use std::os::wasi::ffi::OsStrExt;

/// The bytes of a name or a path.
#[inline]
pub fn bytes(name: &OsStr) -> &[u8] {
    name.as_bytes()
}

/// The name or path of these bytes. None if the system has no such names; POSIX has all, and WASI
/// refuses those that are not UTF-8 when they are used.
#[inline]
pub fn from_bytes(bytes: &[u8]) -> Option<&OsStr> {
    Some(OsStr::from_bytes(bytes))
}
