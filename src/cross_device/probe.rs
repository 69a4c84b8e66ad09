//! What the memory below a collective can do at best.

use crate::error::Result;
use crate::kernels::probe;
use crate::kernels::view::View;
use crate::tensor::Tensor;

/// Moves the bytes that an operation would move, and does nothing else: reads `reads`, writes
/// something to `write`, past the caches if `streaming`, and reads and writes back `in_place`.
/// There are 1, 2, 4 or 8 `reads` and at most three tensors `in_place`.
///
/// The tensors of one kind agree in their bytes, and the bytes of all kinds are multiples of the
/// fewest. All are contiguous, start at a cache line, and share no memory. Fails with
/// INVALID_ARGUMENT if they do not.
pub fn move_bytes(
    reads: &[Tensor],
    write: Option<&Tensor>,
    in_place: &[Tensor],
    streaming: bool,
) -> Result<()> {
    let reads: Vec<View> = reads.iter().map(Tensor::reading).collect::<Result<_>>()?;
    let in_place = in_place.iter().map(Tensor::writing).collect::<Result<Vec<_>>>()?;
    let write = write.map(Tensor::writing).transpose()?;
    probe::move_bytes(&reads, write.as_ref(), &in_place, streaming)
}
