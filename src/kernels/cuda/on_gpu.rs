//! Kernels on the stream of a logical GPU.

use std::cell::RefCell;

use crate::device::cuda::gpu::Gpu;
use crate::device::cuda::kernels::Kernels;
use crate::device::cuda::memory::DeviceMemory;
use crate::error::Result;
use crate::kernels::cuda::ptx::PTX;
use crate::kernels::cuda::queue::{Address, KernelLauncher, KernelQueue, THREADS};

/// The stream of a logical GPU, for one call of a launcher's function. The memory of tables is freed on the stream,
/// and so after the kernels that read it.
#[derive(Debug)]
pub struct OnGpu {
    gpu: &'static Gpu,
    kernels: &'static Kernels,
    memory: RefCell<Vec<DeviceMemory>>,
    /// The launches, if they are only prepared.
    prepared: Option<RefCell<Vec<Launch>>>,
}

#[derive(Debug)]
struct Launch {
    kernel: String,
    blocks: u32,
    arguments: Vec<u64>,
}

impl OnGpu {
    fn take(&self, bytes: usize) -> Result<Address> {
        let memory = DeviceMemory::new(self.gpu, bytes)?;
        let address = memory.address();
        self.memory.borrow_mut().push(memory);
        Ok(address)
    }
}

impl KernelQueue for OnGpu {
    unsafe fn launch(&self, kernel: &str, blocks: u32, arguments: &[u64]) -> Result<()> {
        if let Some(prepared) = &self.prepared {
            let (kernel, arguments) = (kernel.to_owned(), arguments.to_vec());
            prepared.borrow_mut().push(Launch { kernel, blocks, arguments });
            return Ok(());
        }
        // SAFETY: the caller's promise; the tables are this queue's own.
        unsafe { self.gpu.launch(self.kernels, kernel, [blocks, THREADS], arguments) }
    }

    fn upload(&self, bytes: &[u8]) -> Result<Address> {
        let address = self.take(bytes.len())?;
        // SAFETY: the memory is as long as the bytes, and is freed on the stream.
        unsafe { self.gpu.upload(bytes.as_ptr(), address, bytes.len()) }?;
        Ok(address)
    }

    fn scratch(&self, bytes: usize) -> Result<Address> {
        self.take(bytes)
    }
}

/// Kernels that are ready to launch, as soon as the work before them is queued. Launching them needs no memory that
/// could be refused.
#[derive(Debug)]
pub struct PreparedLaunches(OnGpu);

impl PreparedLaunches {
    /// Launches them.
    ///
    /// # Safety
    /// The promises that the launcher's functions got when this was prepared hold from now on.
    pub unsafe fn launch(self) -> Result<()> {
        let OnGpu { gpu, kernels, prepared, memory: _memory } = self.0;
        prepared.into_iter().flat_map(RefCell::into_inner).try_for_each(|launch| {
            let blocks = [launch.blocks, THREADS];
            // SAFETY: the caller's promise.
            unsafe { gpu.launch(kernels, &launch.kernel, blocks, &launch.arguments) }
        })
    }
}

fn launcher(gpu: &'static Gpu, prepares: bool) -> Result<KernelLauncher<OnGpu>> {
    let kernels = gpu.card().kernels(|| &PTX)?;
    let prepared = prepares.then(RefCell::default);
    Ok(KernelLauncher::new(OnGpu { gpu, kernels, memory: RefCell::default(), prepared }))
}

/// Calls `queue` with a launcher whose kernels run on the stream of `gpu`.
pub fn on_gpu<T>(
    gpu: &'static Gpu,
    queue: impl FnOnce(&KernelLauncher<OnGpu>) -> Result<T>,
) -> Result<T> {
    let _entered = gpu.card().enter()?;
    queue(&launcher(gpu, false)?)
}

/// Calls `queue` with a launcher that only prepares kernels, which are launched later.
pub fn prepared_on_gpu(
    gpu: &'static Gpu,
    queue: impl FnOnce(&KernelLauncher<OnGpu>) -> Result<()>,
) -> Result<PreparedLaunches> {
    let _entered = gpu.card().enter()?;
    let launcher = launcher(gpu, true)?;
    queue(&launcher)?;
    Ok(PreparedLaunches(launcher.queue))
}
