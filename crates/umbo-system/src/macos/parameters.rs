//! Parameters of the kernel, by their names.

use std::ffi::{CStr, c_void};
use std::{io, ptr};

/// Fills `to` with the value of a parameter. Returns its length in bytes.
fn read(name: &CStr, to: &mut [u8]) -> io::Result<usize> {
    let mut length = to.len();
    let place = to.as_mut_ptr().cast::<c_void>();
    // SAFETY: the name ends with a zero byte, there is memory for as many bytes as the call is
    // told, and for their number; nothing is set.
    match unsafe { libc::sysctlbyname(name.as_ptr(), place, &mut length, ptr::null_mut(), 0) } {
        0 => Ok(length),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A number, of 32 or 64 bits.
pub fn number(name: &CStr) -> io::Result<u64> {
    let mut bytes = [0; 8];
    // What the kernel does not fill stays zero: all processors of macOS have the lowest byte first.
    read(name, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// A text.
pub fn text(name: &CStr) -> io::Result<String> {
    let mut bytes = [0; 256];
    let length = read(name, &mut bytes)?;
    let text = bytes[..length]
        .split(|&byte| byte == 0)
        .next()
        .unwrap_or_default();
    Ok(String::from_utf8_lossy(text).trim().to_owned())
}
