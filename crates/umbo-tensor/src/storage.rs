//! Memory that tensors share: its owner, its place and its length.

use std::alloc::{self, Layout as Allocation};
use std::any::Any;
use std::ptr::{self, NonNull};

use crate::blocks::{self, Block, LARGE};
use crate::lockable_block::{LockableBlock, LockablePages};
use umbo_base::error::{Error, Result};
use umbo_device::backend::Backend;
use umbo_device::memory::DeviceMemory;
use umbo_device::page_lock::PageLock;
use umbo_device::{DeviceId, registry};

/// Every allocation starts at a cache line.
pub const ALIGNMENT: usize = 64;

/// The alignment that allocators give to every allocation.
const USUAL_ALIGNMENT: usize = 16;

/// A range of one device's memory and its owner.
pub struct Storage {
    data: NonNull<u8>,
    bytes: usize,
    device: DeviceId,
    owner: MemoryOwner,
}

enum MemoryOwner {
    /// The aligned part of an allocation that begins at `start`.
    Small {
        start: NonNull<u8>,
        layout: Allocation,
    },
    /// A separate block.
    Large { block: LockableBlock },
    /// Memory of a device that the host cannot address.
    Device { memory: DeviceMemory },
    /// Memory of another owner. The box is dropped once nobody uses the memory, devices
    /// included.
    Foreign {
        pages: LockablePages,
        _owner: Box<dyn Any + Send + Sync>,
        read_only: bool,
    },
}

// SAFETY: a storage is an address range and its owner. The elements are reached only through raw
// pointers and `unsafe` views, whose users guarantee that there are no races. The owner is `Send`
// and `Sync`, and the fields here never change.
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

impl Storage {
    /// `bytes` zeros. Pages of large storages take no memory, only addresses, until they are first
    /// used.
    pub fn zeroed(bytes: usize, device: DeviceId) -> Result<Storage> {
        if !device.is_host_memory() {
            let storage = Storage::on_device(bytes, device)?;
            storage.fill_zeros()?;
            return Ok(storage);
        }
        // SAFETY: `allocate` calls this with a layout of non-zero size.
        let small = |layout| unsafe { alloc::alloc_zeroed(layout) };
        Storage::allocate(bytes, device, Block::zeroed, small)
    }

    /// `bytes` bytes with the contents that the memory happens to have: they are unspecified, but
    /// initialised for the compiler.
    pub fn uninitialized(bytes: usize, device: DeviceId) -> Result<Storage> {
        if !device.is_host_memory() {
            return Storage::on_device(bytes, device);
        }
        // SAFETY: `allocate` calls this with a layout of non-zero size.
        let small = |layout| opaque(unsafe { uninitialized_block(layout) });
        Storage::allocate(bytes, device, Block::uninitialized, small)
    }

    /// Memory that the host cannot address, with arbitrary contents.
    fn on_device(bytes: usize, device: DeviceId) -> Result<Storage> {
        let memory = DeviceMemory::new(registry::backend(device)?, bytes)?;
        let data = ptr::without_provenance_mut(memory.address() as usize);
        let data = NonNull::new(data)
            .ok_or_else(|| Error::Internal("a device gave memory at address 0".into()))?;
        Ok(Storage {
            data,
            bytes,
            device,
            owner: MemoryOwner::Device { memory },
        })
    }

    fn fill_zeros(&self) -> Result<()> {
        let MemoryOwner::Device { memory } = &self.owner else {
            return Ok(());
        };
        // SAFETY: the range is the memory's, which is freed in the order of its queue.
        unsafe { memory.backend().fill_zeros(memory.address(), self.bytes) }
    }

    fn allocate(
        bytes: usize,
        device: DeviceId,
        large: impl FnOnce(usize) -> Option<Block>,
        small: impl Fn(Allocation) -> *mut u8,
    ) -> Result<Storage> {
        let exhausted = || exhausted(bytes, device);
        if bytes >= LARGE {
            let block = large(bytes).ok_or_else(exhausted)?;
            let data = NonNull::new(block.data()).ok_or_else(exhausted)?;
            return Ok(Storage {
                data,
                bytes,
                device,
                owner: MemoryOwner::Large {
                    block: block.into(),
                },
            });
        }
        // Allocators get memory of their own usual alignment quickly, and memory of a larger
        // alignment slowly.
        let whole = bytes + ALIGNMENT;
        let layout = Allocation::from_size_align(whole, USUAL_ALIGNMENT);
        let layout = layout.map_err(|_| exhausted())?;
        let start = blocks::or_once_more(|| NonNull::new(small(layout))).ok_or_else(exhausted)?;
        let ahead = start.as_ptr().addr().wrapping_neg() % ALIGNMENT;
        // SAFETY: `ahead` is less than `ALIGNMENT` bytes, and the allocation is `ALIGNMENT` bytes
        // longer than `bytes`.
        let data = unsafe { start.add(ahead) };
        Ok(Storage {
            data,
            bytes,
            device,
            owner: MemoryOwner::Small { start, layout },
        })
    }

    /// Memory of another owner. `owner` is dropped, once, with the last tensor over it.
    ///
    /// # Safety
    /// `data` is an address of `device`. From it on, `bytes` bytes stay valid and initialised until
    /// `owner` is dropped. They are written only if `read_only` is false. `data` may be null if
    /// `bytes` is 0. A caller that writes them other than through tensors follows the rule of
    /// [`crate`]: nobody reads or writes them meanwhile.
    pub unsafe fn foreign(
        data: *mut u8,
        bytes: usize,
        device: DeviceId,
        read_only: bool,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Storage {
        let data = NonNull::new(data).unwrap_or(NonNull::<u64>::dangling().cast());
        Storage {
            data,
            bytes,
            device,
            owner: MemoryOwner::Foreign {
                pages: LockablePages::within(data.as_ptr(), bytes),
                _owner: owner,
                read_only,
            },
        }
    }

    /// The device's address of the first byte. The host may use it if the memory is the host's.
    pub fn address(&self) -> *mut u8 {
        self.data.as_ptr()
    }

    /// The number of bytes it has.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The device of the bytes.
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// The device on which the library has allocated the bytes, unless they are the host's.
    pub(crate) fn backend(&self) -> Option<&'static dyn Backend> {
        match &self.owner {
            MemoryOwner::Device { memory } => Some(memory.backend()),
            _ => None,
        }
    }

    /// Locks the bytes in the host's memory, since they are copied from or to devices of the kind
    /// of `backend` at each step: such a device then copies them itself. Small storages stay as
    /// they are. Of memory of another owner those pages are locked on which nothing else lies: they
    /// stay mapped as long as this storage uses them.
    pub fn lock_pages(&self, backend: &'static dyn Backend) {
        match &self.owner {
            MemoryOwner::Large { block } => block.lock(backend),
            MemoryOwner::Foreign { pages, .. } if self.device.is_host_memory() => {
                pages.lock(backend);
            }
            _ => {}
        }
    }

    /// The lock of the bytes, or of most of them, if they are locked.
    pub(crate) fn page_lock(&self) -> Option<&PageLock> {
        match &self.owner {
            MemoryOwner::Large { block } => block.page_lock(),
            MemoryOwner::Foreign { pages, .. } => pages.page_lock(),
            _ => None,
        }
    }

    /// Whether the bytes may only be read.
    pub fn is_read_only(&self) -> bool {
        matches!(
            self.owner,
            MemoryOwner::Foreign {
                read_only: true,
                ..
            }
        )
    }

    /// Whether the library has allocated the bytes for this storage.
    pub fn is_own(&self) -> bool {
        !matches!(self.owner, MemoryOwner::Foreign { .. })
    }

    /// Writes bytes to a storage that nobody else uses yet.
    pub(super) fn write(&self, bytes: &[u8]) -> Result<()> {
        assert!(bytes.len() <= self.bytes && !matches!(self.owner, MemoryOwner::Foreign { .. }));
        if let MemoryOwner::Device { memory } = &self.owner {
            // SAFETY: the range is the memory's, which is freed in the order of its queue.
            return unsafe {
                memory
                    .backend()
                    .upload(bytes.as_ptr(), memory.address(), bytes.len())
            };
        }
        // SAFETY: the range is ours and at least as long as `bytes`. It cannot overlap with a slice
        // that existed before it.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.address(), bytes.len()) };
        Ok(())
    }
}

/// Memory of the allocator with arbitrary contents.
///
/// # Safety
/// The layout's size is not zero.
unsafe fn uninitialized_block(layout: Allocation) -> *mut u8 {
    if cfg!(miri) {
        // SAFETY: the caller's promise. Miri is an interpreter and sees through `opaque`, so it
        // gets zeros.
        return unsafe { alloc::alloc_zeroed(layout) };
    }
    // SAFETY: as above.
    unsafe { alloc::alloc(layout) }
}

/// The error if there are no `bytes` bytes for a tensor on `device`. It says how much the host has
/// left only if that explains the failure: limits of the process or of a container are other
/// numbers.
#[cold]
pub(super) fn exhausted(bytes: usize, device: DeviceId) -> Error {
    let left = match device.is_host_memory() && bytes >= LARGE {
        true => registry::memory_info(DeviceId::HOST)
            .ok()
            .map(|memory| memory.available_bytes),
        false => None,
    };
    let left = left.filter(|left| *left < bytes as u64);
    let left = left.map_or_else(String::new, |left| format!(", where {left} are available"));
    Error::no_bytes(bytes, format!("on {device}{left}"))
}

/// The same memory, about which the compiler no longer assumes that nobody has written it: its
/// bytes have the values that they happen to have. (Blocks of large tensors come from the system,
/// and the compiler assumes nothing about them.)
fn opaque(memory: *mut u8) -> *mut u8 {
    // A function that returns a pointer may have written to its memory, and for the compiler
    // `black_box` is such a function.
    std::hint::black_box(memory)
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let MemoryOwner::Small { start, layout } = self.owner {
            // SAFETY: `start` came from the allocator with this layout and is freed only here.
            unsafe { alloc::dealloc(start.as_ptr(), layout) };
        }
        // The owner of a device's memory may free it at once, so all work that uses it is finished
        // first. A device that cannot be waited for no longer uses anything.
        if !self.device.is_host_memory()
            && matches!(self.owner, MemoryOwner::Foreign { .. })
            && let Ok(backend) = registry::backend(self.device)
        {
            let _ = backend.finish();
        }
    }
}
