//! The sizes of pages, and the kernel's account of its memory.

use std::ffi::c_int;
use std::io;

use super::mach;
use super::parameters;
use crate::memory::MemorySize;
pub use crate::posix::memory::Pages;

/// A multiple of the sizes of pages that macOS has: 16 KiB on Apple's own processors, else 4 KiB.
pub const PAGE: usize = 16 << 10;

/// The size of large pages on x86-64.
pub const LARGE_PAGE: usize = 2 << 20;

/// The system has no advice to use large pages.
pub const LARGE_PAGES_ADVICE: Option<c_int> = None;

/// There is no such command.
pub const LARGE_PAGES_COMMAND: &str = "";

/// The system has none that programs get by advice.
pub fn large_pages() -> Option<String> {
    None
}

/// The host's memory as the kernel counts it: pages that are free, or hold what is on a disk too or
/// was not used for a while, are available.
pub fn size() -> io::Result<MemorySize> {
    let total: u64 = parameters::number(c"hw.memsize")?;
    let counted: libc::vm_statistics64 = mach::statistics()?;
    // SAFETY: the call takes a number and changes nothing.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let pages = u64::from(counted.free_count) + u64::from(counted.inactive_count);
    Ok(MemorySize {
        total,
        available: (pages * u64::try_from(page).unwrap_or(0)).min(total),
    })
}
