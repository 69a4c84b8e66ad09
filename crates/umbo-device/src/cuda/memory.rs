//! Memory of a logical GPU.

use std::sync::atomic::Ordering;

use cudarc::driver::{result, sys};

use super::gpu::Gpu;
use umbo_base::error::Result;

/// Memory of a logical GPU. When it is dropped, it is freed once the GPU's stream has come past
/// everything that was queued before.
#[derive(Debug)]
pub struct DeviceMemory {
    gpu: &'static Gpu,
    address: u64,
    bytes: usize,
}

impl DeviceMemory {
    /// `bytes` bytes with arbitrary contents.
    ///
    /// Fails with RESOURCE_EXHAUSTED, naming the device, the request and what is left, if the GPU
    /// does not have enough memory, and with UNAVAILABLE if it is lost.
    pub fn new(gpu: &'static Gpu, bytes: usize) -> Result<DeviceMemory> {
        let _entered = gpu.card().enter()?;
        gpu.reserve(bytes)?;
        // The driver refuses to allocate 0 bytes.
        let taken = bytes.max(1);
        let allocated = if let Some(pool) = gpu.pool {
            let mut address = 0;
            let pool = std::ptr::with_exposed_provenance_mut(pool);
            // SAFETY: as for `malloc_async`; the pool is external, and the program keeps it alive.
            let allocated = unsafe {
                sys::cuMemAllocFromPoolAsync(&raw mut address, taken, pool, gpu.stream())
            };
            allocated.result().map(|()| address)
        } else if gpu.card().has_pools() {
            // SAFETY: the stream is the GPU's, and its context is current. The memory is used only
            // through that stream.
            unsafe { result::malloc_async(gpu.stream(), taken) }
        } else {
            // SAFETY: the context is current.
            unsafe { result::malloc_sync(taken) }
        };
        match allocated.inspect(|_| gpu.card().record_used(bytes as i64)) {
            Ok(address) => Ok(DeviceMemory {
                gpu,
                address,
                bytes,
            }),
            Err(error) => {
                gpu.used.fetch_sub(bytes as u64, Ordering::Relaxed);
                let left = match result::mem_get_info() {
                    Ok((free, _)) => format!("; {free} are free"),
                    Err(_) => String::new(),
                };
                let of = match gpu.pool {
                    Some(_) => " from the memory pool that it was given",
                    None => "",
                };
                Err(gpu
                    .card()
                    .failed(&format!("{bytes} bytes for {}{of}{left}", gpu.id()), error))
            }
        }
    }

    /// The device's address of the first byte.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The GPU to which the memory belongs.
    pub fn gpu(&self) -> &'static Gpu {
        self.gpu
    }
}

impl DeviceMemory {
    fn free(&self) -> Result<()> {
        let card = self.gpu.card();
        let _entered = card.enter()?;
        let freed = if card.has_pools() {
            // SAFETY: it was allocated on this stream, and all work that uses it was queued on the
            // stream before.
            unsafe { result::free_async(self.address, self.gpu.stream()) }
        } else {
            self.gpu.synchronize()?;
            // SAFETY: it was allocated without a stream, and all work that uses it is done.
            unsafe { result::free_sync(self.address) }
        };
        freed
            .map_err(|error| card.failed("freeing memory", error))
            .inspect(|()| card.record_used(-(self.bytes as i64)))
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        self.gpu
            .used
            .fetch_sub(self.bytes as u64, Ordering::Relaxed);
        // A failure here is not reported. It may belong to an earlier call, which the driver
        // reports at the next call. A lost card has nothing to free.
        if self.free().is_err() {
            let _ = self.free();
        }
    }
}
