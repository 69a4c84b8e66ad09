//! A logical GPU as a backend.

use std::ffi::c_void;

use super::gpu::Gpu;
use crate::DeviceId;
use crate::backend::{Address, Backend, Entered, KernelImages, Launch, copy_through_host};
use umbo_base::error::Result;

impl Backend for Gpu {
    fn id(&self) -> DeviceId {
        self.id()
    }

    fn physical_ordinal(&self) -> u32 {
        self.card().ordinal()
    }

    fn model(&self) -> &str {
        self.card().name()
    }

    fn allocate(&self, bytes: usize) -> Result<Address> {
        self.allocate(bytes)
    }

    unsafe fn free(&self, address: Address, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.free(address, bytes) };
    }

    fn release_kept(&self) {
        self.release_kept();
    }

    unsafe fn upload(&self, from: *const u8, to: Address, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.upload(from, to, bytes) }
    }

    unsafe fn download(&self, from: Address, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.download(from, to, bytes) }
    }

    unsafe fn download_directly(&self, from: Address, to: &mut [u8]) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.download_directly(from, to) }
    }

    unsafe fn lock_pages(&self, start: *mut u8, bytes: usize) -> Result<bool> {
        // SAFETY: the caller's promise.
        unsafe { self.lock_pages(start, bytes) }.map(|()| true)
    }

    unsafe fn unlock_pages(&self, start: *mut u8) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.unlock_pages(start) }
    }

    unsafe fn upload_locked(&self, from: *const u8, to: Address, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.upload_locked(from, to, bytes) }
    }

    unsafe fn queue_upload(&self, from: *const u8, to: Address, bytes: usize) -> Result<u64> {
        // SAFETY: the caller's promise.
        unsafe { self.queue_upload(from, to, bytes) }
    }

    fn wait_past(&self, place: u64) -> Result<()> {
        self.stream.wait_past(place)
    }

    unsafe fn download_locked(&self, from: Address, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.download_locked(from, to, bytes) }
    }

    unsafe fn queue_download(&self, from: Address, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.queue_download(from, to, bytes) }
    }

    unsafe fn copy(&self, from: Address, to: Address, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.copy(from, to, bytes) }
    }

    unsafe fn copy_from(
        &self,
        other: &dyn Backend,
        from: Address,
        to: Address,
        bytes: usize,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            match other.as_cuda() {
                Some(other) => self.copy_from(other, from, to, bytes),
                None => copy_through_host(self, other, from, to, bytes),
            }
        }
    }

    unsafe fn fill_zeros(&self, to: Address, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.fill_zeros(to, bytes) }
    }

    fn synchronize(&self) -> Result<()> {
        self.synchronize()
    }

    fn finish(&self) -> Result<()> {
        self.finish()
    }

    fn is_done(&self) -> Result<bool> {
        self.is_done()
    }

    fn load_kernels(&self, images: &KernelImages) -> Result<()> {
        self.card().kernels(images.ptx).map(drop)
    }

    unsafe fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        let kernels = self.card().loaded_kernels()?;
        // SAFETY: the caller's promise.
        unsafe { self.launch(kernels, launch) }
    }

    fn check(&self) -> Result<()> {
        self.card().check()
    }

    fn give_up(&self, why: &str) {
        self.card().give_up(why);
    }

    fn enter(&self) -> Result<Entered> {
        self.card().enter().map(Entered::from)
    }

    fn queue_handle(&self) -> *mut c_void {
        self.stream().cast()
    }

    fn as_cuda(&self) -> Option<&Gpu> {
        Some(self)
    }
}
