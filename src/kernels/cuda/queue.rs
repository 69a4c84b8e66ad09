//! What launchers need of a device: a place to queue kernels, and memory for their tables.

use std::ffi::c_void;

use crate::error::{Error, Result};

/// An address in the memory of a device.
pub type Address = u64;

/// Threads of every block: as in the kernels' source.
pub const THREADS: u32 = 256;

/// How many blocks a launch has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchBlocks {
    /// Along x.
    pub blocks: u32,
    /// Along y.
    pub rows: u32,
}

/// A stream of a device, as launchers see it. What is queued is carried out in order.
pub trait KernelQueue {
    /// Queues a kernel of the library's module, with blocks of [`THREADS`] threads.
    ///
    /// # Safety
    /// `arguments` point to what the kernel takes, in order. Until the kernel is done, the memory
    /// that it reads is not written, and what it writes neither read nor written, by other than
    /// what is queued here before and after.
    unsafe fn launch(
        &self,
        kernel: &'static str,
        grid: LaunchBlocks,
        arguments: &mut [*mut c_void],
    ) -> Result<()>;

    /// Copies `bytes` to memory of the device that begins at a multiple of 16 and stays as it is
    /// for the kernels that the same function of a launcher queues next. `bytes` may be changed
    /// when it returns.
    fn upload(&self, bytes: &[u8]) -> Result<Address>;

    /// Memory of the device, from a multiple of 16 on, that the kernels have for themselves which
    /// the same function of a launcher queues next.
    fn scratch(&self, bytes: usize) -> Result<Address>;
}

impl<Q: KernelQueue + ?Sized> KernelQueue for &Q {
    unsafe fn launch(
        &self,
        kernel: &'static str,
        grid: LaunchBlocks,
        arguments: &mut [*mut c_void],
    ) -> Result<()> {
        // SAFETY: the caller's promise is the same.
        unsafe { (**self).launch(kernel, grid, arguments) }
    }

    fn upload(&self, bytes: &[u8]) -> Result<Address> {
        (**self).upload(bytes)
    }

    fn scratch(&self, bytes: usize) -> Result<Address> {
        (**self).scratch(bytes)
    }
}

/// Queues kernels. It keeps the memory in which it puts their tables together, so that a step like
/// the one before allocates nothing.
#[derive(Debug)]
pub struct KernelLauncher<Q> {
    pub(super) queue: Q,
    pub(super) table: Table,
    pub(super) thresholds: Thresholds,
}

/// From when on work is shared in other ways. Tests choose other numbers, since those of a GPU need
/// millions of elements; results never depend on them.
#[derive(Clone, Copy, Debug)]
pub struct Thresholds {
    /// Where there are more chunks than that, they get larger, and threads have several turns.
    pub enough_chunks: u64,
    /// From so many results of a reduction over axes on, a thread for each is enough, if neighbours read
    /// neighbours.
    pub many_results: u64,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds { enough_chunks: 1 << 16, many_results: 1 << 15 }
    }
}

impl<Q: KernelQueue> KernelLauncher<Q> {
    /// Queues at `queue`.
    pub fn new(queue: Q) -> KernelLauncher<Q> {
        let thresholds = Thresholds::default();
        KernelLauncher { queue, table: Table::default(), thresholds }
    }

    /// The same, with other thresholds.
    pub fn with_thresholds(mut self, thresholds: Thresholds) -> KernelLauncher<Q> {
        self.thresholds = thresholds;
        self
    }

    /// Where it queues.
    pub fn queue(&self) -> &Q {
        &self.queue
    }

    /// Has the host's memory for tables of so many bytes.
    pub(super) fn reserve_table(&mut self, bytes: usize) -> Result<()> {
        self.table.clear();
        self.table.begin::<u8>(bytes).map(drop)
    }

    /// Queues `kernel` over `work`, which [`Table::cut`] made, with `before`, the chunks, their
    /// size, and `after` as its arguments.
    ///
    /// # Safety
    /// As for [`KernelQueue::launch`]; `table` is where the table was uploaded.
    pub(super) unsafe fn over(
        &self,
        kernel: &'static str,
        work: &LaunchWork,
        table: Address,
        before: &mut [*mut c_void],
        after: &mut [*mut c_void],
    ) -> Result<()> {
        if work.blocks == 0 {
            return Ok(());
        }
        let mut chunks = work.chunks.map_or(0, |at| table + at);
        let mut size = work.size;
        let mut arguments = [std::ptr::null_mut(); MOST_ARGUMENTS];
        let own = [argument(&mut chunks), argument(&mut size)];
        let all = before.iter().chain(&own).chain(after.iter());
        let mut count = 0;
        for (to, from) in arguments.iter_mut().zip(all) {
            *to = *from;
            count += 1;
        }
        assert_eq!(count, before.len() + own.len() + after.len());
        let grid = LaunchBlocks { blocks: work.blocks, rows: 1 };
        // SAFETY: the caller's promise.
        unsafe { self.queue.launch(kernel, grid, &mut arguments[..count]) }
    }
}

/// How many blocks it takes for `items`, if each has `of_block` of them.
pub(super) fn blocks_of(items: u64, of_block: u64) -> Result<u32> {
    let blocks = u32::try_from(items.div_ceil(of_block)).ok();
    blocks.filter(|&blocks| blocks <= i32::MAX as u32).ok_or_else(|| {
        Error::ResourceExhausted("a launch would need more blocks than can be counted".into())
    })
}

/// The most arguments of a kernel over chunks.
const MOST_ARGUMENTS: usize = 12;

/// A pointer to an argument of a kernel.
pub(super) fn argument<T>(value: &mut T) -> *mut c_void {
    std::ptr::from_mut(value).cast()
}

/// What is uploaded for a launch: arrays, one after the other, each from a multiple of 16 on.
#[derive(Debug, Default)]
pub(super) struct Table {
    bytes: Vec<u8>,
}

/// Data that a kernel reads as it lies in memory.
///
/// # Safety
/// The type is `repr(C)` and has no padding.
pub(super) unsafe trait Plain: Copy {}

// SAFETY: numbers have no padding.
unsafe impl Plain for u8 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}
// SAFETY: as above.
unsafe impl Plain for f64 {}

/// One block's part of a list of items.
#[derive(Clone, Copy)]
#[repr(C)]
struct Chunk {
    item: u32,
    number: u32,
}

// SAFETY: two numbers of four bytes.
unsafe impl Plain for Chunk {}

/// How a launch shares its work.
pub(super) struct LaunchWork {
    blocks: u32,
    /// Where the chunks are in the table; none if there is one item.
    chunks: Option<u64>,
    /// Elements of a chunk.
    size: u64,
}

/// Elements of the smallest chunk: four for each thread.
const SMALLEST_CHUNK: u64 = 4 * THREADS as u64;

impl LaunchWork {
    /// The bytes of a chunk in the table.
    pub(super) const CHUNK_BYTES: usize = size_of::<Chunk>();

    /// How many chunks so many items of so many elements are cut into at most.
    pub(super) fn most_chunks(elements: usize, items: usize) -> usize {
        (elements / SMALLEST_CHUNK as usize).saturating_add(items)
    }
}

impl Table {
    /// Forgets what is in it, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// What is to be uploaded.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where the next array begins.
    pub(super) fn end(&self) -> u64 {
        self.bytes.len().next_multiple_of(16) as u64
    }

    /// Begins an array of `count` at most, and says where.
    pub(super) fn begin<T: Plain>(&mut self, count: usize) -> Result<u64> {
        let end = self.end();
        let bytes = count.saturating_mul(size_of::<T>()).saturating_add(16);
        self.bytes
            .try_reserve(bytes)
            .map_err(|_| Error::ResourceExhausted("memory for the table of a launch".into()))?;
        self.bytes.resize(end as usize, 0);
        Ok(end)
    }

    /// Adds to the array that was begun last.
    pub(super) fn push<T: Plain>(&mut self, value: T) {
        let first = std::ptr::from_ref(&value).cast::<u8>();
        // SAFETY: a plain value is as many initialised bytes.
        self.bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(first, size_of::<T>()) });
    }

    /// Cuts items of so many elements into chunks, and enters those, if there are several items.
    pub(super) fn cut(
        &mut self,
        thresholds: Thresholds,
        items: impl Iterator<Item = u64> + Clone,
    ) -> Result<LaunchWork> {
        let total = items.clone().fold(0u64, u64::saturating_add);
        let mut size = SMALLEST_CHUNK;
        while total / size > thresholds.enough_chunks {
            size *= 2;
        }
        self.cut_by(size, items)
    }

    /// The same, with chunks of `size` elements.
    pub(super) fn cut_by(
        &mut self,
        size: u64,
        items: impl Iterator<Item = u64> + Clone,
    ) -> Result<LaunchWork> {
        let count: u64 = items.clone().map(|elements| elements.div_ceil(size)).sum();
        let blocks = blocks_of(count, 1)?;
        let mut left = items.clone();
        if left.next().is_none() || left.next().is_none() {
            return Ok(LaunchWork { blocks, chunks: None, size });
        }
        let chunks = self.begin::<Chunk>(blocks as usize)?;
        for (item, elements) in items.enumerate() {
            for number in 0..elements.div_ceil(size) {
                self.push(Chunk { item: item as u32, number: number as u32 });
            }
        }
        Ok(LaunchWork { blocks, chunks: Some(chunks), size })
    }
}
