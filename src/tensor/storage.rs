//! Memory that tensors share: who owns it, where it lies, how long it is.

use std::alloc::{self, Layout as Allocation};
use std::any::Any;
use std::ptr::{self, NonNull};

use crate::device::DeviceId;
use crate::error::{Error, Result};

/// Every allocation starts at a cache line.
pub const ALIGNMENT: usize = 64;

/// From this size on, memory is worth large pages.
const HUGE_PAGE: usize = 2 << 20;

/// A range of one device's memory and its owner.
pub struct Storage {
    data: NonNull<u8>,
    bytes: usize,
    device: DeviceId,
    owner: Owner,
}

enum Owner {
    /// Allocated here, from `first` on with this layout.
    Here { first: NonNull<u8>, layout: Allocation },
    /// Somebody else's; dropping the box tells them that it is no longer used.
    Foreign { _owner: Box<dyn Any + Send + Sync>, read_only: bool },
}

// SAFETY: a storage is an address range and its owner. The elements are reached only through raw
// pointers and `unsafe` views, whose users vouch for the absence of races; the owner is `Send` and
// `Sync`, and the fields here never change.
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

impl Storage {
    /// `bytes` zeros. Of large ones, those that nobody has touched yet need no memory, only
    /// addresses.
    pub fn zeroed(bytes: usize, device: DeviceId) -> Result<Storage> {
        if bytes < HUGE_PAGE {
            // SAFETY: `allocate` calls this with a layout of non-zero size.
            return Storage::allocate(bytes, 0, ALIGNMENT, device, |layout| unsafe {
                alloc::alloc_zeroed(layout)
            });
        }
        // The system's allocator takes zeros from the kernel, but for alignments that are not its
        // own it writes them itself. So the storage starts at the first huge page in a larger
        // allocation.
        // SAFETY: as above.
        Storage::allocate(bytes, HUGE_PAGE, align_of::<u64>(), device, |layout| unsafe {
            alloc::alloc_zeroed(layout)
        })
    }

    /// `bytes` bytes of whatever was in memory.
    pub fn uninitialized(bytes: usize, device: DeviceId) -> Result<Storage> {
        // Large blocks are aligned to a huge page so that all of them can be one.
        let alignment = if bytes >= HUGE_PAGE { HUGE_PAGE } else { ALIGNMENT };
        // SAFETY: `allocate` calls this with a layout of non-zero size.
        Storage::allocate(bytes, 0, alignment, device, |layout| unsafe { alloc::alloc(layout) })
    }

    /// The bytes from the first multiple of `slack` on (of 1 if that is 0) in an allocation of this
    /// alignment and as many bytes more.
    fn allocate(
        bytes: usize,
        slack: usize,
        alignment: usize,
        device: DeviceId,
        allocate: impl FnOnce(Allocation) -> *mut u8,
    ) -> Result<Storage> {
        if !device.is_host_memory() {
            return Err(Error::Unimplemented(format!("memory of {device} in this version")));
        }
        let exhausted = || Error::ResourceExhausted(format!("{bytes} bytes of memory on {device}"));
        let whole = bytes.max(1).checked_add(slack).ok_or_else(exhausted)?;
        let layout = Allocation::from_size_align(whole, alignment).map_err(|_| exhausted())?;
        let first = NonNull::new(allocate(layout)).ok_or_else(exhausted)?;
        let distance = first.addr().get().next_multiple_of(slack.max(1)) - first.addr().get();
        // SAFETY: less than `slack`, so that `bytes` bytes of the allocation are left.
        let data = unsafe { first.add(distance) };
        if bytes >= HUGE_PAGE {
            // Advice only: without it the memory works the same, on small pages.
            // SAFETY: the range was just allocated and is ours alone.
            unsafe { libc::madvise(data.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        }
        Ok(Storage { data, bytes, device, owner: Owner::Here { first, layout } })
    }

    /// Memory that somebody else owns. `owner` is dropped, once, with the last tensor over it.
    ///
    /// # Safety
    /// From `data` on `bytes` bytes stay valid, and initialised, until `owner` is dropped; they
    /// are written only if `read_only` is false. `data` may be null if `bytes` is 0.
    pub unsafe fn foreign(
        data: *mut u8,
        bytes: usize,
        device: DeviceId,
        read_only: bool,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Storage {
        let data = NonNull::new(data).unwrap_or(NonNull::<u64>::dangling().cast());
        Storage { data, bytes, device, owner: Owner::Foreign { _owner: owner, read_only } }
    }

    /// The first byte.
    pub fn data(&self) -> *mut u8 {
        self.data.as_ptr()
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where they lie.
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// Whether they may only be read.
    pub fn is_read_only(&self) -> bool {
        matches!(self.owner, Owner::Foreign { read_only: true, .. })
    }

    /// Fills a storage that nobody else knows yet.
    pub(super) fn write(&self, bytes: &[u8]) -> Result<()> {
        assert!(bytes.len() <= self.bytes && matches!(self.owner, Owner::Here { .. }));
        // SAFETY: the range is ours, at least as long as `bytes`, and cannot overlap with a slice
        // that existed before it.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.data(), bytes.len()) };
        Ok(())
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Owner::Here { first, layout } = self.owner {
            // SAFETY: `first` came from the allocator with this layout and is freed only here.
            unsafe { alloc::dealloc(first.as_ptr(), layout) };
        }
    }
}
