//! Threads, as Windows knows them.

use std::ffi::c_void;
use std::os::windows::io::AsRawHandle;
use std::ptr;
use std::thread::JoinHandle;

use windows_sys::Win32::Foundation::{HANDLE, LocalFree};
use windows_sys::Win32::System::LibraryLoader::GetModuleHandleW;
use windows_sys::Win32::System::Threading::{
    GetCurrentThread, GetCurrentThreadId, GetThreadDescription, GetThreadId,
};

pub use crate::no_signals::BlockedSignals;

/// The system's id of the calling thread.
#[inline]
pub fn number() -> u32 {
    // SAFETY: the call has no preconditions.
    unsafe { GetCurrentThreadId() }
}

/// The system's name of the calling thread.
pub fn name() -> String {
    // SAFETY: the call only returns a number that stands for the calling thread.
    name_of(unsafe { GetCurrentThread() }).unwrap_or_default()
}

/// The name of a thread.
pub(super) fn name_of(thread: HANDLE) -> Option<String> {
    let mut name = ptr::null_mut();
    // SAFETY: there is memory for the address of the name, which ends with a zero, and which the
    // caller has to free.
    unsafe {
        if GetThreadDescription(thread, &mut name) < 0 || name.is_null() {
            return None;
        }
        let length = (0..).take_while(|&at| *name.add(at) != 0).count();
        let text = String::from_utf16_lossy(std::slice::from_raw_parts(name, length));
        LocalFree(name.cast());
        Some(text)
    }
}

/// Whether this is the calling thread. It uses no data of the thread, so that a thread that has all
/// but ended may ask, too.
pub fn is_current<T>(thread: &JoinHandle<T>) -> bool {
    // SAFETY: the handle is open as long as the thread can be waited for.
    unsafe { GetThreadId(thread.as_raw_handle()) == GetCurrentThreadId() }
}

/// The size in bytes of the stack of the process's first thread: what the header of the program
/// reserves.
pub fn stack_limit() -> Option<usize> {
    /// The place of the header's offset in a program.
    const HEADER: usize = 0x3c;
    /// The place of the size in the header of a program for 64 bits.
    const RESERVE: usize = 24 + 72;
    // SAFETY: the program is loaded as long as the process lives, and begins with its headers.
    unsafe {
        let program: *const c_void = GetModuleHandleW(ptr::null());
        if program.is_null() {
            return None;
        }
        let header = program.byte_add(HEADER).cast::<u32>().read_unaligned() as usize;
        let reserve = program.byte_add(header + RESERVE).cast::<usize>();
        Some(reserve.read_unaligned())
    }
}
