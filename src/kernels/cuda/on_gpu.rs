//! Kernels on the stream of a logical GPU.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;

use crate::device::cuda::gpu::Gpu;
use crate::device::cuda::kernels as driver;
use crate::device::cuda::memory::DeviceMemory;
use crate::error::{Error, Result};
use crate::executor::lock::Mutex;
use crate::kernels::cuda::queue::{Address, Grid, Launcher, Queue, THREADS};
use crate::kernels::cuda::{float64_is_slow, modules};

/// The stream of a logical GPU, with memory for the tables of kernels, which is used again: what is
/// written to it comes, on the stream, after all that reads what it held before.
#[derive(Debug)]
pub struct OnGpu {
    gpu: &'static Gpu,
    memory: RefCell<Vec<DeviceMemory>>,
    /// Which of it is taken.
    used: Cell<usize>,
}

impl OnGpu {
    /// Memory that is at least so long, and is this call's.
    fn take(&self, bytes: usize) -> Result<Address> {
        let (mut memory, used) = (self.memory.borrow_mut(), self.used.get());
        if memory.get(used).is_none_or(|memory| memory.bytes() < bytes) {
            let fresh = DeviceMemory::new(self.gpu, bytes.next_power_of_two())?;
            memory.truncate(used);
            memory
                .try_reserve(1)
                .map_err(|_| Error::ResourceExhausted("memory for a launch".into()))?;
            memory.push(fresh);
        }
        self.used.set(used + 1);
        Ok(memory[used].address())
    }
}

impl Queue for OnGpu {
    unsafe fn launch(
        &self,
        kernel: &'static str,
        grid: Grid,
        arguments: &mut [*mut c_void],
    ) -> Result<()> {
        let card = self.gpu.card();
        let kernels = match card.loaded_kernels() {
            Some(kernels) => kernels,
            None => card.kernels(&modules(card.capability()))?,
        };
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
    /// Has memory for a table of so many bytes, so that the next call is not refused it.
    pub fn reserve(&self, bytes: usize) -> Result<()> {
        self.take(bytes).map(drop)
    }

    /// How many blocks of memory it keeps for tables.
    pub fn kept_blocks(&self) -> usize {
        self.memory.borrow().len()
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
        let launcher = Launcher::new(OnGpu { gpu, memory, used: Cell::new(0) });
        Mutex::new(launcher.with_slow_float64(float64_is_slow(gpu.card().capability())))
    })?;
    let mut launcher = launcher.lock();
    launcher.queue().used.set(0);
    queue(&mut launcher)
}
