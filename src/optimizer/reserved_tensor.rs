//! Memory that applies alone write, beside that of variables: on the device of a variable, and ready for the
//! workers if that is the host's.

#![expect(unsafe_code, reason = "spans are kept beside the tensors that they are of")]

use crate::error::{Error, Result};
use crate::kernels::cuda::Address;
use crate::kernels::view::{Span, SpanMut};
use crate::tensor::Tensor;

/// A contiguous tensor, to read and to write. Who has the accumulation or the gradients that it belongs to, to
/// change them, is the only writer, and reads nothing of what it writes.
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

    /// Where it lies on its GPU.
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

/// The span of a tensor in host memory that an apply alone writes, to be kept with what keeps the tensor.
pub(super) fn span(tensor: &Tensor) -> Result<SpanMut<'static>> {
    // SAFETY: a span is made here, and not used. What is kept of it keeps the tensor, too, and only an apply
    // writes it, where it is alone.
    let span = unsafe {
        let span = tensor.assume_exclusive().into_view()?.into_span();
        span.map(|span| span.held())
    };
    span.ok_or_else(|| Error::Internal("memory that an apply writes is not contiguous".into()))
}
