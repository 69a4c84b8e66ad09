//! Standard error, which may be a console, a pipe or nothing.

use std::ptr;

use windows_sys::Win32::Foundation::{FALSE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::Storage::FileSystem::WriteFile;
use windows_sys::Win32::System::Console::{
    GetConsoleMode, GetStdHandle, STD_ERROR_HANDLE, WriteConsoleW,
};

/// Writes to standard error in one call, without a lock. If standard error is closed, or nobody
/// reads it any more, the bytes are lost, and the process continues.
pub fn write_error(bytes: &[u8]) {
    let mut mode = 0;
    let mut written = 0;
    // SAFETY: the bytes exist and are only read, as are those of the text, and there is memory for
    // the numbers. A handle that the program has closed is refused.
    unsafe {
        let stream = GetStdHandle(STD_ERROR_HANDLE);
        if stream.is_null() || stream == INVALID_HANDLE_VALUE {
            return;
        }
        // A console shows texts in its own encoding, unless they are given in Unicode.
        if GetConsoleMode(stream, &mut mode) != FALSE {
            let text: Vec<u16> = String::from_utf8_lossy(bytes).encode_utf16().collect();
            let length = text.len() as u32;
            WriteConsoleW(stream, text.as_ptr(), length, &mut written, ptr::null());
            return;
        }
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        WriteFile(
            stream,
            bytes.as_ptr(),
            length,
            &mut written,
            ptr::null_mut(),
        );
    }
}

/// Writes what the program has printed by C functions and the C library still has.
pub fn flush_output() {
    // SAFETY: null stands for all streams that are open for writing.
    unsafe { libc::fflush(ptr::null_mut()) };
}
