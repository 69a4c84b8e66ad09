//! States in 8 bits, as tensors: codes, and the scales of their blocks.

#![expect(
    unsafe_code,
    reason = "slots are written by those that hold the optimizer's lock"
)]

use std::slice;

use umbo_base::error::{Error, Result};
use umbo_kernels::dtype::DType;
use umbo_kernels::update::eight_bit::CodeMap;
use umbo_tensor::{Element, Tensor};

/// Decodes `codes` in new memory of their shape.
pub(crate) fn decoded(map: CodeMap, codes: &Tensor, scales: &Tensor) -> Result<Tensor> {
    let to = Tensor::zeros(DType::Float32, codes.shape(), codes.device())?;
    decode(map, codes, scales, &to)?;
    Ok(to)
}

/// Decodes `codes` into `to`, which has as many elements, and which nobody else uses. All are
/// contiguous and in host memory.
pub(crate) fn decode(map: CodeMap, codes: &Tensor, scales: &Tensor, to: &Tensor) -> Result<()> {
    // SAFETY: the caller alone uses it.
    let to = unsafe { written(to) }?;
    map.decode(read(codes)?, read(scales)?, to);
    Ok(())
}

/// Codes `from` into `codes` and `scales`, which have as many elements and blocks, and which nobody
/// else uses. All are contiguous and in host memory.
pub(crate) fn encode(map: CodeMap, from: &Tensor, codes: &Tensor, scales: &Tensor) -> Result<()> {
    // SAFETY: the caller alone uses both.
    let (codes, scales) = unsafe { (written(codes)?, written(scales)?) };
    map.encode(read(from)?, codes, scales);
    Ok(())
}

fn read<T: Element>(tensor: &Tensor) -> Result<&[T]> {
    tensor
        .reading()?
        .as_slice()
        .ok_or_else(|| not_codes(tensor))
}

/// The elements of a tensor, to be written.
///
/// # Safety
/// Nobody else reads or writes them while the slice is used.
#[expect(
    clippy::mut_from_ref,
    reason = "tensors are shared, and their elements are not"
)]
unsafe fn written<T: Element>(tensor: &Tensor) -> Result<&mut [T]> {
    // SAFETY: the caller's promise.
    let span = unsafe { tensor.assume_exclusive() }.into_span()?;
    if span.dtype() != T::DTYPE {
        return Err(not_codes(tensor));
    }
    // SAFETY: the span is of so many elements of this type, which are initialised, and the caller
    // alone uses them.
    Ok(unsafe { slice::from_raw_parts_mut(span.data().cast(), span.elements()) })
}

fn not_codes(tensor: &Tensor) -> Error {
    Error::Internal(format!("{} among states in 8 bits", tensor.dtype()))
}
