//! Kernels on the stream of a logical GPU.

use std::cell::RefCell;

use crate::cuda::ptx::PTX;
use crate::cuda::queue::{Address, KernelLauncher, KernelQueue, THREADS};
use umbo_base::error::Result;
use umbo_device::cuda::gpu::Gpu;
use umbo_device::cuda::kernels::Kernels;
use umbo_device::cuda::memory::DeviceMemory;

/// The stream of a logical GPU, for one call of a launcher's function. The memory of tables is
/// freed on the stream, and so after the kernels that read it.
#[derive(Debug)]
struct OnGpu {
    gpu: &'static Gpu,
    memory: RefCell<Vec<DeviceMemory>>,
    launches: RefCell<Vec<Launch>>,
}

#[derive(Debug)]
struct Launch {
    kernel: String,
    blocks: u32,
    arguments: Vec<u64>,
}

impl KernelQueue for OnGpu {
    unsafe fn launch(&self, kernel: &str, blocks: u32, arguments: &[u64]) -> Result<()> {
        let kernel = kernel.to_owned();
        let arguments = arguments.to_vec();
        self.launches.borrow_mut().push(Launch {
            kernel,
            blocks,
            arguments,
        });
        Ok(())
    }

    fn upload(&self, bytes: &[u8]) -> Result<Address> {
        let address = self.scratch(bytes.len())?;
        // SAFETY: the memory is as long as the bytes, and is freed on the stream.
        unsafe { self.gpu.upload(bytes.as_ptr(), address, bytes.len()) }?;
        Ok(address)
    }

    fn scratch(&self, bytes: usize) -> Result<Address> {
        let memory = DeviceMemory::new(self.gpu, bytes)?;
        let address = memory.address();
        self.memory.borrow_mut().push(memory);
        Ok(address)
    }
}

/// Kernels that are ready to launch, as soon as the work before them is queued. Launching them
/// needs no memory that could be refused.
#[derive(Debug)]
pub struct PreparedLaunches(OnGpu, &'static Kernels);

impl PreparedLaunches {
    /// Launches them.
    ///
    /// # Safety
    /// The promises that the launcher's functions got when this was prepared hold from now on.
    pub unsafe fn launch(self) -> Result<()> {
        let PreparedLaunches(
            OnGpu {
                gpu,
                launches,
                memory: _memory,
            },
            kernels,
        ) = self;
        launches.into_inner().into_iter().try_for_each(|launch| {
            let blocks = [launch.blocks, THREADS];
            // SAFETY: the caller's promise; the tables are this queue's own.
            unsafe { gpu.launch(kernels, &launch.kernel, blocks, &launch.arguments) }
        })
    }
}

/// Calls `queue` with a launcher, and launches its kernels on the stream of `gpu`.
pub fn on_gpu(
    gpu: &'static Gpu,
    queue: impl FnOnce(&KernelLauncher<'_>) -> Result<()>,
) -> Result<()> {
    let prepared = prepared_on_gpu(gpu, queue)?;
    // SAFETY: the promises that `queue` gave for what was queued hold during this call.
    unsafe { prepared.launch() }
}

/// Calls `queue` with a launcher that only prepares kernels, which are launched later.
pub fn prepared_on_gpu(
    gpu: &'static Gpu,
    queue: impl FnOnce(&KernelLauncher<'_>) -> Result<()>,
) -> Result<PreparedLaunches> {
    let _entered = gpu.card().enter()?;
    let kernels = gpu.card().kernels(|| &PTX)?;
    let (memory, launches) = Default::default();
    let prepared = OnGpu {
        gpu,
        memory,
        launches,
    };
    queue(&KernelLauncher::new(&prepared))?;
    Ok(PreparedLaunches(prepared, kernels))
}
