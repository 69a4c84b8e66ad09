//! Host memory whose pages a device can lock: large blocks of this library, and large arrays of the
//! program.

use std::sync::OnceLock;

use crate::blocks::{Block, LARGE};
use umbo_device::backend::Backend;
use umbo_device::page_lock::PageLock;
use umbo_system::memory::PAGE;

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

/// The whole pages of an array of the program's. Its first and its last page may hold other things,
/// which the program may release at any time, so they are not locked.
pub struct LockablePages {
    start: *mut u8,
    bytes: usize,
    lock: OnceLock<Option<PageLock>>,
}

impl LockablePages {
    /// The pages within `bytes` bytes from `data` on; none of a short array.
    pub fn within(data: *mut u8, bytes: usize) -> LockablePages {
        let ahead = data.addr().wrapping_neg() % PAGE;
        let bytes = bytes.saturating_sub(ahead) / PAGE * PAGE;
        LockablePages {
            start: data.wrapping_add(ahead),
            bytes: if bytes >= LARGE { bytes } else { 0 },
            lock: OnceLock::new(),
        }
    }

    /// Locks the pages for the kind of `backend`, at the first call. Others wait for it. The memory
    /// is the host's.
    pub fn lock(&self, backend: &'static dyn Backend) {
        self.lock.get_or_init(|| {
            if self.bytes == 0 {
                return None;
            }
            // SAFETY: the owner of the memory keeps it mapped until the storage that has this is
            // dropped, and this releases the lock before.
            unsafe { PageLock::new(backend, self.start, self.bytes) }
        });
    }

    /// The lock, if the pages are locked.
    pub fn page_lock(&self) -> Option<&PageLock> {
        self.lock.get()?.as_ref()
    }
}

impl Drop for LockablePages {
    fn drop(&mut self) {
        if let Some(lock) = self.lock.take().flatten() {
            // A device that does not unlock them is lost or will be found broken at its next call;
            // the memory goes back to the program all the same.
            let _ = lock.release();
        }
    }
}
