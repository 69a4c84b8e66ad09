//! How an operation is divided between workers.
//!
//! Each worker has a contiguous range, which it takes chunk by chunk, from the front. For the same
//! number of workers and the same size of an operation, worker `i` always has the same range, so
//! that memory stays with the thread that touched it first. A worker that has finished its range
//! steals chunks from the ends of other ranges. So none of them waits for one that was woken late,
//! or whose processor another program uses.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

/// Ranges are cut into this many chunks, if the chunks do not become too small or too large by it.
const CHUNKS_PER_WORKER: usize = 16;

/// The memory traffic of a chunk. A smaller one would cost much beside its work; for a larger one,
/// others would wait at the end.
const LEAST_BYTES: usize = 128 << 10;
const MOST_BYTES: usize = 1 << 20;

/// The chunks of an operation: whole blocks of items, spread evenly over `count` chunks.
#[derive(Clone, Copy)]
pub(super) struct Division {
    items: usize,
    block: usize,
    count: u32,
}

impl Division {
    /// The chunks of `items` items for this number of workers, with inner boundaries at multiples
    /// of `block`.
    pub fn new(items: usize, block: usize, bytes: usize, workers: usize) -> Division {
        let wanted = bytes / (bytes / workers / CHUNKS_PER_WORKER).clamp(LEAST_BYTES, MOST_BYTES);
        let count = wanted.max(workers).min(items.div_ceil(block));
        Division {
            items,
            block,
            count: u32::try_from(count).unwrap_or(u32::MAX),
        }
    }

    /// Their number.
    #[cfg(test)]
    pub fn count(self) -> u32 {
        self.count
    }

    /// The memory traffic of so many chunks of an operation that moves `bytes` bytes.
    pub fn traffic(self, bytes: usize, chunks: u32) -> usize {
        (bytes as u128 * u128::from(chunks) / u128::from(self.count)) as usize
    }

    /// The items of one.
    pub fn items(self, chunk: u32) -> Range<usize> {
        let blocks = self.items.div_ceil(self.block);
        let count = self.count as usize;
        let each = blocks / count;
        let longer = blocks % count;
        let start = |chunk: usize| {
            let block = chunk * each + chunk.min(longer);
            block.saturating_mul(self.block).min(self.items)
        };
        start(chunk as usize)..start(chunk as usize + 1)
    }

    /// The numbers of the chunks in a worker's own range.
    pub fn own(self, worker: usize, workers: usize) -> Range<u32> {
        let start = |worker: usize| (u64::from(self.count) * worker as u64 / workers as u64) as u32;
        start(worker)..start(worker + 1)
    }
}

/// The chunks of a worker's range.
#[derive(Default)]
pub(super) struct ChunkQueue(CachePadded<Chunks>);

#[derive(Default)]
struct Chunks {
    /// The chunks that nobody has taken: the first one, and above it the end.
    left: AtomicU64,
    /// Whether the range has a worker.
    claimed: AtomicBool,
}

impl ChunkQueue {
    /// Puts the worker's chunks in. No thread takes any during the call.
    pub fn fill(&self, chunks: Range<u32>) {
        self.0.left.store(packed(chunks), Ordering::Relaxed);
        self.0.claimed.store(false, Ordering::Relaxed);
    }

    /// Makes the range that of the calling worker, unless it has one.
    pub fn claim(&self) -> bool {
        !self.0.claimed.swap(true, Ordering::Relaxed)
    }

    /// Whether the range has a worker.
    pub fn is_claimed(&self) -> bool {
        self.0.claimed.load(Ordering::Relaxed)
    }

    /// Takes the first chunk.
    pub fn pop(&self) -> Option<u32> {
        self.take(|left| left.next())
    }

    /// Takes the last chunk, for another worker.
    pub fn steal(&self) -> Option<u32> {
        self.take(|left| left.next_back())
    }

    /// Whoever changes the number has the chunk, so no other order is needed: what the work reads
    /// was written before the worker got the operation.
    fn take(&self, which: impl Fn(&mut Range<u32>) -> Option<u32>) -> Option<u32> {
        let mut chunk = None;
        let smaller = |left: u64| {
            let mut left = left as u32..(left >> 32) as u32;
            chunk = which(&mut left);
            chunk.map(|_| packed(left))
        };
        // If none is left, nothing is written, and nothing is taken.
        let _ = self
            .0
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, smaller);
        chunk
    }
}

fn packed(chunks: Range<u32>) -> u64 {
    u64::from(chunks.end) << 32 | u64::from(chunks.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_all_items_in_whole_blocks() {
        for (items, block, bytes, workers) in [
            (1, 64, 1 << 20, 1),
            (64, 64, 1 << 20, 2),
            (65, 64, 1 << 20, 2),
            (1000, 64, 1 << 30, 3),
            (4096, 64, 300 << 10, 7),
            (usize::MAX, 64, usize::MAX, 5),
        ] {
            let chunks = Division::new(items, block, bytes, workers);
            assert!(chunks.count() as usize <= items.div_ceil(block));
            let mut end = 0;
            let mut chunk = 0;
            for worker in 0..workers {
                assert_eq!(chunks.own(worker, workers).start, chunk);
                chunk = chunks.own(worker, workers).end;
            }
            assert_eq!(chunk, chunks.count());
            for chunk in (0..chunk).take(5000) {
                let range = chunks.items(chunk);
                assert!(range.start == end && range.end > end);
                assert!(range.end.is_multiple_of(block) || range.end == items);
                end = range.end;
            }
            assert!(end == items || chunk > 5000);
        }
    }

    #[test]
    fn a_chunk_is_neither_small_nor_large() {
        for (bytes, workers, count) in [
            (256 << 10, 2, 2),
            (1 << 20, 2, 8),
            (32 << 20, 2, 32),
            (2 << 30, 2, 2048),
        ] {
            assert_eq!(
                Division::new(bytes, 1, bytes, workers).count(),
                count,
                "{bytes} bytes"
            );
        }
    }

    #[test]
    fn each_chunk_is_taken_once() {
        let queue = ChunkQueue::default();
        queue.fill(3..10_000);
        let mut taken: Vec<u32> = std::thread::scope(|scope| {
            let queue = &queue;
            let all = |take: fn(&ChunkQueue) -> Option<u32>| {
                scope.spawn(move || std::iter::from_fn(|| take(queue)).collect::<Vec<_>>())
            };
            let threads = [ChunkQueue::pop, ChunkQueue::steal, ChunkQueue::steal].map(all);
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        taken.sort_unstable();
        assert!(taken.into_iter().eq(3..10_000));
        assert!(queue.pop().is_none() && queue.steal().is_none());
        assert!(!queue.is_claimed() && queue.claim() && !queue.claim() && queue.is_claimed());
    }
}
