//! Memory, beside that of variables, that only applies write. It is on the device of a variable, and has a span
//! for the workers if that is the host.

#![expect(unsafe_code, reason = "spans are kept beside the tensors that they are of")]

use crate::error::{Error, Result};
use crate::kernels::cuda::Address;
use crate::kernels::view::{Span, SpanMut};
use crate::tensor::Tensor;

/// A contiguous tensor, to read and to write. The apply that owns the accumulation, or has claimed the gradients,
/// is the only writer, and reads no element that it writes.
pub(super) struct ReservedTensor {
    tensor: Tensor,
    /// All of it, in host memory.
    span: Option<SpanMut<'static>>,
}

impl ReservedTensor {
    pub(super) fn of(tensor: Tensor) -> Result<ReservedTensor> {
        let span = tensor.device().is_host_memory().then(|| span(&tensor)).transpose()?;
        Ok(ReservedTensor { tensor, span })
    }

    pub(super) fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Its address on its GPU.
    pub(super) fn address(&self) -> Address {
        self.tensor.place().address
    }

    /// All elements, to be written, in host memory.
    pub(super) fn writing(&self) -> Option<&SpanMut<'static>> {
        self.span.as_ref()
    }

    /// All elements in host memory.
    pub(super) fn reading(&self) -> Option<Span<'_>> {
        self.span.as_ref().map(SpanMut::reading)
    }
}

/// All elements of a tensor, to be read, if it is contiguous and in host memory. The owner of the tensor keeps the
/// span, too.
pub(super) fn reading_span(tensor: &Tensor) -> Result<Option<Span<'static>>> {
    if !tensor.device().is_host_memory() {
        return Ok(None);
    }
    // SAFETY: the owner keeps the tensor as long as the span.
    Ok(tensor.reading()?.span().map(|span| unsafe { span.held() }))
}

/// The span of a tensor in host memory that only an apply writes. The owner of the tensor keeps the span, too.
pub(super) fn span(tensor: &Tensor) -> Result<SpanMut<'static>> {
    // SAFETY: the span is only made here, and not used. Its owner keeps the tensor, too, and only an apply with
    // exclusive access writes it.
    let span = unsafe {
        let span = tensor.assume_exclusive().into_view()?.into_span();
        span.map(|span| span.held())
    };
    span.ok_or_else(|| Error::Internal("memory that an apply writes is not contiguous".into()))
}
