//! Names of files: any bytes but zeros and, between folders, slashes.

use std::ffi::OsStr;
use std::os::wasi::ffi::OsStrExt;

/// The bytes of a name or a path.
#[inline]
pub fn bytes(name: &OsStr) -> &[u8] {
    name.as_bytes()
}

/// The name or path of these bytes. The runtime refuses those that are not UTF-8.
#[inline]
pub fn from_bytes(bytes: &[u8]) -> Option<&OsStr> {
    Some(OsStr::from_bytes(bytes))
}
