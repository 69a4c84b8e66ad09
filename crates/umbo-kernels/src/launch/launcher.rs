//! The needs of launchers: a place to queue kernels, and memory for their tables.

use crate::dtype::DType;
use umbo_base::error::{Error, Result};
pub(super) use umbo_device::backend::Address;

/// Threads of every block, the same number as in the kernels' source.
pub const THREADS: u32 = 256;

/// The queue of a device, as launchers use it. Queued work runs in order.
pub trait KernelQueue {
    /// Queues a kernel of the library's module, with `blocks` blocks of [`THREADS`] threads.
    ///
    /// # Safety
    /// `arguments` are those of the kernel, in order; an argument of 32 bits is the lower half of
    /// its word. Until the kernel is done, only work that is queued here before or after it
    /// uses its memory: nothing else writes what the kernel reads, or reads or writes what it
    /// writes.
    unsafe fn launch(&self, kernel: &str, blocks: u32, arguments: &[u64]) -> Result<()>;

    /// Copies `bytes` to memory of the device that begins at a multiple of 16. The memory does not
    /// change before the kernels have run that the same function of a launcher queues next.
    /// `bytes` may be changed once this returns.
    fn upload(&self, bytes: &[u8]) -> Result<Address>;

    /// Returns memory of the device that begins at a multiple of 16. Only the kernels that the same
    /// function of a launcher queues next use it.
    fn scratch(&self, bytes: usize) -> Result<Address>;
}

/// About how many chunks of several items are enough on a GPU.
const ENOUGH_CHUNKS: u64 = 1 << 16;

/// Queues kernels.
pub struct KernelLauncher<'q> {
    pub(super) queue: &'q dyn KernelQueue,
    /// About how many chunks are enough. If there would be more, the chunks are made larger, and
    /// each thread works several times.
    pub(super) enough_chunks: u64,
}

impl<'q> KernelLauncher<'q> {
    /// A launcher that queues at `queue`.
    pub fn new(queue: &'q dyn KernelQueue) -> KernelLauncher<'q> {
        KernelLauncher {
            queue,
            enough_chunks: ENOUGH_CHUNKS,
        }
    }

    /// The same launcher, for which few chunks are enough if `few`. Tests use it, since a GPU needs
    /// millions of elements to reach the usual number of chunks. Results never depend on it.
    pub fn with_few_chunks(self, few: bool) -> KernelLauncher<'q> {
        KernelLauncher {
            enough_chunks: if few { 0 } else { ENOUGH_CHUNKS },
            ..self
        }
    }

    /// Queues `kernel` over items. The function returns for each item how many elements it has. The
    /// kernel's arguments are the items, the chunks, their size, and `after`.
    ///
    /// # Safety
    /// As for [`KernelQueue::launch`].
    pub(super) unsafe fn over_items<T: Plain>(
        &self,
        kernel: &str,
        items: impl Iterator<Item = T> + Clone,
        elements: impl Fn(T) -> u64 + Clone,
        after: &[u64],
    ) -> Result<()> {
        let count = items.clone().count();
        if count == 0 {
            return Ok(());
        }
        let mut table = Table::default();
        let work = table.cut(self.enough_chunks, items.clone().map(elements))?;
        let at = table.begin::<T>(count)?;
        items.for_each(|item| table.push(item));
        let table = self.queue.upload(table.bytes())?;
        // SAFETY: the caller's promise.
        unsafe { self.over(kernel, &work, table, &[table + at], after) }
    }

    /// Queues `kernel` over `work`, which [`Table::cut`] made. The kernel's arguments are `before`,
    /// the chunks, their size, and `after`.
    ///
    /// # Safety
    /// As for [`KernelQueue::launch`]. The table was uploaded to `table`.
    pub(super) unsafe fn over(
        &self,
        kernel: &str,
        work: &LaunchWork,
        table: Address,
        before: &[u64],
        after: &[u64],
    ) -> Result<()> {
        if work.blocks == 0 {
            return Ok(());
        }
        let chunks = work.chunks.map_or(0, |at| table + at);
        // SAFETY: the caller's promise.
        unsafe {
            self.queue.launch(
                kernel,
                work.blocks,
                &[before, &[chunks, work.size], after].concat(),
            )
        }
    }
}

/// The number of blocks that are needed for `items` if each block has `of_block` items.
pub(super) fn blocks_of(items: u64, of_block: u64) -> Result<u32> {
    let blocks = u32::try_from(items.div_ceil(of_block)).ok();
    blocks
        .filter(|&blocks| blocks <= i32::MAX as u32)
        .ok_or_else(|| Error::beyond_limit("a launch would need more blocks than can be counted"))
}

/// The short name of an element type in the names of kernels, such as `bf16`.
pub(super) fn short_name(dtype: DType) -> String {
    let name = dtype.name().replace("float", "f");
    name.replace("uint", "u").replace("int", "i")
}

/// The short name for kernels that do not distinguish signed and unsigned integers.
pub(super) fn unsigned_name(dtype: DType) -> String {
    if dtype.is_float() {
        short_name(dtype)
    } else {
        (8 * dtype.size()).to_string()
    }
}

/// The short name for kernels that choose an element: bool is like uint8.
pub(super) fn ordered_name(dtype: DType) -> String {
    short_name(match dtype {
        DType::Bool => DType::UInt8,
        number => number,
    })
}

/// The bytes that are uploaded for a launch: arrays, one after the other. Each begins at a multiple
/// of 16.
#[derive(Default)]
pub(super) struct Table {
    bytes: Vec<u8>,
}

/// Data that a kernel reads exactly as it lies in memory.
///
/// # Safety
/// The type is `repr(C)` and has no padding.
pub(super) unsafe trait Plain: Copy {
    /// The size in bytes.
    const SIZE: usize = size_of::<Self>();
}

// SAFETY: numbers have no padding.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}
// SAFETY: as above.
unsafe impl Plain for f64 {}
// SAFETY: arrays have no padding.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Declares a structure that kernels read exactly as it lies in memory, with its size in bytes.
macro_rules! plain {
    (
        $(#[$meta:meta])*
        $visible:vis struct $name:ident of $bytes:literal bytes {
            $($(#[$field_meta:meta])* $field_visible:vis $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[repr(C)]
        $visible struct $name {
            $($(#[$field_meta])* $field_visible $field: $type,)*
        }

        const _: () = {
            use $crate::launch::launcher::Plain;
            assert!(size_of::<$name>() == $bytes && 0 $(+ <$type as Plain>::SIZE)* == $bytes);
            // SAFETY: plain fields, whose sizes add up to that of the whole.
            unsafe impl Plain for $name {}
        };
    };
}
pub(super) use plain;

plain! {
    /// One block's part of a list of items.
    struct Chunk of 8 bytes {
        item: u32,
        number: u32,
    }
}

/// How a launch divides its work.
pub(super) struct LaunchWork {
    blocks: u32,
    /// The place where the chunks are in the table; `None` if there is one item.
    chunks: Option<u64>,
    /// Elements of a chunk.
    size: u64,
}

/// Elements of the smallest chunk: four for each thread.
const SMALLEST_CHUNK: u64 = 4 * THREADS as u64;

impl Table {
    /// The bytes to upload.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The place where the next array begins.
    pub(super) fn end(&self) -> u64 {
        self.bytes.len().next_multiple_of(16) as u64
    }

    /// Begins an array of at most `count` values, and returns where it begins.
    pub(super) fn begin<T: Plain>(&mut self, count: usize) -> Result<u64> {
        let end = self.end();
        let bytes = count.saturating_mul(size_of::<T>()).saturating_add(16);
        self.bytes
            .try_reserve(bytes)
            .map_err(|_| Error::no_memory_for("the table of a launch"))?;
        self.bytes.resize(end as usize, 0);
        Ok(end)
    }

    /// Adds a value to the array that was begun last.
    pub(super) fn push<T: Plain>(&mut self, value: T) {
        let first = std::ptr::from_ref(&value).cast::<u8>();
        // SAFETY: a plain value is as many initialised bytes.
        self.bytes
            .extend_from_slice(unsafe { std::slice::from_raw_parts(first, size_of::<T>()) });
    }

    /// Cuts items into chunks and, if there are several items, enters the chunks, which are made
    /// larger until about `enough` of them remain.
    pub(super) fn cut(
        &mut self,
        enough: u64,
        items: impl Iterator<Item = u64> + Clone,
    ) -> Result<LaunchWork> {
        let total = items.clone().fold(0u64, u64::saturating_add);
        let mut size = SMALLEST_CHUNK;
        // The chunks of one item take no table, and blocks that work on neighbours are what a GPU's
        // memory likes.
        while items.clone().nth(1).is_some() && total / size > enough {
            size *= 2;
        }
        self.cut_by(size, items)
    }

    /// The same with chunks of `size` elements.
    pub(super) fn cut_by(
        &mut self,
        size: u64,
        items: impl Iterator<Item = u64> + Clone,
    ) -> Result<LaunchWork> {
        let count: u64 = items.clone().map(|elements| elements.div_ceil(size)).sum();
        let blocks = blocks_of(count, 1)?;
        let mut left = items.clone();
        if left.next().is_none() || left.next().is_none() {
            return Ok(LaunchWork {
                blocks,
                chunks: None,
                size,
            });
        }
        let chunks = self.begin::<Chunk>(blocks as usize)?;
        for (item, elements) in items.enumerate() {
            for number in 0..elements.div_ceil(size) {
                self.push(Chunk {
                    item: item as u32,
                    number: number as u32,
                });
            }
        }
        Ok(LaunchWork {
            blocks,
            chunks: Some(chunks),
            size,
        })
    }
}
