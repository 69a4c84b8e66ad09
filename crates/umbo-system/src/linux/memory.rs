//! Pages that are mapped, and the kernel's account of its memory.

use std::io;
use std::ptr::{self, NonNull};

use crate::memory::MemorySize;

/// A multiple of every size of ordinary pages that Linux has.
pub const PAGE: usize = 64 << 10;

/// The usual size of large pages.
pub const LARGE_PAGE: usize = 2 << 20;

/// A range of pages that only this process uses. They are unmapped when this is dropped.
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
        let reserved = bytes.checked_add(alignment)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at a place of the system's choice touches nothing that exists.
        let first = unsafe { libc::mmap(ptr::null_mut(), reserved, protection, flags, -1, 0) };
        if first == libc::MAP_FAILED {
            return None;
        }
        let first = first.cast::<u8>();
        let ahead = first.addr().wrapping_neg() % alignment;
        let start = first.wrapping_add(ahead);
        for (part, length) in [
            (first, ahead),
            (start.wrapping_add(bytes), alignment - ahead),
        ] {
            if length > 0 {
                // SAFETY: these are whole pages of the new mapping, outside of the part that is
                // kept. If the system refuses, the only loss is address space.
                unsafe { libc::munmap(part.cast(), length) };
            }
        }
        NonNull::new(start).map(|start| Pages { start, bytes })
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

    /// Advises the system to use large pages.
    pub fn prefer_large(&self) {
        // SAFETY: the range is this mapping's. The call is only advice: without it the memory works
        // in the same way, on small pages.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, libc::MADV_HUGEPAGE) };
    }

    /// Allows the system to take pages away if it needs them, until they are next written to. Those
    /// that it takes read as zeros.
    pub fn offer_to_system(&self) {
        // SAFETY: the range is this mapping's, which nothing but its owner reads. The call is only
        // advice.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, libc::MADV_FREE) };
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `zeroed`, and its owner, which alone uses it, is done.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// The command by which root gives large pages to memory that asks for them.
pub const LARGE_PAGES_COMMAND: &str = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";

/// The memory that gets large pages, in the system's words: `always`, who asks by `madvise`, or
/// `never` anybody. None if the system has none.
pub fn large_pages() -> Option<String> {
    choice(&std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?)
}

/// Parses a list of choices with the current one in brackets.
fn choice(setting: &str) -> Option<String> {
    let (choice, _) = setting.split_once('[')?.1.split_once(']')?;
    Some(choice.to_owned())
}

/// The host's memory as the kernel counts it. Limits of a container are not part of it. Reads one
/// small file.
pub fn size() -> io::Result<MemorySize> {
    const PATH: &str = "/proc/meminfo";
    let text = std::fs::read_to_string(PATH).map_err(|cause| {
        let problem = format!("cannot read {PATH}: {cause}");
        io::Error::new(cause.kind(), problem)
    })?;
    parse(&text).ok_or_else(|| {
        let problem = format!("{PATH} has no MemTotal or no MemAvailable in kB");
        io::Error::new(io::ErrorKind::InvalidData, problem)
    })
}

fn parse(meminfo: &str) -> Option<MemorySize> {
    let bytes_of = |field: &str| {
        let line = meminfo
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
        line.trim()
            .strip_suffix("kB")?
            .trim()
            .parse::<u64>()
            .ok()?
            .checked_mul(1024)
    };
    Some(MemorySize {
        total: bytes_of("MemTotal")?,
        available: bytes_of("MemAvailable")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_in_kibibytes() {
        let text = "MemTotal:       32768 kB\nMemFree:  1 kB\nMemAvailable:   1024 kB\n";
        let expected = MemorySize {
            total: 32768 * 1024,
            available: 1024 * 1024,
        };
        assert_eq!(parse(text), Some(expected));
    }

    #[test]
    fn the_choice_is_the_one_in_brackets() {
        assert_eq!(
            choice("always [madvise] never\n"),
            Some("madvise".to_owned())
        );
        assert_eq!(choice("always madvise never\n"), None);
    }

    #[test]
    fn a_missing_or_damaged_field_is_not_guessed() {
        assert_eq!(parse("MemTotal: 1 kB\n"), None);
        assert_eq!(parse("MemTotal: 1 kB\nMemAvailable: some kB\n"), None);
        assert_eq!(
            parse("MemTotal: 99999999999999999 kB\nMemAvailable: 1 kB\n"),
            None
        );
        assert_eq!(parse("MemTotalBytes: 1 kB\nMemAvailable: 1 kB\n"), None);
    }
}
