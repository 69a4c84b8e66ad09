//! Copies from a buffer's memory to devices that are queued and that nobody has waited for.
//!
//! New weights go up while the host computes the next ones, and a replica that asks for weights
//! does not wait until they have arrived: the device's queue has its kernels behind the copy. So
//! the host waits only before it writes the memory again, or releases it. By then the replicas'
//! gradients have usually come down behind the copies, and nothing is left to wait for.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Tensor;
use crate::storage::Storage;
use crate::transfer::queue_upload;
use parking_lot::Mutex;
use umbo_base::error::Result;
use umbo_device::backend::Backend;

/// The queued copies from one buffer. Dropping this waits for them.
#[derive(Default)]
pub(super) struct Uploads {
    /// Whether there may be some.
    is_any: AtomicBool,
    queued: Mutex<Vec<QueuedUpload>>,
}

/// The last copy from a storage to a device.
struct QueuedUpload {
    backend: &'static dyn Backend,
    place: u64,
    source: Arc<Storage>,
}

impl Uploads {
    /// Copies elements `range` of `from`, which lies in host memory, to the same place in `to` on a
    /// device. Copies from locked pages are queued and not waited for. Both tensors are contiguous,
    /// and alike.
    ///
    /// # Safety
    /// Nobody else reads or writes `to`, except by work of its device that is queued later. Before
    /// `from` is written, [`Uploads::wait`] is called.
    pub(super) unsafe fn queue(
        &self,
        from: &Tensor,
        to: &Tensor,
        range: Range<usize>,
    ) -> Result<()> {
        let mut queued = self.queued.lock();
        queued.reserve(1);
        // SAFETY: the caller's promise.
        let Some((backend, place)) = (unsafe { queue_upload(from, to, range) })? else {
            return Ok(());
        };
        let source = from.storage().0;
        let same = queued.iter_mut().find(|upload| {
            upload.backend.id() == backend.id() && Arc::ptr_eq(&upload.source, source)
        });
        match same {
            Some(upload) => upload.place = place,
            None => queued.push(QueuedUpload {
                backend,
                place,
                source: Arc::clone(source),
            }),
        }
        self.is_any.store(true, Ordering::Release);
        Ok(())
    }

    /// Waits until all copies are made. A device that is lost meanwhile reads nothing that matters.
    pub(super) fn wait(&self) {
        if !self.is_any.load(Ordering::Acquire) {
            return;
        }
        let mut queued = self.queued.lock();
        for upload in queued.drain(..) {
            let waited = upload.backend.wait_past(upload.place);
            if let Some(lock) = upload.source.page_lock() {
                // The next call of the device reports that it is lost.
                let _ = lock.note(upload.backend, waited);
            }
        }
        self.is_any.store(false, Ordering::Release);
    }
}

impl Drop for Uploads {
    fn drop(&mut self) {
        self.wait();
    }
}
