//! The host as a backend: its memory, in which work is done when it is queued.

use std::alloc::{self, Layout};
use std::ffi::c_void;
use std::ptr;

use crate::DeviceId;
use crate::backend::{Address, Backend, Entered, KernelImages, Launch};
use umbo_base::error::{Error, Result};

/// The alignment of memory of the host: that of a cache line.
const ALIGNMENT: usize = 64;

/// The host, on behalf of all logical CPUs, which have the same memory. Nothing waits in its queue,
/// and its kernels are the loops of `umbo-kernels`, which need no launches.
#[derive(Debug)]
pub struct Cpu;

fn layout(bytes: usize) -> Result<Layout> {
    // Allocators do not allocate 0 bytes.
    Layout::from_size_align(bytes.max(1), ALIGNMENT).map_err(|_| exhausted(bytes))
}

fn exhausted(bytes: usize) -> Error {
    Error::no_bytes(bytes, format!("on {}", DeviceId::HOST))
}

fn pointer(address: Address) -> *mut u8 {
    ptr::with_exposed_provenance_mut(address as usize)
}

impl Backend for Cpu {
    fn id(&self) -> DeviceId {
        DeviceId::HOST
    }

    fn physical_ordinal(&self) -> u32 {
        0
    }

    fn model(&self) -> &str {
        "the host"
    }

    fn allocate(&self, bytes: usize) -> Result<Address> {
        // SAFETY: the layout's size is not zero.
        let memory = unsafe { alloc::alloc(layout(bytes)?) };
        if memory.is_null() {
            return Err(exhausted(bytes));
        }
        Ok(memory.expose_provenance() as Address)
    }

    unsafe fn free(&self, address: Address, bytes: usize) {
        if let Ok(layout) = layout(bytes) {
            // SAFETY: the caller's promise; it was allocated with this layout.
            unsafe { alloc::dealloc(pointer(address), layout) };
        }
    }

    unsafe fn upload(&self, from: *const u8, to: Address, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { ptr::copy(from, pointer(to), bytes) };
        Ok(())
    }

    unsafe fn download(&self, from: Address, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { ptr::copy(pointer(from), to, bytes) };
        Ok(())
    }

    unsafe fn copy(&self, from: Address, to: Address, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.upload(pointer(from), to, bytes) }
    }

    unsafe fn copy_from(
        &self,
        other: &dyn Backend,
        from: Address,
        to: Address,
        bytes: usize,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { other.download(from, pointer(to), bytes) }
    }

    unsafe fn fill_zeros(&self, to: Address, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { ptr::write_bytes(pointer(to), 0, bytes) };
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn load_kernels(&self, _: &KernelImages) -> Result<()> {
        Ok(())
    }

    unsafe fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        let kernel = launch.kernel;
        Err(Error::Internal(format!(
            "{kernel} was launched on the host, which has loops instead"
        )))
    }

    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// The host cannot be lost: what failed in its memory is the caller's to report.
    fn give_up(&self, _: &str) {}

    fn enter(&self) -> Result<Entered> {
        Ok(Entered::unchanged())
    }

    fn queue_handle(&self) -> *mut c_void {
        ptr::null_mut()
    }
}
