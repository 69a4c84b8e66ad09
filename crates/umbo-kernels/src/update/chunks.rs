//! How sums over many elements, those of a variable or of one result of a reduction, are cut into
//! chunks and tiles. The cut decides the bits of the sums; see [`measure`](super::measure).

use std::array;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::float::lanes::BLOCK;

/// Elements of one tile. If several ranks each measure a part of a variable, the parts begin at
/// multiples of this number, and the sums of the tiles are exchanged.
pub const TILE: usize = 1024;

/// The largest number of chunks into which a variable is cut.
pub(crate) const MOST_CHUNKS: usize = 64;

/// Elements of the smallest chunk.
pub const SMALLEST_CHUNK: usize = 16 * TILE;

/// Interleaved sums within a tile: the element at index i of the tile is added to lane i modulo
/// their number.
pub(super) type Lanes = [f64; LANES];

/// The number of lanes.
pub(super) const LANES: usize = BLOCK;

/// The sums of one chunk, as the bits of float64.
pub type ChunkSums<const SUMS: usize> = [AtomicU64; SUMS];

/// How a variable of some number of elements is cut into chunks.
#[derive(Clone, Copy, Debug)]
pub struct Chunks {
    /// The number of elements of the variable, or of all variables together.
    pub elements: usize,
    /// Elements of each chunk but the last.
    pub size: usize,
}

impl Chunks {
    /// The chunks of a variable with `elements` elements.
    pub fn of(elements: usize) -> Chunks {
        let size = elements
            .div_ceil(MOST_CHUNKS)
            .next_multiple_of(TILE)
            .max(SMALLEST_CHUNK);
        Chunks { elements, size }
    }

    /// The chunks of several variables of `size` elements each, at most [`SMALLEST_CHUNK`]. Each
    /// variable is one chunk.
    pub fn each(elements: usize, size: usize) -> Chunks {
        assert!(size <= SMALLEST_CHUNK);
        Chunks { elements, size }
    }

    /// The chunks if each tile of `elements` elements is one chunk.
    pub fn tiles(elements: usize) -> Chunks {
        Chunks {
            elements,
            size: TILE,
        }
    }

    /// The number of chunks.
    pub fn count(self) -> usize {
        self.elements.div_ceil(self.size)
    }

    /// The elements of one chunk.
    pub(crate) fn range(self, chunk: usize) -> Range<usize> {
        let start = chunk * self.size;
        start..self.elements.min(start + self.size)
    }

    /// The elements of each tile of one chunk.
    pub(super) fn tiles_of(self, chunk: usize) -> impl Iterator<Item = Range<usize>> {
        let range = self.range(chunk);
        range
            .clone()
            .step_by(TILE)
            .map(move |start| start..range.end.min(start + TILE))
    }
}

/// The sums over the tiles of one chunk so far.
pub(super) struct ChunkTotal<const SUMS: usize>([f64; SUMS]);

impl<const SUMS: usize> ChunkTotal<SUMS> {
    pub(super) fn new() -> ChunkTotal<SUMS> {
        ChunkTotal([0.0; SUMS])
    }

    /// Adds the lanes of the next tile.
    #[inline(always)]
    pub(super) fn add(&mut self, tile: [Lanes; SUMS]) {
        for (sum, lanes) in self.0.iter_mut().zip(tile) {
            *sum += sum_of(lanes);
        }
    }

    /// Adds the sums of the next tile.
    #[inline(always)]
    pub(super) fn add_sums(&mut self, tile: [f64; SUMS]) {
        for (sum, of_tile) in self.0.iter_mut().zip(tile) {
            *sum += of_tile;
        }
    }

    pub(super) fn store(self, sums: &ChunkSums<SUMS>) {
        for (to, sum) in sums.iter().zip(self.0) {
            to.store(sum.to_bits(), Ordering::Relaxed);
        }
    }
}

/// The sum of all lanes.
#[inline(always)]
pub(super) fn sum_of(mut lanes: Lanes) -> f64 {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// Adds the sums of the tiles to the sums of the whole variable. The additions have the same order
/// as on one thread that measures the whole variable, so the bits are the same.
#[derive(Clone, Copy, Debug)]
pub struct OfTiles<const SUMS: usize> {
    /// Tiles of one chunk, and how many tiles of the present chunk were added.
    of_chunk: usize,
    done: usize,
    chunk: [f64; SUMS],
    total: [f64; SUMS],
}

impl<const SUMS: usize> OfTiles<SUMS> {
    /// The sums of a variable with `elements` elements before any tile is added.
    pub fn new(elements: usize) -> OfTiles<SUMS> {
        let of_chunk = Chunks::of(elements).size / TILE;
        OfTiles {
            of_chunk,
            done: 0,
            chunk: [0.0; SUMS],
            total: [0.0; SUMS],
        }
    }

    /// Adds the sums of the next tile.
    pub fn add(&mut self, tile: [f64; SUMS]) {
        self.chunk
            .iter_mut()
            .zip(tile)
            .for_each(|(sum, of_tile)| *sum += of_tile);
        self.done += 1;
        if self.done == self.of_chunk {
            self.end_chunk();
        }
    }

    fn end_chunk(&mut self) {
        let chunk = std::mem::replace(&mut self.chunk, [0.0; SUMS]);
        self.total
            .iter_mut()
            .zip(chunk)
            .for_each(|(sum, of_chunk)| *sum += of_chunk);
        self.done = 0;
    }

    /// The sums, once all tiles were added.
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
    // Not `Iterator::sum`, which starts from −0.
    array::from_fn(|index| {
        sums.iter()
            .fold(0.0, |total, sums| total + of_chunk(&sums[index]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(chunks: Chunks, most: usize) {
        assert!(chunks.count() <= most, "{chunks:?}");
        let mut end = 0;
        for chunk in 0..chunks.count() {
            let range = chunks.range(chunk);
            assert_eq!(range.start, end, "{chunks:?}");
            assert!(!range.is_empty() && range.len() <= chunks.size);
            end = range.end;
        }
        assert_eq!(end, chunks.elements, "{chunks:?}");
    }

    /// The numbers of elements up to where chunks grow, then around each multiple of what all
    /// chunks of a size hold, and the largest.
    #[test]
    fn chunks_have_every_element_once() {
        let full = MOST_CHUNKS * TILE;
        let around = (16..200).flat_map(|times| full * times - 2..full * times + 3);
        let largest = isize::MAX as usize - 2..isize::MAX as usize + 1;
        for elements in (0..3 * SMALLEST_CHUNK).chain(around).chain(largest) {
            let chunks = Chunks::of(elements);
            assert!(chunks.size.is_multiple_of(TILE));
            check(chunks, MOST_CHUNKS);
        }
        for size in [1, 2, 3, SMALLEST_CHUNK] {
            (0..50).for_each(|count| check(Chunks::each(count * size, size), count));
        }
    }

    #[test]
    fn tiles_have_every_element_once() {
        for elements in 0..3 * SMALLEST_CHUNK / 2 {
            let chunks = Chunks::of(elements);
            let tiles = (0..chunks.count()).flat_map(|chunk| chunks.tiles_of(chunk));
            let mut end = 0;
            for tile in tiles {
                assert_eq!(tile.start, end);
                assert!(tile.start.is_multiple_of(TILE) && (1..=TILE).contains(&tile.len()));
                end = tile.end;
            }
            assert_eq!(end, elements);
            check(Chunks::tiles(elements), elements.div_ceil(TILE));
        }
    }
}
