//! Copies of elements from or to memory outside of the host, in the order of the devices' queues.
//! Elements with strides are put in order on the side where they are.

use crate::{Tensor, TensorMut};
use umbo_base::error::Result;
use umbo_device::backend::Backend;
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
            (None, Some(target)) => match from.storage().0.page_lock() {
                Some(lock) => {
                    let copied = target.upload_locked(from.address(), target_device, bytes);
                    lock.note(target, copied)
                }
                None => target.upload(from.address(), target_device, bytes),
            },
            (Some(source), None) => match to.tensor.storage().0.page_lock() {
                Some(lock) => {
                    let to = to.tensor.address();
                    lock.note(source, source.download_locked(source_device, to, bytes))
                }
                None => source.download(source_device, to.tensor.address(), bytes),
            },
            (Some(source), Some(target)) => {
                target.copy_from(source, source_device, target_device, bytes)
            }
            (None, None) => to.copy_from(from),
        }
    }
}
