//! Large blocks of memory. They are mapped from the system, and kept for a while when they are
//! free.
//!
//! A fresh block from the system costs a page fault and the clearing of a page wherever it is first
//! written. This is more than the cost of the sum that fills it. So a few free blocks are kept for
//! later requests of the same size. The system may take their pages away when memory is short. The
//! blocks are unmapped when the system refuses a new block, and with the last strategy.

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use umbo_system::memory::{LARGE_PAGE, PAGE, Pages};

/// From this size on, memory comes from this module. Miri supports only mappings that are unmapped
/// as a whole, so with Miri no memory comes from here.
pub const LARGE: usize = if cfg!(miri) { usize::MAX } else { 1 << 20 };

/// Successive blocks begin at different offsets in their pages, so many bytes apart. If all began
/// at the same offset, lines at the same places of blocks that are used together would share one
/// set of the first cache.
const OFFSET: usize = 4096 + 5 * 64;

/// The number of different offsets.
const OFFSETS: usize = 16;

/// The largest number of free blocks that are kept.
const MOST_KEPT: usize = 16;

/// The largest number of bytes that the kept blocks have together.
const MOST_KEPT_BYTES: usize = 256 << 20;

/// The free blocks, from the oldest to the newest.
static KEPT: Mutex<Vec<Mapping>> = Mutex::new(Vec::new());

/// A block with an owner. When it is dropped, it is unmapped or kept.
pub struct Block(Option<Mapping>);

impl Block {
    /// At least `bytes` zeros; `None` if the system has no memory for them. Their pages are made
    /// when they are first used, which is cheaper than clearing a kept block.
    pub fn zeroed(bytes: usize) -> Option<Block> {
        or_once_more(|| Mapping::new(bytes)).map(|mapping| Block(Some(mapping)))
    }

    /// At least `bytes` bytes with arbitrary contents, from a kept block if there is one.
    pub fn uninitialized(bytes: usize) -> Option<Block> {
        // A lock that is taken is not waited for, since a new block works as well.
        let kept = KEPT
            .try_lock()
            .and_then(|mut kept| take(&mut kept, mapped_bytes(bytes)?));
        kept.map(|mapping| Block(Some(mapping)))
            .or_else(|| Block::zeroed(bytes))
    }

    /// The first byte; null only for a block that is being dropped.
    pub fn data(&self) -> *mut u8 {
        self.0.as_ref().map_or(ptr::null_mut(), Mapping::data)
    }

    /// The first of its pages, on which nothing else lies, and how many bytes they have; null and 0
    /// only for a block that is being dropped.
    pub fn pages(&self) -> (*mut u8, usize) {
        self.0.as_ref().map_or((ptr::null_mut(), 0), |mapping| {
            (mapping.pages.start().as_ptr(), mapping.bytes())
        })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let Some(mapping) = self.0.take() else { return };
        if mapping.bytes() > MOST_KEPT_BYTES {
            return;
        }
        mapping.pages.offer_to_system();
        if let Some(mut kept) = KEPT.try_lock() {
            keep(&mut kept, mapping);
        }
    }
}

/// Unmaps all free blocks, and returns whether there was one. Any thread may call this at any time.
pub fn release_kept() -> bool {
    let Some(mut kept) = KEPT.try_lock() else {
        return false;
    };
    let free = std::mem::take(&mut *kept);
    drop(kept);
    !free.is_empty()
}

/// Calls `ask`, and calls it once more if it returned nothing and free blocks could be unmapped.
pub fn or_once_more<T>(ask: impl Fn() -> Option<T>) -> Option<T> {
    ask().or_else(|| if release_kept() { ask() } else { None })
}

/// The number of blocks that are kept, and how many bytes they have together.
pub fn kept() -> (usize, usize) {
    let kept = KEPT.lock();
    (kept.len(), bytes_of(&kept))
}

/// The newest block of this size. Its pages are the most likely to be still present.
fn take(kept: &mut Vec<Mapping>, bytes: usize) -> Option<Mapping> {
    let place = kept.iter().rposition(|block| block.bytes() == bytes)?;
    Some(kept.remove(place))
}

/// Adds a block. The oldest blocks are dropped until both limits hold.
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
    kept.iter().map(Mapping::bytes).sum()
}

/// The pages of a block.
struct Mapping {
    pages: Pages,
    /// The offset of the block in its pages.
    offset: usize,
}

/// The size of the mapping for a block of `bytes` bytes.
fn mapped_bytes(bytes: usize) -> Option<usize> {
    bytes
        .checked_add(OFFSET * (OFFSETS - 1))?
        .checked_next_multiple_of(PAGE)
}

impl Mapping {
    /// Zeros for a block of `bytes` bytes. From the size of a large page on, the mapping begins at
    /// a large page, so that large pages can cover all of it.
    fn new(bytes: usize) -> Option<Mapping> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let bytes = mapped_bytes(bytes)?;
        let is_large = bytes >= LARGE_PAGE;
        let pages = Pages::zeroed(bytes, if is_large { LARGE_PAGE } else { PAGE })?;
        if is_large {
            pages.prefer_large();
        }
        let offset = NEXT.fetch_add(1, Ordering::Relaxed) % OFFSETS * OFFSET;
        Some(Mapping { pages, offset })
    }

    /// The size of its pages together.
    fn bytes(&self) -> usize {
        self.pages.bytes()
    }

    /// The first byte of the block.
    fn data(&self) -> *mut u8 {
        self.pages.start().as_ptr().wrapping_add(self.offset)
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
                assert_eq!(mapping.bytes(), mapped_bytes(SIZE).unwrap());
                let place = mapping.pages.start().as_ptr();
                keep(&mut all, mapping);
                place
            })
            .collect();
        let bytes = mapped_bytes(SIZE).unwrap();
        assert_eq!((all.len(), bytes_of(&all)), (MOST_KEPT, MOST_KEPT * bytes));
        for &place in places[1..].iter().rev() {
            assert_eq!(take(&mut all, bytes).unwrap().pages.start().as_ptr(), place);
        }
        assert!(take(&mut all, bytes).is_none() && all.is_empty());
        assert!(Block::uninitialized(usize::MAX / 2).is_none());
        assert!(Block::zeroed(usize::MAX).is_none());
    }

    #[test]
    fn blocks_begin_at_different_places_and_end_within_their_mapping() {
        let all: Vec<Mapping> = (0..2 * OFFSETS)
            .map(|_| Mapping::new(3 << 20).unwrap())
            .collect();
        let places: std::collections::HashSet<usize> = all
            .iter()
            .map(|mapping| mapping.data().addr() % LARGE_PAGE)
            .collect();
        // Other tests take some blocks in between.
        assert!(places.len() > OFFSETS / 2);
        for mapping in &all {
            assert!(
                mapping
                    .pages
                    .start()
                    .addr()
                    .get()
                    .is_multiple_of(LARGE_PAGE)
            );
            assert!(mapping.data().addr().is_multiple_of(64));
            assert!(mapping.offset + (3 << 20) <= mapping.bytes());
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
