//! Copies of elements that do not lie in host memory, or shall not.
//!
//! What is contiguous goes from memory to memory, in the order of the GPUs' streams. Elements with
//! strides are put in order by the host.

use std::sync::Arc;

use crate::device::cuda::gpu::Gpu;
use crate::device::{DeviceId, registry};
use crate::error::{Error, Result};
use crate::tensor::storage::Storage;
use crate::tensor::{Layout, Tensor, TensorMut};

impl Tensor {
    /// The same elements in host memory: this tensor if it lies there, else a copy, for which the
    /// GPU is waited for.
    pub fn on_host(&self) -> Result<Tensor> {
        match self.gpu()? {
            None => Ok(self.clone()),
            Some(gpu) => {
                let host = self.like_in_host_memory()?;
                // SAFETY: the ranges are those of the two tensors, one of which was just made.
                unsafe { gpu.download(self.on_device(), host.address(), self.span_bytes()) }?;
                Ok(host)
            }
        }
    }

    /// A contiguous copy in memory of `device`.
    pub fn copied_to(&self, device: DeviceId) -> Result<Tensor> {
        let copy = Tensor::uninitialized(self.dtype(), self.shape(), device)?;
        // SAFETY: nobody else has the copy before it is returned.
        unsafe { copy.assume_exclusive() }.copy_from(self)?;
        Ok(copy)
    }

    /// The GPU that has the elements; none if the host has.
    pub(crate) fn gpu(&self) -> Result<Option<&'static Gpu>> {
        if self.device().is_host_memory() {
            return Ok(None);
        }
        match self.storage().0.gpu() {
            Some(gpu) => Ok(Some(gpu)),
            None => registry::gpu(self.device()).map(Some),
        }
    }

    /// The address of the first element, in numbers of its GPU.
    fn on_device(&self) -> u64 {
        self.address().addr() as u64
    }

    /// The bytes from the first element to the end of the last one.
    fn span_bytes(&self) -> usize {
        match self.shape().elements() {
            0 => 0,
            _ => self.layout().extent() * self.dtype().size(),
        }
    }

    /// A tensor in host memory whose elements lie to each other as this one's do, with anything in it.
    fn like_in_host_memory(&self) -> Result<Tensor> {
        let storage = Arc::new(Storage::uninitialized(self.span_bytes(), DeviceId::HOST)?);
        Tensor::from_storage(storage, self.dtype(), *self.layout(), 0)
    }
}

impl TensorMut<'_> {
    /// Has `write` change the elements in host memory: these if they lie there, else a contiguous copy
    /// that replaces them. The copy has anything in it unless `write` `reads` the elements, too.
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

/// Writes the elements of `from` to `to`; one of them or both do not lie in host memory, and they share
/// none.
pub(super) fn copy(from: &Tensor, to: &mut TensorMut) -> Result<()> {
    if (from.dtype(), from.shape()) != (to.dtype(), to.shape()) {
        return Err(Error::invalid(
            "source",
            format!(
                "{} of shape {}; the destination is {} of shape {}",
                from.dtype(),
                from.shape(),
                to.dtype(),
                to.shape()
            ),
        ));
    }
    to.check_writable()?;
    let is_dense = |layout: &Layout| layout.is_contiguous();
    if !is_dense(to.tensor.layout()) {
        return copy_to_strided(from, to);
    }
    let from = match is_dense(from.layout()) {
        true => from.clone(),
        false => from.on_host()?.to_contiguous()?,
    };
    let (source, target, bytes) = (from.on_device(), to.tensor.on_device(), from.span_bytes());
    // SAFETY: the ranges are those of the tensors, whose memory is freed on the streams on which it is
    // used; `to` has the right to write its own.
    unsafe {
        match (from.gpu()?, to.tensor.gpu()?) {
            (None, Some(gpu)) => gpu.upload(from.address(), target, bytes),
            (Some(gpu), None) => gpu.download(source, to.tensor.address(), bytes),
            (Some(other), Some(gpu)) => gpu.copy_from(other, source, target, bytes),
            (None, None) => to.copy_from(&from),
        }
    }
}

/// The same for a target with strides. The elements between those that are written are read and
/// written back.
fn copy_to_strided(from: &Tensor, to: &mut TensorMut) -> Result<()> {
    let from = from.on_host()?;
    let Some(gpu) = to.tensor.gpu()? else { return to.copy_from(&from) };
    let host = to.tensor.on_host()?;
    // SAFETY: nobody else has the copy.
    unsafe { host.assume_exclusive() }.copy_from(&from)?;
    // SAFETY: the ranges are those of the tensors.
    unsafe { gpu.upload(host.address(), to.tensor.on_device(), host.span_bytes()) }
}
