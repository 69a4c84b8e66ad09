//! Pages of the host that a device may read and write itself, because they stay where they are.
//!
//! Memory that goes over the bus at each step is locked, so that no processor copies it through
//! other blocks on the way. Locked pages cannot be swapped out, so at most half of the host's
//! memory is locked. Where more is asked for, or a device refuses, copies take the way through
//! blocks.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::backend::Backend;
use umbo_base::observe::log::{self, Level};

/// How many bytes are locked.
static LOCKED: AtomicU64 = AtomicU64::new(0);

/// A range of pages that a device has locked, until [`PageLock::release`].
pub struct PageLock {
    backend: &'static dyn Backend,
    start: usize,
    bytes: usize,
    /// A device that is lost may still write the pages.
    is_abandoned: AtomicBool,
}

impl fmt::Debug for PageLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} locked bytes, {}", self.bytes, self.backend.id())
    }
}

impl PageLock {
    /// Locks whole pages for the copies of all devices of the kind of `backend`. `None` if they are
    /// not locked: the log says why, unless devices of this kind lock nothing.
    ///
    /// # Safety
    /// The pages stay mapped until the lock is released.
    pub unsafe fn new(
        backend: &'static dyn Backend,
        start: *mut u8,
        bytes: usize,
    ) -> Option<PageLock> {
        let refused = |why: String| {
            log::keep(Level::Warning, || {
                format!(
                    "{bytes} bytes of the host that are copied from or to {} at each step stay \
                     unlocked, so that a processor copies them, too: {why}",
                    backend.id()
                )
            });
        };
        let locked = LOCKED.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        let limit = umbo_system::memory::size().map_or(0, |size| size.total / 2);
        // SAFETY: the caller's promise.
        let lock = || unsafe { backend.lock_pages(start, bytes) };
        let found = match locked <= limit {
            true => lock().map_err(|error| refused(error.to_string())),
            false => {
                refused(format!(
                    "with them more than {limit} bytes, half of the host's memory, would be locked"
                ));
                Ok(false)
            }
        };
        if let Ok(true) = found {
            return Some(PageLock {
                backend,
                start: start.expose_provenance(),
                bytes,
                is_abandoned: AtomicBool::new(false),
            });
        }
        LOCKED.fetch_sub(bytes as u64, Ordering::Relaxed);
        None
    }

    /// The addresses of the locked bytes.
    pub fn addresses(&self) -> Range<usize> {
        self.start..self.start + self.bytes
    }

    /// Notes the outcome of a copy from or to the pages: a device that is lost during one may still
    /// use them.
    pub fn note<T, E>(&self, backend: &dyn Backend, copied: Result<T, E>) -> Result<T, E> {
        if copied.is_err() && backend.check().is_err() {
            self.is_abandoned.store(true, Ordering::Release);
        }
        copied
    }

    /// Unlocks the pages, and returns whether they can be used for something else, or be unmapped.
    /// No copy uses them any more. If a device does not unlock them, they stay as they are.
    #[must_use]
    pub fn release(self) -> bool {
        if self.is_abandoned.load(Ordering::Acquire) {
            return false;
        }
        let start = std::ptr::with_exposed_provenance_mut(self.start);
        // SAFETY: this device has locked them, and this is the only place that unlocks them.
        let unlocked = unsafe { self.backend.unlock_pages(start) }.is_ok();
        if unlocked {
            LOCKED.fetch_sub(self.bytes as u64, Ordering::Relaxed);
        }
        unlocked
    }
}

/// How many bytes are locked.
pub fn locked_bytes() -> u64 {
    LOCKED.load(Ordering::Relaxed)
}
