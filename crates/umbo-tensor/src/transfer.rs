//! Copies of elements from or to memory outside of the host, in the order of the devices' queues.
//! Elements with strides are put in order on the side where they are.

use std::ops::Range;

use crate::{Tensor, TensorMut};
use umbo_base::error::{Error, Result};
use umbo_device::backend::Backend;
use umbo_device::page_lock::PageLock;
use umbo_device::{DeviceId, registry};
use umbo_kernels::copy::layouts::check_same;
use umbo_kernels::launch::{DevicePlace, on_device};

impl Tensor {
    /// The same elements in host memory: this tensor if it lies there, else a copy. A copy waits
    /// for the device.
    pub fn on_host(&self) -> Result<Tensor> {
        match self.backend()? {
            None => Ok(self.clone()),
            Some(_) => self.copied_to(DeviceId::HOST),
        }
    }

    /// Says that the elements, if they are in host memory, are copied from or to `device` at each
    /// step: their pages are locked, as
    /// [`Storage::lock_pages`](crate::storage::Storage::lock_pages) says.
    pub fn lock_pages_for(&self, device: DeviceId) -> Result<()> {
        if self.device().is_host_memory() && !device.is_host_memory() {
            self.storage().0.lock_pages(registry::backend(device)?);
        }
        Ok(())
    }

    /// A contiguous copy in memory of `device`.
    pub fn copied_to(&self, device: DeviceId) -> Result<Tensor> {
        let copy = Tensor::uninitialized(self.dtype(), self.shape(), device)?;
        // SAFETY: nobody else has the copy before it is returned.
        unsafe { copy.assume_exclusive() }.copy_from(self)?;
        Ok(copy)
    }

    /// The device that has the elements; `None` if they are in host memory, which loops read and
    /// write directly.
    #[inline]
    pub(crate) fn backend(&self) -> Result<Option<&'static dyn Backend>> {
        if self.device().is_host_memory() {
            return Ok(None);
        }
        match self.storage().0.backend() {
            Some(backend) => Ok(Some(backend)),
            None => registry::backend(self.device()).map(Some),
        }
    }

    /// The address of the first element on its device.
    fn on_device(&self) -> u64 {
        self.address().addr() as u64
    }

    /// The elements in the form that kernels of its device use.
    pub fn place(&self) -> DevicePlace {
        DevicePlace {
            address: self.on_device(),
            dtype: self.dtype(),
            layout: *self.layout(),
        }
    }

    /// The bytes from the first element to the end of the last one.
    fn span_bytes(&self) -> usize {
        match self.shape().elements() {
            0 => 0,
            _ => self.layout().extent() * self.dtype().size(),
        }
    }
}

impl TensorMut<'_> {
    /// Calls `write` to change the elements in host memory: these elements if they lie there, else
    /// a contiguous copy that replaces them. If `reads`, the copy starts with the elements,
    /// else with arbitrary contents.
    pub(crate) fn through_host(
        &mut self,
        reads: bool,
        write: impl FnOnce(&mut TensorMut) -> Result<()>,
    ) -> Result<()> {
        if self.tensor.device().is_host_memory() {
            return write(self);
        }
        self.check_writable()?;
        let host = match reads {
            true => self.tensor.on_host()?.to_contiguous()?,
            false => Tensor::uninitialized(self.dtype(), self.shape(), DeviceId::HOST)?,
        };
        // SAFETY: nobody else has the copy.
        write(&mut unsafe { host.assume_exclusive() })?;
        copy(&host, self)
    }
}

/// Writes the elements of `from` to `to`. At least one of the tensors is outside of host memory,
/// and they share no memory.
pub(super) fn copy(from: &Tensor, to: &mut TensorMut) -> Result<()> {
    check_same((from.dtype(), from.shape()), (to.dtype(), to.shape()))?;
    to.check_writable()?;
    let source = from.backend()?;
    let target = to.tensor.backend()?;
    if let (Some(backend), Some(other)) = (source, target)
        && backend.id() == other.id()
    {
        let pair = (from.place(), to.tensor.place());
        // SAFETY: the elements are those of the tensors, which do not overlap, and whose memory is
        // freed in the order of the queue. `to` has the right to write its own.
        return on_device(backend, |launcher| unsafe { launcher.copy(&[pair]) });
    }
    // A copy between devices needs contiguous elements on both sides.
    let from = &from.to_contiguous()?;
    if !to.tensor.layout().is_contiguous() {
        let dense = Tensor::uninitialized(to.dtype(), to.shape(), to.device())?;
        // SAFETY: nobody else has it.
        copy(from, &mut unsafe { dense.assume_exclusive() })?;
        return to.copy_from(&dense);
    }
    let bytes = from.span_bytes();
    let source_device = from.on_device();
    let target_device = to.tensor.on_device();
    // SAFETY: as above.
    unsafe {
        match (source, target) {
            (None, Some(target)) => {
                let lock = from.storage().0.page_lock();
                let from = from.address();
                parts(lock, from, bytes).try_for_each(|Part { start, bytes, lock }| {
                    let from = from.add(start);
                    let to = target_device + start as u64;
                    match lock {
                        Some(lock) => lock.note(target, target.upload_locked(from, to, bytes)),
                        None => target.upload(from, to, bytes),
                    }
                })
            }
            (Some(source), None) => {
                let lock = to.tensor.storage().0.page_lock();
                let to = to.tensor.address();
                parts(lock, to, bytes).try_for_each(|Part { start, bytes, lock }| {
                    let from = source_device + start as u64;
                    let to = to.add(start);
                    match lock {
                        Some(lock) => lock.note(source, source.download_locked(from, to, bytes)),
                        None => source.download(from, to, bytes),
                    }
                })
            }
            (Some(source), Some(target)) => {
                target.copy_from(source, source_device, target_device, bytes)
            }
            (None, None) => to.copy_from(from),
        }
    }
}

/// Bytes of a copy between the host and a device that are all in locked pages of the host, or all
/// in other pages.
struct Part<'a> {
    start: usize,
    bytes: usize,
    /// The lock of the pages, if they are locked.
    lock: Option<&'a PageLock>,
}

/// The parts of a copy from or to `bytes` bytes of the host, the locked one last. A lock may leave
/// out the ends: memory of the program's shares its first and its last page with other memory, and
/// these stay unlocked.
fn parts(
    lock: Option<&PageLock>,
    address: *const u8,
    bytes: usize,
) -> impl Iterator<Item = Part<'_>> {
    let start = address.addr();
    let end = start + bytes;
    let locked = lock.map_or(end..end, PageLock::addresses);
    let locked = locked.start.clamp(start, end)..locked.end.clamp(start, end);
    let all = [
        (start..locked.start, None),
        (locked.end..end, None),
        (locked, lock),
    ];
    // A copy of nothing still finds out whether the device is lost.
    let first = if bytes == 0 { 2 } else { 0 };
    let parts = all.into_iter().skip(first);
    let parts = parts.filter(move |(range, _)| !range.is_empty() || bytes == 0);
    parts.map(move |(range, lock)| Part {
        start: range.start - start,
        bytes: range.len(),
        lock,
    })
}

/// Copies elements `range` of `from`, in host memory, to the same place in `to`, on a device. What
/// lies in locked pages is queued and not waited for: the result is the device and the place of the
/// last such copy in its queue. `None` if nothing is queued that still reads `from`. If this fails,
/// nothing reads it, or the device is lost.
///
/// # Safety
/// Both tensors are contiguous, of one dtype and shape. Nobody else reads or writes `to`, except by
/// work that its device queues later. `from` is not written before the queue has come past the
/// place.
pub(crate) unsafe fn queue_upload(
    from: &Tensor,
    to: &Tensor,
    range: Range<usize>,
) -> Result<Option<(&'static dyn Backend, u64)>> {
    let Some(backend) = to.backend()? else {
        return Err(Error::Internal("an upload to host memory".into()));
    };
    let size = from.dtype().size();
    let offset = range.start * size;
    let source = from.address().wrapping_add(offset);
    let target = to.on_device() + offset as u64;
    let lock = from.storage().0.page_lock();
    let mut last = None;
    // The locked part is the last one: if it fails, nothing was queued before.
    for Part { start, bytes, lock } in parts(lock, source, range.len() * size) {
        // SAFETY: the caller's promise; the part is within both tensors.
        unsafe {
            let from = source.add(start);
            let to = target + start as u64;
            match lock {
                Some(lock) => {
                    let queued = lock.note(backend, backend.queue_upload(from, to, bytes))?;
                    last = Some((backend, queued));
                }
                None => backend.upload(from, to, bytes)?,
            }
        }
    }
    Ok(last)
}
