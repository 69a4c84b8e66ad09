//! Memory of the module, which only grows.

use std::alloc::{self, Layout};
use std::arch::wasm32;
use std::io;
use std::ptr::NonNull;

use crate::memory::MemorySize;

/// The size of WebAssembly's pages.
pub const PAGE: usize = 64 << 10;

/// No pages are larger. Large blocks begin where they do elsewhere.
pub const LARGE_PAGE: usize = 2 << 20;

/// There is no such command.
pub const LARGE_PAGES_COMMAND: &str = "";

/// There are no large pages.
pub fn large_pages() -> Option<String> {
    None
}

/// The memory that addresses of 32 bits reach, and the part of it that the module does not have
/// yet. The runtime may give less.
pub fn size() -> io::Result<MemorySize> {
    let total = 4 << 30;
    let taken = wasm32::memory_size::<0>() as u64 * PAGE as u64;
    Ok(MemorySize {
        total,
        available: total - taken.min(total),
    })
}

/// A range of pages that only the program uses. It is freed when this is dropped.
pub struct Pages {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: this is an address range that only its owner uses. It is not bound to a thread.
unsafe impl Send for Pages {}

impl Pages {
    /// This many bytes, all zeros, from a multiple of `alignment` on; both are multiples of
    /// [`PAGE`]. None if there is no memory for them.
    pub fn zeroed(bytes: usize, alignment: usize) -> Option<Pages> {
        assert!(bytes.is_multiple_of(PAGE) && alignment.is_multiple_of(PAGE));
        let layout = Layout::from_size_align(bytes, alignment).ok()?;
        if bytes == 0 {
            return None;
        }
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { alloc::alloc_zeroed(layout) })?;
        Some(Pages { start, layout })
    }

    /// The first byte.
    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The number of bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.layout.size()
    }

    /// There are no large pages.
    pub fn prefer_large(&self) {}

    /// Memory is never given back to the runtime.
    pub fn offer_to_system(&self) {}
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the range was allocated by `zeroed` with this layout, and its owner, which alone
        // uses it, is done.
        unsafe { alloc::dealloc(self.start.as_ptr(), self.layout) };
    }
}
