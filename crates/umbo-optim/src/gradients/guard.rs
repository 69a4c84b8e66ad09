//! Strict mode's checks of one replica's buffer of one variable.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use umbo_base::error::Result;
use umbo_tensor::Tensor;
use umbo_tensor::red_zone::{GuardedMemory, Patterns};

/// The checks of one replica's buffer of one variable. While a callback runs, only the replica's
/// own thread uses it.
pub(crate) struct Guard {
    pub(crate) memory: GuardedMemory,
    /// The buffer is filled with the pattern. Another content means that somebody wrote without
    /// permission.
    is_poisoned: AtomicBool,
    /// The replica has said in this step that it writes all elements.
    pub(crate) overwrites: AtomicBool,
    /// A hash of what the replica submitted.
    pub(crate) fingerprint: AtomicU64,
}

impl Guard {
    /// For `tensor`, a part of a slab that belongs to it up to byte `end`.
    pub(crate) fn new(tensor: &Tensor, end: usize) -> Result<Guard> {
        let (storage, start) = tensor.storage();
        let bytes = tensor.bytes();
        let patterns = Patterns::of(tensor.dtype());
        Ok(Guard {
            memory: GuardedMemory::around(storage, start, bytes, end, patterns)?,
            is_poisoned: AtomicBool::new(true),
            overwrites: AtomicBool::new(false),
            fingerprint: AtomicU64::new(0),
        })
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.is_poisoned.load(Ordering::Acquire)
    }

    /// Fills the buffer with the pattern: its contents are not needed any more.
    pub(crate) fn poison(&self) -> Result<()> {
        self.memory.poison()?;
        self.is_poisoned.store(true, Ordering::Release);
        Ok(())
    }

    /// The library has written the buffer, so it does not hold the pattern.
    pub(crate) fn is_in_use(&self) {
        self.is_poisoned.store(false, Ordering::Release);
    }

    /// The first view of a step, in which the replica writes all elements, or not.
    pub(crate) fn begin(&self, overwrites: bool) -> Result<()> {
        self.memory.raise()?;
        if overwrites && !self.is_poisoned() {
            self.poison()?;
        }
        self.overwrites.store(overwrites, Ordering::Release);
        self.is_in_use();
        Ok(())
    }
}
