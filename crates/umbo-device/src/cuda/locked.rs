//! Copies between a GPU and locked pages of the host, which the GPU makes alone, at the rate of the
//! bus. Other memory goes through [`staging`](super::staging).

use std::slice;

use cudarc::driver::{result, sys};

use super::gpu::Gpu;
use umbo_base::error::Result;
use umbo_base::observe::{self, trace};

/// `CU_MEMHOSTREGISTER_PORTABLE`: the pages are locked for the contexts of all cards.
const PORTABLE: u32 = 1;

impl Gpu {
    /// Registers whole pages of the host with the driver, for all cards.
    ///
    /// # Safety
    /// They stay mapped until [`Gpu::unlock_pages`].
    pub(super) unsafe fn lock_pages(&self, start: *mut u8, bytes: usize) -> Result<()> {
        self.stream.call("locking pages of the host", || {
            // SAFETY: the caller's promise.
            unsafe { sys::cuMemHostRegister_v2(start.cast(), bytes, PORTABLE) }.result()
        })
    }

    /// Ends that.
    ///
    /// # Safety
    /// The pages were registered from this address on, and no copy uses them any more.
    pub(super) unsafe fn unlock_pages(&self, start: *mut u8) -> Result<()> {
        self.stream.call("unlocking pages of the host", || {
            // SAFETY: the caller's promise.
            unsafe { sys::cuMemHostUnregister(start.cast()) }.result()
        })
    }

    /// Copies from locked pages, and waits for the copy.
    ///
    /// # Safety
    /// The source is registered, and the target is memory of this GPU.
    pub(super) unsafe fn upload_locked(
        &self,
        from: *const u8,
        to: u64,
        bytes: usize,
    ) -> Result<()> {
        let _copy = observe::share("copy to the GPU");
        // SAFETY: the caller's promise. The copy is waited for.
        let place = unsafe { self.queue_upload(from, to, bytes) }?;
        self.stream.wait_past(place)
    }

    /// Queues the same copy. Returns its place, for [`Stream::wait_past`](super::stream::Stream).
    ///
    /// # Safety
    /// The source is registered, and the target is memory of this GPU. Nobody writes or unlocks the
    /// source before the stream has come past the copy.
    pub(super) unsafe fn queue_upload(
        &self,
        from: *const u8,
        to: u64,
        bytes: usize,
    ) -> Result<u64> {
        if bytes == 0 {
            return self.card().check().map(|()| 0);
        }
        self.stream.call("a copy to it", || {
            // SAFETY: the caller's promise.
            self.stream
                .noted("copy to the GPU", "copy", bytes, || unsafe {
                    result::memcpy_htod_async(to, slice::from_raw_parts(from, bytes), self.stream())
                })
        })?;
        self.stream.mark()
    }

    /// Copies to locked pages, after all work that was queued, and waits for the copy.
    ///
    /// # Safety
    /// The source is memory of this GPU, and the target is registered and can be written.
    pub(super) unsafe fn download_locked(
        &self,
        from: u64,
        to: *mut u8,
        bytes: usize,
    ) -> Result<()> {
        if bytes == 0 {
            return self.card().check();
        }
        let _copy = observe::share("copy from the GPU");
        // SAFETY: the caller's promise. The copy is waited for, so that nobody else uses the target
        // meanwhile.
        unsafe { self.queue_download(from, to, bytes) }?;
        self.finish()?;
        if trace::is_on() {
            self.stream.write_times();
        }
        Ok(())
    }

    /// Queues the same copy.
    ///
    /// # Safety
    /// As above; nobody uses the target before [`Gpu::finish`] has returned, also if this fails.
    pub(super) unsafe fn queue_download(&self, from: u64, to: *mut u8, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return self.card().check();
        }
        self.stream.call("a copy from it", || {
            // SAFETY: the caller's promise.
            self.stream
                .noted("copy from the GPU", "copy", bytes, || unsafe {
                    result::memcpy_dtoh_async(
                        slice::from_raw_parts_mut(to, bytes),
                        from,
                        self.stream(),
                    )
                })
        })
    }
}
