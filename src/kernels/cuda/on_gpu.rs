//! Kernels on the stream of a logical GPU.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::device::cuda::gpu::{Gpu, GpuAttachment};
use crate::device::cuda::kernels::{self as driver, Kernels};
use crate::device::cuda::memory::DeviceMemory;
use crate::error::{Error, Result, Status};
use crate::kernels::cuda::entries::Extent;
use crate::kernels::cuda::ptx::PTX;
use crate::kernels::cuda::queue::{Address, KernelLauncher, KernelQueue, LaunchBlocks, THREADS};
use parking_lot::Mutex;

/// The stream of a logical GPU, with memory for the tables of kernels, which is used again: what is
/// written to it comes, on the stream, after all that reads what it held before.
#[derive(Debug)]
pub struct OnGpu {
    gpu: &'static Gpu,
    memory: RefCell<Vec<DeviceMemory>>,
    /// The block from which the next table is taken, and how much of it is taken.
    taken: Cell<(usize, usize)>,
    /// How many calls that are yet to come were promised the first block.
    promised: Arc<AtomicUsize>,
}

/// Keeps the memory that a later call of a launcher was promised, for as long as it lives.
#[derive(Debug)]
#[must_use = "what was reserved may be given back once this is dropped"]
pub struct ReservedLaunch(Arc<AtomicUsize>);

impl ReservedLaunch {
    fn of(promised: &Arc<AtomicUsize>) -> ReservedLaunch {
        // Relaxed, as everywhere here: it is read and counted up under the launcher's lock, and who sees it
        // too large keeps memory for a little longer.
        promised.fetch_add(1, Ordering::Relaxed);
        ReservedLaunch(Arc::clone(promised))
    }
}

impl Drop for ReservedLaunch {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tables begin at multiples of so many bytes.
const ALIGNMENT: usize = 256;

impl OnGpu {
    /// Memory that is at least so long, and is this call's.
    fn take(&self, bytes: usize) -> Result<Address> {
        let mut memory = self.memory.borrow_mut();
        let (mut block, mut start) = self.taken.get();
        // Tables of this call are in so many blocks.
        let used = block + usize::from(start > 0);
        while memory.get(block).is_some_and(|memory| memory.bytes() - start < bytes) {
            (block, start) = (block + 1, 0);
        }
        if block == memory.len() {
            let fresh = self.allocate(&mut memory, used, bytes)?;
            block = memory.len();
            memory.push(fresh);
        }
        let found = &memory[block];
        let end = (start + bytes).next_multiple_of(ALIGNMENT).min(found.bytes());
        self.taken.set((block, end));
        Ok(found.address() + start as Address)
    }

    /// Another block with room for so many bytes, which can be added to `memory`. If there is no memory for it,
    /// all but the first `used` blocks, which are too short, make room.
    fn allocate(
        &self,
        memory: &mut Vec<DeviceMemory>,
        used: usize,
        bytes: usize,
    ) -> Result<DeviceMemory> {
        let bytes = block_for(bytes)?;
        let kept = used.max(usize::from(self.is_promised()));
        DeviceMemory::new(self.gpu, bytes).or_else(|error| {
            if error.status() != Status::ResourceExhausted || memory.len() <= kept {
                return Err(error);
            }
            memory.truncate(kept);
            DeviceMemory::new(self.gpu, bytes)
        })
    }

    fn is_promised(&self) -> bool {
        self.promised.load(Ordering::Relaxed) > 0
    }
}

thread_local! {
    /// Whether this thread has a launcher, and so its lock.
    static LAUNCHES: Cell<bool> = const { Cell::new(false) };
}

/// What [`LAUNCHES`] was before.
struct LaunchesAgain(bool);

impl Drop for LaunchesAgain {
    fn drop(&mut self) {
        LAUNCHES.set(self.0);
    }
}

impl GpuAttachment for Mutex<KernelLauncher<OnGpu>> {
    fn give_back(&self) -> bool {
        // The caller that launches knows what it does not use.
        if LAUNCHES.get() {
            return false;
        }
        let launcher = self.lock();
        let is_promised = launcher.queue().is_promised();
        launcher.queue().memory.borrow_mut().truncate(usize::from(is_promised));
        !is_promised
    }
}

/// How long a block is that has room for so many bytes.
fn block_for(bytes: usize) -> Result<usize> {
    let block = bytes.max(ALIGNMENT).checked_next_power_of_two();
    let problem = || Error::ResourceExhausted(format!("a table of {bytes} bytes for a launch"));
    block.filter(|&block| block <= isize::MAX as usize).ok_or_else(problem)
}

impl KernelQueue for OnGpu {
    unsafe fn launch(
        &self,
        kernel: &'static str,
        grid: LaunchBlocks,
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
    fn reserve(&self, bytes: usize) -> Result<ReservedLaunch> {
        self.gpu.reserve_staging(bytes)?;
        self.kernels()?;
        let mut memory = self.memory.borrow_mut();
        // The first block is where each call begins, and only longer ones take its place.
        if memory.first().is_none_or(|first| first.bytes() < bytes) {
            let fresh = self.allocate(&mut memory, 0, bytes)?;
            memory.clear();
            memory.push(fresh);
        }
        Ok(ReservedLaunch::of(&self.promised))
    }

    fn kernels(&self) -> Result<&'static Kernels> {
        self.gpu.card().kernels(|| &PTX)
    }

    /// How many blocks of memory it keeps for tables.
    pub fn kept_blocks(&self) -> usize {
        self.memory.borrow().len()
    }
}

impl KernelLauncher<OnGpu> {
    /// Has all that a later call of the launcher takes whose tables describe so much, so that it is
    /// refused nothing: memory of the GPU, what is copied there through, and the kernels. The memory is given
    /// back to nobody for as long as the result lives.
    pub fn reserve(&mut self, extent: Extent) -> Result<ReservedLaunch> {
        let bytes = extent.bytes(ALIGNMENT);
        self.reserve_table(bytes)?;
        self.queue().reserve(bytes)
    }
}

/// Has `queue` launch kernels on the stream of `gpu`. One thread at a time does.
pub fn on_gpu<T>(
    gpu: &'static Gpu,
    queue: impl FnOnce(&mut KernelLauncher<OnGpu>) -> Result<T>,
) -> Result<T> {
    let _entered = gpu.card().enter()?;
    let launcher: &Mutex<KernelLauncher<OnGpu>> = gpu.attachment(|| {
        let memory = RefCell::new(Vec::new());
        let (taken, promised) = (Cell::new((0, 0)), Arc::default());
        Mutex::new(KernelLauncher::new(OnGpu { gpu, memory, taken, promised }))
    })?;
    let mut launcher = launcher.lock();
    let _again = LaunchesAgain(LAUNCHES.replace(true));
    launcher.queue().taken.set((0, 0));
    queue(&mut launcher)
}
