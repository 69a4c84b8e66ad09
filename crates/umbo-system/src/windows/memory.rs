//! Pages of the system's, and its account of them.

use std::ffi::c_void;
use std::io;
use std::ptr::{self, NonNull};

use windows_sys::Win32::Foundation::FALSE;
use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_RELEASE, MEM_RESERVE, MEM_RESET, PAGE_NOACCESS, PAGE_READWRITE, VirtualAlloc,
    VirtualFree,
};
use windows_sys::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};

use crate::memory::MemorySize;

/// The multiple at which the system begins ranges of pages.
pub const PAGE: usize = 64 << 10;

/// The usual size of large pages.
pub const LARGE_PAGE: usize = 2 << 20;

/// The number of times that another thread may take a range between two calls.
const ATTEMPTS: usize = 64;

/// A range of pages that only this process uses. They are given back when this is dropped.
pub struct Pages {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: this is an address range that only its owner uses. It is not bound to a thread.
unsafe impl Send for Pages {}

impl Pages {
    /// This many bytes, all zeros, from a multiple of `alignment` on; both are multiples of
    /// [`PAGE`]. None if the system has no memory for them. A page is made when it is first used.
    pub fn zeroed(bytes: usize, alignment: usize) -> Option<Pages> {
        assert!(bytes.is_multiple_of(PAGE) && alignment.is_multiple_of(PAGE));
        let room = bytes.checked_add(alignment)?;
        for _ in 0..ATTEMPTS {
            let at = match alignment {
                PAGE => ptr::null_mut(),
                _ => free_multiple(room, alignment)?,
            };
            // SAFETY: a new range, where the system has none, touches nothing that exists.
            let start =
                unsafe { VirtualAlloc(at, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE) };
            if let Some(start) = NonNull::new(start.cast()) {
                return Some(Pages { start, bytes });
            }
            // Another thread has taken the place, unless any would have done.
            if at.is_null() {
                return None;
            }
        }
        None
    }

    /// The first byte.
    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The number of bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The system gives large pages only to users with a right of their own, and keeps them in
    /// memory for good. They are not asked for.
    pub fn prefer_large(&self) {}

    /// Allows the system to take pages away if it needs them, until they are next written to. Those
    /// that it takes read as zeros.
    pub fn offer_to_system(&self) {
        let start = self.start.as_ptr().cast();
        // SAFETY: the range is this object's, and nothing but its owner reads it. The call is only
        // advice.
        unsafe { VirtualAlloc(start, self.bytes, MEM_RESET, PAGE_READWRITE) };
    }
}

/// A multiple of `alignment` with `room - alignment` free bytes of addresses, which another thread
/// may take before they are used.
fn free_multiple(room: usize, alignment: usize) -> Option<*mut c_void> {
    // SAFETY: addresses are reserved, where the system has none in use, and given back.
    let free = unsafe {
        let free = VirtualAlloc(ptr::null(), room, MEM_RESERVE, PAGE_NOACCESS);
        if free.is_null() {
            return None;
        }
        VirtualFree(free, 0, MEM_RELEASE);
        free
    };
    let ahead = free.addr().wrapping_neg() % alignment;
    Some(free.wrapping_byte_add(ahead))
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the range was made by `zeroed`, and its owner, which alone uses it, is done.
        unsafe { VirtualFree(self.start.as_ptr().cast(), 0, MEM_RELEASE) };
    }
}

/// There is no such command.
pub const LARGE_PAGES_COMMAND: &str = "";

/// The system has none that programs get without a right of their own.
pub fn large_pages() -> Option<String> {
    None
}

/// The host's memory as the system counts it. Limits of a job are not part of it.
pub fn size() -> io::Result<MemorySize> {
    let mut status = MEMORYSTATUSEX {
        dwLength: size_of::<MEMORYSTATUSEX>() as u32,
        ..MEMORYSTATUSEX::default()
    };
    // SAFETY: there is memory for the numbers, and it says how much.
    match unsafe { GlobalMemoryStatusEx(&mut status) } {
        FALSE => Err(io::Error::last_os_error()),
        _ => Ok(MemorySize {
            total: status.ullTotalPhys,
            available: status.ullAvailPhys.min(status.ullTotalPhys),
        }),
    }
}
