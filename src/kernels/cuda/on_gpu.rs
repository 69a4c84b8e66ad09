//! Kernels on the stream of a logical GPU.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;

use crate::device::cuda::gpu::Gpu;
use crate::device::cuda::kernels::{self as driver, Kernels};
use crate::device::cuda::memory::DeviceMemory;
use crate::error::{Error, Result};
use crate::executor::lock::Mutex;
use crate::kernels::cuda::entries::Extent;
use crate::kernels::cuda::queue::{Address, Grid, Launcher, Queue, THREADS};
use crate::kernels::cuda::{float64_is_slow, modules};

/// The stream of a logical GPU, with memory for the tables of kernels, which is used again: what is
/// written to it comes, on the stream, after all that reads what it held before.
#[derive(Debug)]
pub struct OnGpu {
    gpu: &'static Gpu,
    memory: RefCell<Vec<DeviceMemory>>,
    /// The block from which the next table is taken, and how much of it is taken.
    taken: Cell<(usize, usize)>,
}

/// Tables begin at multiples of so many bytes.
const ALIGNMENT: usize = 256;

impl OnGpu {
    /// Memory that is at least so long, and is this call's.
    fn take(&self, bytes: usize) -> Result<Address> {
        let mut memory = self.memory.borrow_mut();
        let (mut block, mut start) = self.taken.get();
        while memory.get(block).is_some_and(|memory| memory.bytes() - start < bytes) {
            (block, start) = (block + 1, 0);
        }
        if block == memory.len() {
            memory
                .try_reserve(1)
                .map_err(|_| Error::ResourceExhausted("memory for a launch".into()))?;
            memory.push(DeviceMemory::new(self.gpu, block_for(bytes)?)?);
        }
        let found = &memory[block];
        let end = (start + bytes).next_multiple_of(ALIGNMENT).min(found.bytes());
        self.taken.set((block, end));
        Ok(found.address() + start as Address)
    }
}

/// How long a block is that has room for so many bytes.
fn block_for(bytes: usize) -> Result<usize> {
    let block = bytes.max(ALIGNMENT).checked_next_power_of_two();
    let problem = || Error::ResourceExhausted(format!("a table of {bytes} bytes for a launch"));
    block.filter(|&block| block <= isize::MAX as usize).ok_or_else(problem)
}

impl Queue for OnGpu {
    unsafe fn launch(
        &self,
        kernel: &'static str,
        grid: Grid,
        arguments: &mut [*mut c_void],
    ) -> Result<()> {
        let kernels = self.kernels()?;
        let blocks = [grid.blocks, grid.rows, 1];
        let grid = driver::Grid { blocks, threads: THREADS, shared_bytes: 0 };
        // SAFETY: the caller's promise, but for the tables, which are this queue's.
        unsafe { self.gpu.launch(kernels, kernel, grid, arguments) }
    }

    fn upload(&self, bytes: &[u8]) -> Result<Address> {
        let address = self.take(bytes.len())?;
        // SAFETY: the memory is at least as long, and is freed on the stream.
        unsafe { self.gpu.upload(bytes.as_ptr(), address, bytes.len()) }?;
        Ok(address)
    }

    fn scratch(&self, bytes: usize) -> Result<Address> {
        self.take(bytes)
    }
}

impl OnGpu {
    /// Has memory for tables of so many bytes in all.
    fn reserve(&self, bytes: usize) -> Result<()> {
        self.gpu.reserve_staging(bytes)?;
        self.kernels()?;
        let mut memory = self.memory.borrow_mut();
        // The first block is where each call begins, and only longer ones take its place.
        if memory.first().is_none_or(|first| first.bytes() < bytes) {
            memory
                .try_reserve(1)
                .map_err(|_| Error::ResourceExhausted("memory for a launch".into()))?;
            let fresh = DeviceMemory::new(self.gpu, block_for(bytes)?)?;
            memory.clear();
            memory.push(fresh);
        }
        Ok(())
    }

    fn kernels(&self) -> Result<&'static Kernels> {
        let card = self.gpu.card();
        match card.loaded_kernels() {
            Some(kernels) => Ok(kernels),
            None => card.kernels(&modules(card.capability())),
        }
    }

    /// How many blocks of memory it keeps for tables.
    pub fn kept_blocks(&self) -> usize {
        self.memory.borrow().len()
    }
}

impl Launcher<OnGpu> {
    /// Has all that a later call of the launcher takes which tells kernels of so much, so that it is
    /// refused nothing: memory of the GPU, what is copied there through, and the kernels.
    pub fn reserve(&mut self, extent: Extent) -> Result<()> {
        let bytes = extent.bytes(ALIGNMENT);
        self.reserve_table(bytes)?;
        self.queue().reserve(bytes)
    }
}

/// Has `queue` launch kernels on the stream of `gpu`. One thread at a time does.
pub fn on_gpu<T>(
    gpu: &'static Gpu,
    queue: impl FnOnce(&mut Launcher<OnGpu>) -> Result<T>,
) -> Result<T> {
    // Before the lock: in the child of a fork its holder may be a thread of the parent's.
    let _entered = gpu.card().enter()?;
    let launcher: &Mutex<Launcher<OnGpu>> = gpu.attachment(|| {
        let memory = RefCell::new(Vec::new());
        let launcher = Launcher::new(OnGpu { gpu, memory, taken: Cell::new((0, 0)) });
        Mutex::new(launcher.with_slow_float64(float64_is_slow(gpu.card().capability())))
    })?;
    let mut launcher = launcher.lock();
    launcher.queue().taken.set((0, 0));
    queue(&mut launcher)
}
