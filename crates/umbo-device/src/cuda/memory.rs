//! The memory of a logical GPU.

use std::sync::atomic::Ordering;

use cudarc::driver::{result, sys};

use super::gpu::Gpu;
use umbo_base::error::Result;

impl Gpu {
    /// See [`Backend::allocate`](crate::backend::Backend::allocate).
    pub(super) fn allocate(&self, bytes: usize) -> Result<u64> {
        let _entered = self.card().enter()?;
        self.reserve(bytes)?;
        // The driver refuses to allocate 0 bytes.
        let taken = bytes.max(1);
        let allocated = if let Some(pool) = self.pool {
            let mut address = 0;
            let pool = std::ptr::with_exposed_provenance_mut(pool);
            // SAFETY: as for `malloc_async`; the pool is external, and the program keeps it alive.
            let allocated = unsafe {
                sys::cuMemAllocFromPoolAsync(&raw mut address, taken, pool, self.stream())
            };
            allocated.result().map(|()| address)
        } else if self.card().has_pools() {
            // SAFETY: the stream is the GPU's, and its context is current. The memory is used only
            // through that stream.
            unsafe { result::malloc_async(self.stream(), taken) }
        } else {
            // SAFETY: the context is current.
            unsafe { result::malloc_sync(taken) }
        };
        allocated
            .inspect(|_| self.card().record_used(bytes as i64))
            .map_err(|error| {
                self.used.fetch_sub(bytes as u64, Ordering::Relaxed);
                let left = match result::mem_get_info() {
                    Ok((free, _)) => format!("; {free} are free"),
                    Err(_) => String::new(),
                };
                let share = match self.pool {
                    Some(_) => " from the memory pool that it was given",
                    None => "",
                };
                self.card().failed(
                    &format!("{bytes} bytes for {}{share}{left}", self.id()),
                    error,
                )
            })
    }

    /// See [`Backend::free`](crate::backend::Backend::free).
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn free(&self, address: u64, bytes: usize) {
        self.used.fetch_sub(bytes as u64, Ordering::Relaxed);
        // A failure here is not reported. It may belong to an earlier call, which the driver
        // reports at the next call. A lost card has nothing to free.
        // SAFETY: the caller's promise; the first call has freed nothing if it fails.
        unsafe {
            if self.try_free(address, bytes).is_err() {
                let _ = self.try_free(address, bytes);
            }
        }
    }

    /// # Safety
    /// As for [`Gpu::free`].
    unsafe fn try_free(&self, address: u64, bytes: usize) -> Result<()> {
        let card = self.card();
        let _entered = card.enter()?;
        let freed = if card.has_pools() {
            // SAFETY: it was allocated on this stream, and all work that uses it was queued on the
            // stream before.
            unsafe { result::free_async(address, self.stream()) }
        } else {
            self.synchronize()?;
            // SAFETY: it was allocated without a stream, and all work that uses it is done.
            unsafe { result::free_sync(address) }
        };
        freed
            .map_err(|error| card.failed("freeing memory", error))
            .inspect(|()| card.record_used(-(bytes as i64)))
    }
}
