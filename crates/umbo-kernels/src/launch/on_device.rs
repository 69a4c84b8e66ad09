//! Kernels in the queue of a device.

use std::cell::RefCell;

use crate::cuda::PTX;
use crate::launch::launcher::{KernelLauncher, KernelQueue, THREADS};
use umbo_base::error::Result;
use umbo_device::backend::{Address, Backend, KernelImages, Launch};
use umbo_device::memory::DeviceMemory;

/// The kernels of this library, for all kinds of devices.
pub const IMAGES: KernelImages = KernelImages { ptx: || &PTX };

/// The queue of a device, for one call of a launcher's function. The memory of tables is freed in
/// the order of the queue, and so after the kernels that read it.
#[derive(Debug)]
struct OnDevice {
    backend: &'static dyn Backend,
    memory: RefCell<Vec<DeviceMemory>>,
    launches: RefCell<Vec<KeptLaunch>>,
}

#[derive(Debug)]
struct KeptLaunch {
    kernel: String,
    blocks: u32,
    arguments: Vec<u64>,
}

impl KernelQueue for OnDevice {
    unsafe fn launch(&self, kernel: &str, blocks: u32, arguments: &[u64]) -> Result<()> {
        let (kernel, arguments) = (kernel.to_owned(), arguments.to_vec());
        self.launches.borrow_mut().push(KeptLaunch {
            kernel,
            blocks,
            arguments,
        });
        Ok(())
    }

    fn upload(&self, bytes: &[u8]) -> Result<Address> {
        let address = self.scratch(bytes.len())?;
        // SAFETY: the memory is as long as the bytes, and is freed in the order of the queue.
        unsafe { self.backend.upload(bytes.as_ptr(), address, bytes.len()) }?;
        Ok(address)
    }

    fn scratch(&self, bytes: usize) -> Result<Address> {
        let memory = DeviceMemory::new(self.backend, bytes)?;
        let address = memory.address();
        self.memory.borrow_mut().push(memory);
        Ok(address)
    }
}

/// Kernels that are ready to launch, as soon as the work before them is queued. Launching them
/// needs no memory that could be refused.
#[derive(Debug)]
pub struct PreparedLaunches(OnDevice);

impl PreparedLaunches {
    /// Launches them.
    ///
    /// # Safety
    /// The promises that the launcher's functions got when this was prepared hold from now on.
    pub unsafe fn launch(self) -> Result<()> {
        let OnDevice {
            backend,
            launches,
            memory: _memory,
        } = self.0;
        launches.into_inner().into_iter().try_for_each(|kept| {
            let launch = Launch {
                kernel: &kept.kernel,
                blocks: kept.blocks,
                threads: THREADS,
                arguments: &kept.arguments,
            };
            // SAFETY: the caller's promise; the kernels were loaded when this was prepared, and the
            // tables are this queue's own.
            unsafe { backend.launch(&launch) }
        })
    }
}

/// Calls `queue` with a launcher, and launches its kernels in the queue of a device.
pub fn on_device(
    backend: &'static dyn Backend,
    queue: impl FnOnce(&KernelLauncher<'_>) -> Result<()>,
) -> Result<()> {
    let prepared = prepared_on_device(backend, queue)?;
    // SAFETY: the promises that `queue` gave for what was queued hold during this call.
    unsafe { prepared.launch() }
}

/// Calls `queue` with a launcher that only prepares kernels, which are launched later.
pub fn prepared_on_device(
    backend: &'static dyn Backend,
    queue: impl FnOnce(&KernelLauncher<'_>) -> Result<()>,
) -> Result<PreparedLaunches> {
    built_with!("cuda", "launches of kernels");
    let _entered = backend.enter()?;
    backend.load_kernels(&IMAGES)?;
    let (memory, launches) = Default::default();
    let prepared = OnDevice {
        backend,
        memory,
        launches,
    };
    queue(&KernelLauncher::new(&prepared))?;
    Ok(PreparedLaunches(prepared))
}
