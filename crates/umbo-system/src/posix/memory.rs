//! Pages that are mapped.

use std::ptr::{self, NonNull};

use crate::platform::memory::{LARGE_PAGES_ADVICE, PAGE};

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

    /// Advises the system to use large pages, where it takes such advice.
    pub fn prefer_large(&self) {
        let Some(advice) = LARGE_PAGES_ADVICE else {
            return;
        };
        // SAFETY: the range is this mapping's. The call is only advice: without it the memory works
        // in the same way, on small pages.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, advice) };
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
