//! A large block of host memory whose pages a device can lock.

use std::sync::OnceLock;

use crate::blocks::Block;
use umbo_device::backend::Backend;
use umbo_device::page_lock::PageLock;

/// A block and, from [`LockableBlock::lock`] on, the lock of its pages.
pub struct LockableBlock {
    /// Empty only while this is dropped.
    block: Option<Block>,
    lock: OnceLock<Option<PageLock>>,
}

impl From<Block> for LockableBlock {
    fn from(block: Block) -> LockableBlock {
        LockableBlock {
            block: Some(block),
            lock: OnceLock::new(),
        }
    }
}

impl LockableBlock {
    /// Locks the block's pages for the kind of `backend`, at the first call. Others wait for it.
    pub fn lock(&self, backend: &'static dyn Backend) {
        self.lock.get_or_init(|| {
            let (start, bytes) = self.block.as_ref()?.pages();
            // SAFETY: the pages are the block's alone. They stay mapped until the block is dropped,
            // which happens after the lock is released, or not at all.
            unsafe { PageLock::new(backend, start, bytes) }
        });
    }

    /// The lock, if the pages are locked.
    pub fn page_lock(&self) -> Option<&PageLock> {
        self.lock.get()?.as_ref()
    }
}

impl Drop for LockableBlock {
    fn drop(&mut self) {
        let lock = self.lock.take().flatten();
        if lock.is_some_and(|lock| !lock.release()) {
            // A device may still use the pages: nobody else gets them.
            std::mem::forget(self.block.take());
        }
    }
}
