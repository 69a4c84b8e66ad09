//! The trait of devices, whatever their kind: memory, copies, a queue, launches, and whether a
//! device still works.
//!
//! Each opened device is a [`Backend`]. The host's is [`Cpu`](crate::cpu::Cpu), a CUDA card's is
//! [`Gpu`](crate::cuda::gpu::Gpu), and a program's own come from the kinds that it registers
//! ([`kinds`](crate::kinds)). Nothing above this crate distinguishes them, with these exceptions:
//!
//! | place | why it names a kind |
//! |---|---|
//! | `is_host_memory` | loops read and write memory of the host directly |
//! | `umbo-comm`, `nccl/joining` | NCCL takes CUDA's own handles ([`Backend::as_cuda`]) |
//! | `umbo-tensor`, `dlpack` | page-locked memory of CUDA is memory of the host |
//! | C layer, `nouns/device` | the constants of the C API are numbers of kinds |
//! | C layer, `nouns/diagnostics` | "cuda" is the name of a feature, which programs ask for |
//! | tool, `doctor`, `gpu` | examines the GPUs of CUDA and their compute capability |
//! | tool, `devices`, `bench/device` | says why there is no GPU, names GPUs as what can be given |
//!
//! **All work on the memory of a device goes through its one queue**, in the order in which it is
//! queued: copies, kernels, and what a replica's callback queues. So work on one device needs no
//! event, and memory is freed in the same order in which it is used. Two devices wait for each
//! other where data goes from one to the other ([`Backend::copy_from`]).
//! Calls return once their work is queued; only copies to the host wait.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;

use crate::DeviceId;
use crate::cuda::gpu::Gpu;
use umbo_base::error::{Result, memory};

/// An address in the memory of a device.
pub type Address = u64;

/// The kernels of this library in each form that a kind of device can take them in.
#[derive(Clone, Copy, Debug)]
pub struct KernelImages {
    /// The text of all kernels as PTX, which is unpacked at the first call.
    pub ptx: fn() -> &'static str,
}

/// The bytes that are copied at once between devices of different kinds.
const PART: usize = 4 << 20;

/// One launch of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The name of the kernel.
    pub kernel: &'a str,
    /// The number of blocks.
    pub blocks: u32,
    /// The number of threads each block has.
    pub threads: u32,
    /// The kernel's arguments, in order. An argument that is shorter than a word is in the lower
    /// part of its word. Tables of operands are passed by their addresses.
    pub arguments: &'a [u64],
}

/// An opened device. It lives until the process ends, and any thread may call it.
///
/// Each function fails with UNAVAILABLE once the device is lost.
pub trait Backend: fmt::Debug + Send + Sync {
    /// Its name among devices.
    fn id(&self) -> DeviceId;

    /// The number of the physical device of which it is a part, among those of its kind. Devices
    /// with the same number have the same memory, and are lost together.
    fn physical_ordinal(&self) -> u32;

    /// The name of its model.
    fn model(&self) -> &str;

    /// Reserves `bytes` bytes with arbitrary contents, from a multiple of 64 on.
    ///
    /// Fails with RESOURCE_EXHAUSTED, naming the device, the request and what is left, if the
    /// device or its budget does not have enough memory.
    fn allocate(&self, bytes: usize) -> Result<Address>;

    /// Frees memory once the queue has come past everything that was queued before. A failure is
    /// not reported: the next call reports it.
    ///
    /// # Safety
    /// [`Backend::allocate`] returned the address for as many bytes, which are freed only once.
    unsafe fn free(&self, address: Address, bytes: usize);

    /// Frees the memory that the device keeps only to use it again.
    fn release_kept(&self) {}

    /// Copies from the host. It returns once the source may be written again. The copy to the
    /// device may still be queued then, before all work that is queued next.
    ///
    /// # Safety
    /// The source can be read, and the target is memory of this device that stays until the queue
    /// has come past the copy.
    unsafe fn upload(&self, from: *const u8, to: Address, bytes: usize) -> Result<()>;

    /// Copies to the host, after all work that was queued, and waits for the copy.
    ///
    /// # Safety
    /// The source is memory of this device, and the target can be written.
    unsafe fn download(&self, from: Address, to: *mut u8, bytes: usize) -> Result<()>;

    /// The same for a few bytes. It needs no memory that could be refused.
    ///
    /// # Safety
    /// As for [`Backend::download`].
    unsafe fn download_directly(&self, from: Address, to: &mut [u8]) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.download(from, to.as_mut_ptr(), to.len()) }
    }

    /// Locks whole pages of the host, so that all devices of this kind can read and write them
    /// themselves. False if devices of this kind lock nothing. Called by
    /// [`PageLock`](crate::page_lock::PageLock).
    ///
    /// # Safety
    /// The pages stay mapped until [`Backend::unlock_pages`].
    unsafe fn lock_pages(&self, _start: *mut u8, _bytes: usize) -> Result<bool> {
        Ok(false)
    }

    /// Unlocks pages that this device has locked.
    ///
    /// # Safety
    /// [`Backend::lock_pages`] has locked them from this address on, and no copy uses them any
    /// more.
    unsafe fn unlock_pages(&self, _start: *mut u8) -> Result<()> {
        Ok(())
    }

    /// Copies from locked pages of the host as [`Backend::upload`] does, and waits for the copy.
    ///
    /// # Safety
    /// As for [`Backend::upload`]; the source lies in pages that are locked for this kind of
    /// device, whose lock [notes](crate::page_lock::PageLock::note) the outcome.
    unsafe fn upload_locked(&self, from: *const u8, to: Address, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.upload(from, to, bytes) }
    }

    /// Queues a copy from locked pages of the host and does not wait for it. Returns its place,
    /// for [`Backend::wait_past`]. If this fails, no copy uses the source, or the device is lost.
    ///
    /// A kind of device that has no such copies makes the copy at once.
    ///
    /// # Safety
    /// As for [`Backend::upload_locked`]; nobody writes or unlocks the source before the queue has
    /// come past the place.
    unsafe fn queue_upload(&self, from: *const u8, to: Address, bytes: usize) -> Result<u64> {
        // SAFETY: the caller's promise.
        unsafe { self.upload_locked(from, to, bytes) }.map(|()| 0)
    }

    /// Waits until the queue has come past a copy of [`Backend::queue_upload`], and asks the device
    /// for it only if no other call has waited for as much. If this fails, the device is lost.
    fn wait_past(&self, _place: u64) -> Result<()> {
        Ok(())
    }

    /// Copies to locked pages of the host as [`Backend::download`] does.
    ///
    /// # Safety
    /// As for [`Backend::download`]; the target lies in pages that are locked for this kind of
    /// device, whose lock [notes](crate::page_lock::PageLock::note) the outcome.
    unsafe fn download_locked(&self, from: Address, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.download(from, to, bytes) }
    }

    /// Queues a copy to locked pages of the host and does not wait for it.
    ///
    /// A kind of device that has no such copies makes the copy at once.
    ///
    /// # Safety
    /// As for [`Backend::download_locked`]; nobody reads, writes or unlocks the target before
    /// [`Backend::finish`] has returned, also if this fails.
    unsafe fn queue_download(&self, from: Address, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.download_locked(from, to, bytes) }
    }

    /// Queues a copy of memory of this device within it; the ranges do not overlap.
    ///
    /// # Safety
    /// Both ranges are memory of this device that stays until the queue has come past the copy.
    unsafe fn copy(&self, from: Address, to: Address, bytes: usize) -> Result<()>;

    /// Queues a copy from another device to this one. The copy comes after all work that both have
    /// queued so far. Work that the other device queues next comes after the copy, also if this
    /// fails.
    ///
    /// A kind of device without a way of its own calls [`copy_through_host`].
    ///
    /// # Safety
    /// Each range is memory of the device to which the arguments assign it, and stays until the
    /// queues of both have come past the copy.
    unsafe fn copy_from(
        &self,
        other: &dyn Backend,
        from: Address,
        to: Address,
        bytes: usize,
    ) -> Result<()>;

    /// Queues the filling of a range with zeros.
    ///
    /// # Safety
    /// The range is memory of this device that stays until the queue has come past it.
    unsafe fn fill_zeros(&self, to: Address, bytes: usize) -> Result<()>;

    /// Waits until everything that was queued is done. Errors of that work are reported here.
    fn synchronize(&self) -> Result<()>;

    /// Waits like [`Backend::synchronize`]. Used before something is released that queued work
    /// uses, if nothing else says how long it is used. A failure may belong to an earlier call, so
    /// the wait is tried again. A device that cannot be waited for is lost: nothing on it is freed
    /// or written any more.
    fn finish(&self) -> Result<()> {
        let finished = self.synchronize().or_else(|_| self.synchronize());
        finished.inspect_err(|_| self.give_up("what it does could not be waited for"))
    }

    /// Whether everything that was queued is done. It does not wait where the device can be asked.
    /// Errors of that work are reported here.
    fn is_done(&self) -> Result<bool> {
        self.synchronize().map(|()| true)
    }

    /// Loads the kernels, of which all calls have the same images. A launch then needs no memory
    /// that could be refused.
    fn load_kernels(&self, images: &KernelImages) -> Result<()>;

    /// Queues a kernel.
    ///
    /// # Safety
    /// The kernels are loaded. The arguments are those of the kernel, in number, order and type.
    /// The memory that the kernel reads and writes lies on this device and stays until the queue
    /// has come past the kernel.
    unsafe fn launch(&self, launch: &Launch<'_>) -> Result<()>;

    /// Fails if the device is lost.
    fn check(&self) -> Result<()>;

    /// Makes the device unusable, because its contents are no longer reliable.
    fn give_up(&self, why: &str);

    /// Prepares this thread for a function of the program that uses the device's own interface: it
    /// makes the device's context current, say. Dropping the result undoes that.
    fn enter(&self) -> Result<Entered>;

    /// The handle of the queue in the device's own interface, for programs that queue their own
    /// work; null if there is none.
    fn queue_handle(&self) -> *mut c_void;

    /// The device as a GPU of CUDA, for libraries that take CUDA's own handles.
    fn as_cuda(&self) -> Option<&Gpu> {
        None
    }
}

/// A function that undoes a preparation, and its argument.
type Undo = (fn(*mut c_void), *mut c_void);

/// While this lives, a thread is prepared for functions that use a device's own interface.
#[derive(Debug)]
pub struct Entered {
    leave: Option<Undo>,
    _of_this_thread: PhantomData<*const ()>,
}

impl Entered {
    /// Nothing was necessary, and nothing is to be undone.
    pub fn unchanged() -> Entered {
        Entered {
            leave: None,
            _of_this_thread: PhantomData,
        }
    }

    /// `leave` is called with `before` when this is dropped.
    pub fn until(leave: fn(*mut c_void), before: *mut c_void) -> Entered {
        Entered {
            leave: Some((leave, before)),
            _of_this_thread: PhantomData,
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some((leave, before)) = self.leave {
            leave(before);
        }
    }
}

/// Copies from one device to another in parts that lie in host memory meanwhile, as
/// [`Backend::copy_from`] does.
///
/// # Safety
/// As for [`Backend::copy_from`] of `to`.
pub unsafe fn copy_through_host(
    to: &dyn Backend,
    other: &dyn Backend,
    from_address: Address,
    to_address: Address,
    bytes: usize,
) -> Result<()> {
    let mut part = memory::filled(bytes.min(PART), 0, "bytes of a copy between devices")?;
    for start in (0..bytes).step_by(PART) {
        let part = &mut part[..PART.min(bytes - start)];
        let offset = start as Address;
        // SAFETY: the caller's promise; the part is within both ranges.
        unsafe {
            other.download(from_address + offset, part.as_mut_ptr(), part.len())?;
            to.upload(part.as_ptr(), to_address + offset, part.len())?;
        }
    }
    Ok(())
}
