//! Memory set aside for bookkeeping, for when the system has none left.
//!
//! A few megabytes of the library's own zero-initialised data, whose pages cost nothing until they
//! are touched, cut into classes of blocks of one size each. A block is a bit in its class's map: to
//! take one is to set a bit that is clear, to give it back is to clear it. There is no lock, so
//! nobody waits here, not in the child of a fork whose parent was in the middle of it either. The
//! allocators for such regions that one can get all stand behind one lock, which such a child could
//! find taken for ever, and their strength, that blocks have any size, is not needed for this.

use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The largest request that the reserve serves.
pub const LARGEST: usize = 64 << 10;

/// Alignment of the region, and the strictest that a request may ask for.
const PAGE: usize = 4096;

/// Bytes of a class, but for the last, whose blocks are few otherwise.
const CLASS: usize = 512 << 10;

/// The sizes of the blocks, each four times the one before.
const SIZES: [usize; 6] = [64, 256, 1 << 10, 4 << 10, 16 << 10, LARGEST];

/// How many blocks of each size there are.
const COUNTS: [usize; 6] =
    [CLASS / 64, CLASS / 256, CLASS >> 10, CLASS >> 12, CLASS >> 14, 2 * CLASS / LARGEST];

const BYTES: usize = 7 * CLASS;
const WORDS: usize = CLASS / 64 / 64;

/// Where a class begins.
const fn start(class: usize) -> usize {
    class * CLASS
}

const _: () = assert!(start(SIZES.len() - 1) + SIZES[5] * COUNTS[5] == BYTES);

/// The blocks themselves.
#[repr(C, align(4096))]
struct Region(UnsafeCell<[u8; BYTES]>);

// SAFETY: a block is touched only by whoever has set its bit, until they clear it.
unsafe impl Sync for Region {}

/// Which blocks of a class are taken, and how many.
struct Class {
    map: [AtomicU64; WORDS],
    taken: AtomicUsize,
}

/// A region and its classes.
pub struct Reserve {
    region: Region,
    classes: [Class; SIZES.len()],
    /// How many blocks are taken of all classes together. Read alone, it tells in one load that the
    /// reserve is untouched.
    taken: AtomicUsize,
}

impl Reserve {
    /// A reserve of which nothing is taken.
    pub const fn new() -> Reserve {
        Reserve {
            region: Region(UnsafeCell::new([0; BYTES])),
            classes: [const {
                Class { map: [const { AtomicU64::new(0) }; WORDS], taken: AtomicUsize::new(0) }
            }; SIZES.len()],
            taken: AtomicUsize::new(0),
        }
    }

    /// Whether nothing is taken.
    pub fn is_untouched(&self) -> bool {
        self.taken.load(Ordering::Relaxed) == 0
    }

    /// Whether more than a quarter of the blocks of some size are taken.
    pub fn is_low(&self) -> bool {
        let low = |(class, most): (&Class, usize)| class.taken.load(Ordering::Relaxed) > most / 4;
        self.classes.iter().zip(COUNTS).any(low)
    }

    /// How many blocks are taken.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Whether the address is one of the reserve's.
    pub fn owns(&self, memory: *const u8) -> bool {
        memory.addr().wrapping_sub(self.region.0.get().addr()) < BYTES
    }

    /// A block for `layout`; null if it is too large or too strict, or if no block is left. It
    /// holds whatever was in it.
    pub fn take(&self, layout: Layout) -> *mut u8 {
        let wanted = layout.size().max(layout.align().min(PAGE));
        if wanted > LARGEST || layout.align() > PAGE {
            return ptr::null_mut();
        }
        let fitting = (0..SIZES.len()).filter(|&class| SIZES[class] >= wanted);
        let Some((class, block)) = fitting
            .filter_map(|class| Some((class, self.classes[class].take(COUNTS[class])?)))
            .next()
        else {
            return ptr::null_mut();
        };
        self.taken.fetch_add(1, Ordering::Relaxed);
        // Within the region: the class has more than `block` blocks.
        self.region.0.get().cast::<u8>().wrapping_add(start(class) + block * SIZES[class])
    }

    /// How long the block is that begins at `memory`, which the reserve owns.
    pub fn block_size(&self, memory: *const u8) -> usize {
        SIZES[self.place(memory).0]
    }

    /// Takes a block back that [`take`](Self::take) gave and that nobody uses any more.
    pub fn give_back(&self, memory: *mut u8) {
        let (class, block) = self.place(memory);
        self.classes[class].give_back(block);
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }

    /// The class of a block and its number there.
    fn place(&self, memory: *const u8) -> (usize, usize) {
        let offset = memory.addr() - self.region.0.get().addr();
        let class = (offset / CLASS).min(SIZES.len() - 1);
        (class, (offset - start(class)) / SIZES[class])
    }
}

impl Class {
    /// The number of a block, of the first `count`, that nobody has.
    fn take(&self, count: usize) -> Option<usize> {
        for (word, map) in self.map[..count.div_ceil(64)].iter().enumerate() {
            let mut bits = map.load(Ordering::Relaxed);
            loop {
                let bit = bits.trailing_ones() as usize;
                if bit == 64 || word * 64 + bit >= count {
                    break;
                }
                // Acquire: what the last owner did with the block is over.
                match map.compare_exchange_weak(
                    bits,
                    bits | 1 << bit,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => {
                        self.taken.fetch_add(1, Ordering::Relaxed);
                        return Some(word * 64 + bit);
                    }
                    Err(newer) => bits = newer,
                }
            }
        }
        None
    }

    fn give_back(&self, block: usize) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
        self.map[block / 64].fetch_and(!(1 << (block % 64)), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    static SHARED: Reserve = Reserve::new();
    static OWN: Reserve = Reserve::new();

    fn layout(bytes: usize, align: usize) -> Layout {
        Layout::from_size_align(bytes, align).unwrap()
    }

    #[test]
    fn blocks_fit_are_aligned_and_run_out() {
        for (bytes, align) in [(1, 1), (64, 64), (65, 8), (10, 4096), (LARGEST, 4096)] {
            let block = OWN.take(layout(bytes, align));
            assert!(OWN.owns(block) && block.addr().is_multiple_of(align));
            assert!(OWN.block_size(block) >= bytes);
            OWN.give_back(block);
        }
        assert!(OWN.take(layout(LARGEST + 1, 1)).is_null());
        assert!(OWN.take(layout(1, 2 * PAGE)).is_null());
        assert!(OWN.is_untouched());
        let mut all = HashSet::new();
        loop {
            let block = OWN.take(layout(8, 8));
            if block.is_null() {
                break;
            }
            assert!(all.insert(block), "a block was given twice");
        }
        assert_eq!(all.len(), COUNTS.iter().sum::<usize>());
        assert!(OWN.is_low());
        all.into_iter().for_each(|block| OWN.give_back(block));
        assert!(OWN.is_untouched() && !OWN.is_low());
        assert!(!OWN.owns(ptr::null()) && !OWN.owns((&raw const OWN).wrapping_add(1).cast()));
    }

    #[test]
    fn threads_never_share_a_block() {
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                scope.spawn(move || {
                    let sizes = [8, 100, 1000, 5000];
                    for round in 0..2000 {
                        let size = sizes[round % sizes.len()];
                        let block = SHARED.take(layout(size, 8));
                        assert!(!block.is_null());
                        // SAFETY: the block is this thread's and at least `size` bytes long.
                        unsafe {
                            block.write_bytes(thread, size);
                            std::thread::yield_now();
                            assert_eq!((*block, *block.add(size - 1)), (thread, thread));
                        }
                        SHARED.give_back(block);
                    }
                });
            }
        });
        assert!(SHARED.is_untouched());
    }
}
