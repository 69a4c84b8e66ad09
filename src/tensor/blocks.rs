//! Large blocks of memory: mapped from the system, and kept for a while when they are free.
//!
//! A block that is fresh from the system costs a page fault, and the clearing of a page, wherever it
//! is first written: more than the sum that fills it. So a few free blocks are kept for the next that
//! wants as many bytes again. The system may take their pages away when memory is
//! short, and they are given back when it refuses a block and with the last strategy.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// From this size on memory comes from here. Miri knows only mappings that are unmapped as a whole, so
/// there it never does.
pub const LARGE: usize = if cfg!(miri) { usize::MAX } else { 1 << 20 };

/// From this size on, memory is worth large pages.
const HUGE_PAGE: usize = 2 << 20;

/// Sizes of mappings are multiples of this, which every page size of this system divides.
const PAGE: usize = 64 << 10;

/// Blocks begin so many bytes apart, counted from the beginning of their pages: lines at the same
/// places of blocks that are used together would else all have to share one set of the first cache.
const OFFSET: usize = 4096 + 5 * 64;

/// How many different beginnings there are.
const OFFSETS: usize = 16;

/// How many free blocks are kept at most.
const MOST_KEPT: usize = 16;

/// How many bytes they have together at most.
const MOST_KEPT_BYTES: usize = 256 << 20;

/// The free blocks, from the oldest to the newest.
static KEPT: Mutex<Vec<Mapping>> = Mutex::new(Vec::new());

/// A block that somebody owns. It is unmapped or kept when it is dropped.
pub struct Block(Option<Mapping>);

impl Block {
    /// At least `bytes` zeros; `None` if the system has no memory for them. Their pages are made
    /// when they are first used, which is cheaper than to clear a kept block.
    pub fn zeroed(bytes: usize) -> Option<Block> {
        or_once_more(|| Mapping::new(bytes)).map(|mapping| Block(Some(mapping)))
    }

    /// At least `bytes` bytes of whatever was in memory, of a kept block if there is one.
    pub fn uninitialized(bytes: usize) -> Option<Block> {
        // A lock that is taken is not waited for: a new block is as good.
        let kept = KEPT.try_lock().and_then(|mut kept| take(&mut kept, mapped_bytes(bytes)?));
        kept.map(|mapping| Block(Some(mapping))).or_else(|| Block::zeroed(bytes))
    }

    /// The first byte; null only for a block that is being dropped.
    pub fn data(&self) -> *mut u8 {
        self.0.as_ref().map_or(ptr::null_mut(), Mapping::data)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let Some(mapping) = self.0.take() else { return };
        if mapping.bytes > MOST_KEPT_BYTES {
            return;
        }
        mapping.offer_to_system();
        if let Some(mut kept) = KEPT.try_lock() {
            keep(&mut kept, mapping);
        }
    }
}

/// Gives all free blocks back to the system; whether there was any. Any thread may call this at any
/// time.
pub fn release_kept() -> bool {
    let Some(mut kept) = KEPT.try_lock() else { return false };
    let free = std::mem::take(&mut *kept);
    drop(kept);
    !free.is_empty()
}

/// Asks for memory, and once more if there was none and free blocks could be given back.
pub fn or_once_more<T>(ask: impl Fn() -> Option<T>) -> Option<T> {
    ask().or_else(|| if release_kept() { ask() } else { None })
}

/// How many blocks are kept, and how many bytes they have together.
pub fn kept() -> (usize, usize) {
    let kept = KEPT.lock();
    (kept.len(), bytes_of(&kept))
}

/// The newest block of this size, whose pages are the most likely to be there.
fn take(kept: &mut Vec<Mapping>, bytes: usize) -> Option<Mapping> {
    let place = kept.iter().rposition(|block| block.bytes == bytes)?;
    Some(kept.remove(place))
}

/// Adds a block. The oldest ones go until both bounds hold.
fn keep(kept: &mut Vec<Mapping>, block: Mapping) {
    if kept.try_reserve(MOST_KEPT + 1 - kept.len()).is_err() {
        return;
    }
    kept.push(block);
    while kept.len() > MOST_KEPT || bytes_of(kept) > MOST_KEPT_BYTES {
        kept.remove(0);
    }
}

fn bytes_of(kept: &[Mapping]) -> usize {
    kept.iter().map(|block| block.bytes).sum()
}

/// A range of pages that the process has to itself.
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    /// Where in it the block begins.
    offset: usize,
}

// SAFETY: a mapping is an address range that its owner alone uses; no thread is bound to it.
unsafe impl Send for Mapping {}

/// The size of the mapping for a block.
fn mapped_bytes(bytes: usize) -> Option<usize> {
    bytes.checked_add(OFFSET * (OFFSETS - 1))?.checked_next_multiple_of(PAGE)
}

impl Mapping {
    /// Zeros for a block of `bytes` bytes. From the size of a large page on the mapping begins at
    /// one, so that all of it can be one.
    fn new(bytes: usize) -> Option<Mapping> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let bytes = mapped_bytes(bytes)?;
        let alignment = if bytes >= HUGE_PAGE { HUGE_PAGE } else { PAGE };
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
        for (part, length) in [(first, ahead), (start.wrapping_add(bytes), alignment - ahead)] {
            if length > 0 {
                // SAFETY: whole pages of the new mapping, outside of what is kept of it. If the
                // system refuses, address space is lost and nothing else.
                unsafe { libc::munmap(part.cast(), length) };
            }
        }
        if bytes >= HUGE_PAGE {
            // Advice only: without it the memory works the same, on small pages.
            // SAFETY: the range is the new mapping's.
            unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) };
        }
        let offset = NEXT.fetch_add(1, Ordering::Relaxed) % OFFSETS * OFFSET;
        NonNull::new(start).map(|start| Mapping { start, bytes, offset })
    }

    /// The first byte of the block.
    fn data(&self) -> *mut u8 {
        self.start.as_ptr().wrapping_add(self.offset)
    }

    /// Lets the system take the pages away, should it need them: they would read as zeros then.
    fn offer_to_system(&self) {
        // Advice only.
        // SAFETY: nobody has any use for what the mapping holds.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, libc::MADV_FREE) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, and its owner, who alone knows it, is done.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 2 * PAGE;

    #[test]
    fn the_oldest_goes_first_and_the_newest_is_taken_first() {
        let mut all = Vec::new();
        let places: Vec<*mut u8> = (0..MOST_KEPT + 1)
            .map(|_| {
                let mapping = Mapping::new(SIZE).unwrap();
                assert_eq!(mapping.bytes, mapped_bytes(SIZE).unwrap());
                let place = mapping.start.as_ptr();
                keep(&mut all, mapping);
                place
            })
            .collect();
        let bytes = mapped_bytes(SIZE).unwrap();
        assert_eq!((all.len(), bytes_of(&all)), (MOST_KEPT, MOST_KEPT * bytes));
        for &place in places[1..].iter().rev() {
            assert_eq!(take(&mut all, bytes).unwrap().start.as_ptr(), place);
        }
        assert!(take(&mut all, bytes).is_none() && all.is_empty());
        assert!(Block::uninitialized(usize::MAX / 2).is_none());
        assert!(Block::zeroed(usize::MAX).is_none());
    }

    #[test]
    fn blocks_begin_at_different_places_and_end_within_their_mapping() {
        let all: Vec<Mapping> = (0..2 * OFFSETS).map(|_| Mapping::new(3 << 20).unwrap()).collect();
        let places: std::collections::HashSet<usize> =
            all.iter().map(|mapping| mapping.data().addr() % HUGE_PAGE).collect();
        // Other tests take some in between.
        assert!(places.len() > OFFSETS / 2);
        for mapping in &all {
            assert!(mapping.start.addr().get().is_multiple_of(HUGE_PAGE));
            assert!(mapping.data().addr().is_multiple_of(64));
            assert!(mapping.offset + (3 << 20) <= mapping.bytes);
        }
    }

    #[test]
    fn the_bytes_are_bounded() {
        let mut all = Vec::new();
        for _ in 0..4 {
            keep(&mut all, Mapping::new(MOST_KEPT_BYTES / 3).unwrap());
            assert!(bytes_of(&all) <= MOST_KEPT_BYTES);
        }
        assert_eq!(all.len(), 2);
    }
}
