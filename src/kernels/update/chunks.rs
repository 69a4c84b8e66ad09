//! How sums over the elements of a variable are cut into chunks and tiles, which decides their bits; see
//! [`measure`](super::measure).

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};

/// Elements of one tile. Where several ranks each measure a part of a variable, the parts begin at
/// multiples of it, and the sums of the tiles are results.
pub const TILE: usize = 1024;

/// The most chunks that a variable is cut into.
pub(super) const MOST_CHUNKS: usize = 64;

/// Elements of the smallest chunk.
pub const SMALLEST_CHUNK: usize = 16 * TILE;

/// The sums of one chunk, as the bits of float64.
pub type ChunkSums<const SUMS: usize> = [AtomicU64; SUMS];

/// How a variable of some number of elements is cut into chunks.
#[derive(Clone, Copy, Debug)]
pub struct Chunks {
    /// Of the variable, or of all variables.
    pub elements: usize,
    /// Elements of each chunk but the last.
    pub size: usize,
}

impl Chunks {
    /// Of a variable with `elements` elements.
    pub fn of(elements: usize) -> Chunks {
        let size = elements.div_ceil(MOST_CHUNKS).next_multiple_of(TILE).max(SMALLEST_CHUNK);
        Chunks { elements, size }
    }

    /// Each of several variables of `size` elements, at most [`SMALLEST_CHUNK`], by itself.
    pub fn each(elements: usize, size: usize) -> Chunks {
        assert!(size <= SMALLEST_CHUNK);
        Chunks { elements, size }
    }

    /// Each tile of so many elements by itself.
    pub fn tiles(elements: usize) -> Chunks {
        Chunks { elements, size: TILE }
    }

    /// How many there are.
    pub fn count(self) -> usize {
        self.elements.div_ceil(self.size)
    }
}

/// The sums of a whole variable from those of its tiles, in the order of additions of one thread that measures
/// the variable as a whole, and so with the same bits.
#[derive(Clone, Copy, Debug)]
pub struct OfTiles<const SUMS: usize> {
    /// Tiles of one chunk, and those that the present one has had.
    of_chunk: usize,
    done: usize,
    chunk: [f64; SUMS],
    total: [f64; SUMS],
}

impl<const SUMS: usize> OfTiles<SUMS> {
    /// Of a variable with `elements` elements, none of whose tiles has come.
    pub fn new(elements: usize) -> OfTiles<SUMS> {
        let of_chunk = Chunks::of(elements).size / TILE;
        OfTiles { of_chunk, done: 0, chunk: [0.0; SUMS], total: [0.0; SUMS] }
    }

    /// The next tile has these sums.
    pub fn add(&mut self, tile: [f64; SUMS]) {
        self.chunk.iter_mut().zip(tile).for_each(|(sum, of_tile)| *sum += of_tile);
        self.done += 1;
        if self.done == self.of_chunk {
            self.end_chunk();
        }
    }

    fn end_chunk(&mut self) {
        let chunk = std::mem::replace(&mut self.chunk, [0.0; SUMS]);
        self.total.iter_mut().zip(chunk).for_each(|(sum, of_chunk)| *sum += of_chunk);
        self.done = 0;
    }

    /// The sums, once all tiles have come.
    pub fn total(mut self) -> [f64; SUMS] {
        if self.done > 0 {
            self.end_chunk();
        }
        self.total
    }
}

/// The sums of all chunks, one after the other.
pub(super) fn total<const SUMS: usize>(sums: &[ChunkSums<SUMS>]) -> [f64; SUMS] {
    let of_chunk = |sum: &AtomicU64| f64::from_bits(sum.load(Ordering::Relaxed));
    // Not `sum`, whose start is −0.
    array::from_fn(|index| sums.iter().fold(0.0, |total, sums| total + of_chunk(&sums[index])))
}
