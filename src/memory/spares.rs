//! Large blocks set aside for lists, as long as the lists that a program has.
//!
//! Lists of objects are bookkeeping too: the items of a nest, the variables of a strategy, copied and
//! collected in the middle of calls by code that cannot fail. How long they get is known beforehand,
//! when the array that they come from is given or the objects are made: then address space for blocks
//! of that size is mapped, and if it cannot be, that call fails. Pages are not touched, so they cost
//! nothing until memory has run out.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use super::reserve::LARGEST;

/// How many blocks of each size there are.
const BLOCKS: u32 = 16;

/// How many sizes: the first is twice the reserve's largest, each is twice the one before.
const SIZES: usize = 20;

/// The blocks of one size.
struct Set {
    /// The first; null until they are mapped.
    start: AtomicPtr<u8>,
    /// A bit for each block that is taken.
    taken: AtomicU32,
}

/// The blocks of all sizes.
pub struct Spares {
    sets: [Set; SIZES],
    /// The size of the largest blocks there are.
    provided: AtomicUsize,
    /// How many blocks are taken.
    taken: AtomicUsize,
}

const fn size(set: usize) -> usize {
    LARGEST << (set + 1)
}

/// The set whose blocks are at least so long.
fn set_for(bytes: usize) -> Option<usize> {
    (0..SIZES).find(|&set| size(set) >= bytes)
}

impl Spares {
    /// Spares of no size.
    pub const fn new() -> Spares {
        Spares {
            sets: [const { Set { start: AtomicPtr::new(ptr::null_mut()), taken: AtomicU32::new(0) } };
                SIZES],
            provided: AtomicUsize::new(LARGEST),
            taken: AtomicUsize::new(0),
        }
    }

    /// Whether blocks of so many bytes were provided.
    #[inline]
    pub fn has(&self, bytes: usize) -> bool {
        bytes <= self.provided.load(Ordering::Relaxed)
    }

    /// Maps blocks of at least so many bytes, unless there are any. Returns whether there are.
    #[cold]
    pub fn provide(&self, bytes: usize) -> bool {
        let Some(set) = set_for(bytes) else { return false };
        if self.sets[set].start.load(Ordering::Acquire).is_null() {
            let whole = size(set) * BLOCKS as usize;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            // Miri knows no other flags.
            let more = if cfg!(miri) { 0 } else { libc::MAP_NORESERVE };
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | more;
            // SAFETY: a new mapping at a place of the system's choice touches nothing that exists.
            let memory = unsafe { libc::mmap(ptr::null_mut(), whole, protection, flags, -1, 0) };
            if memory == libc::MAP_FAILED {
                return false;
            }
            let start = &self.sets[set].start;
            let stored = start.compare_exchange(
                ptr::null_mut(),
                memory.cast(),
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            if stored.is_err() {
                // SAFETY: another thread's mapping serves; this one nobody knows.
                unsafe { libc::munmap(memory, whole) };
            }
        }
        self.provided.fetch_max(size(set), Ordering::Relaxed);
        true
    }

    /// A block of at least so many bytes that nobody has; null if there is none.
    pub fn take(&self, bytes: usize) -> *mut u8 {
        let first = set_for(bytes).unwrap_or(SIZES);
        for (index, set) in self.sets.iter().enumerate().skip(first) {
            let start = set.start.load(Ordering::Acquire);
            let free = |taken: u32| (!start.is_null()).then(|| taken.trailing_ones());
            let pick =
                |taken| free(taken).filter(|&block| block < BLOCKS).map(|block| taken | 1 << block);
            // Acquire: what the last owner did with the block is over.
            if let Ok(before) = set.taken.fetch_update(Ordering::Acquire, Ordering::Relaxed, pick) {
                self.taken.fetch_add(1, Ordering::Relaxed);
                return start.wrapping_add(before.trailing_ones() as usize * size(index));
            }
        }
        ptr::null_mut()
    }

    /// Whether more than a quarter of the blocks of some size are taken.
    pub fn is_low(&self) -> bool {
        let taken = |set: &Set| set.taken.load(Ordering::Relaxed).count_ones();
        self.taken.load(Ordering::Relaxed) > 0
            && self.sets.iter().any(|set| taken(set) > BLOCKS / 4)
    }

    /// How many blocks are taken.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// How long the block is that begins at `memory`, if it is one of these.
    #[inline]
    pub fn block_size(&self, memory: *const u8) -> Option<usize> {
        // Whoever has a block knows that it was taken, so this is at least 1 for them.
        if self.taken.load(Ordering::Relaxed) == 0 {
            None
        } else {
            Some(size(self.place(memory)?.0))
        }
    }

    /// The set of a block and its number there.
    #[cold]
    fn place(&self, memory: *const u8) -> Option<(usize, usize)> {
        self.sets.iter().enumerate().find_map(|(index, set)| {
            let start = set.start.load(Ordering::Acquire);
            let offset = memory.addr().wrapping_sub(start.addr());
            let inside = !start.is_null() && offset < size(index) * BLOCKS as usize;
            inside.then(|| (index, offset / size(index)))
        })
    }

    /// Takes a block back that [`take`](Self::take) gave and that nobody uses any more.
    pub fn give_back(&self, memory: *mut u8) {
        let Some((set, block)) = self.place(memory) else { return };
        // Advice only: the pages go back to the system.
        // SAFETY: the block's pages, which nobody uses.
        unsafe { libc::madvise(memory.cast(), size(set), libc::MADV_DONTNEED) };
        self.sets[set].taken.fetch_and(!(1 << block), Ordering::Release);
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_there_once_they_are_provided() {
        static OWN: Spares = Spares::new();
        assert!(OWN.has(LARGEST) && !OWN.has(LARGEST + 1));
        assert!(OWN.take(LARGEST + 1).is_null());
        assert!(OWN.provide(3 * LARGEST) && OWN.has(4 * LARGEST) && !OWN.provide(usize::MAX));
        let blocks: Vec<*mut u8> = (0..BLOCKS).map(|_| OWN.take(LARGEST + 1)).collect();
        assert!(OWN.take(1).is_null() && OWN.is_low());
        for (number, &block) in blocks.iter().enumerate() {
            assert_eq!(OWN.block_size(block), Some(4 * LARGEST));
            // SAFETY: the block is ours and as long as that.
            unsafe { block.write_bytes(number as u8, 4 * LARGEST) };
        }
        for (number, &block) in blocks.iter().enumerate() {
            // SAFETY: as above.
            assert_eq!(unsafe { *block.add(4 * LARGEST - 1) }, number as u8);
            OWN.give_back(block);
        }
        assert_eq!((OWN.taken(), OWN.block_size(blocks[0])), (0, None));
    }
}
