//! Copies from devices to locked pages of the host, of many tensors, which are waited for once.

#![expect(unsafe_code, reason = "tensors are written by devices")]

use std::sync::Arc;

use crate::Tensor;
use crate::storage::Storage;
use umbo_base::error::Result;
use umbo_device::backend::Backend;
use umbo_device::page_lock::PageLock;
use umbo_kernels::copy::layouts::check_same;

/// The queued copies. Dropping this waits for them.
#[derive(Default)]
pub struct Downloads {
    /// The devices, and the locked storages to which they copy.
    queued: Vec<(&'static dyn Backend, Arc<Storage>)>,
}

impl Downloads {
    /// Copies the elements of `from` to `to`, of the same dtype and shape. If `to` lies in locked
    /// pages of the host, and both are contiguous, the copy is queued.
    ///
    /// # Safety
    /// Nobody else reads or writes `to` before [`Downloads::wait`] has returned or this is dropped.
    pub unsafe fn copy(&mut self, from: &Tensor, to: &Tensor) -> Result<()> {
        check_same((from.dtype(), from.shape()), (to.dtype(), to.shape()))?;
        let bytes = to.bytes();
        let target = to.storage().0;
        let start = to.address().addr();
        let holds = |lock: &&PageLock| {
            let locked = lock.addresses();
            locked.start <= start && start + bytes <= locked.end
        };
        let lock = target.page_lock().filter(holds);
        let is_plain = from.layout().is_contiguous() && to.layout().is_contiguous();
        let (Some(backend), Some(lock), true) = (from.backend()?, lock, is_plain) else {
            // SAFETY: the caller's promise.
            return unsafe { to.assume_exclusive() }.copy_from(from);
        };
        let is_known = |(other, storage): &(&'static dyn Backend, Arc<Storage>)| {
            other.id() == backend.id() && Arc::ptr_eq(storage, target)
        };
        if !self.queued.iter().any(is_known) {
            self.queued.push((backend, Arc::clone(target)));
        }
        // SAFETY: the caller's promise; this waits for the copy. Memory of a device is freed behind
        // the work that is queued, and memory of a device's other owners after it.
        let copied = unsafe { backend.queue_download(from.place().address, to.address(), bytes) };
        lock.note(backend, copied)
    }

    /// Waits until all copies are made.
    pub fn wait(&mut self) -> Result<()> {
        let mut all = Ok(());
        for (backend, storage) in self.queued.drain(..) {
            let finished = backend.finish();
            all = all.and(match storage.page_lock() {
                Some(lock) => lock.note(backend, finished),
                None => finished,
            });
        }
        all
    }
}

impl Drop for Downloads {
    fn drop(&mut self) {
        // A device that cannot be waited for is lost, and its next call says so.
        let _ = self.wait();
    }
}
