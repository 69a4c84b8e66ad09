//! Many tensors that are made at once and lie side by side in few blocks.
//!
//! A fresh block from the system costs a call and page faults. So thousands of tensors with one
//! block each would cost more than the work that fills them. Also, large blocks have large pages.

use std::slice;
use std::sync::Arc;

use super::storage::{ALIGNMENT, Storage};
use super::{DType, Layout, Shape, Tensor};
use umbo_base::error::{Error, Result};
use umbo_device::DeviceId;

/// A block is closed before it gets longer than this. A larger tensor has its own block.
const BLOCK: usize = 64 << 20;

impl Tensor {
    /// Contiguous tensors in host memory, one for each of `kinds`. `write` fills their bytes; bytes
    /// that it does not write are unspecified. A block is freed with the last tensor in it.
    ///
    /// Fails as `write` does, and with RESOURCE_EXHAUSTED if there is no memory.
    pub fn in_shared_blocks(
        kinds: &[(DType, Shape)],
        write: impl FnOnce(Vec<&mut [u8]>) -> Result<()>,
    ) -> Result<Vec<Tensor>> {
        let mut tensors = Vec::with_capacity(kinds.len());
        let mut rest = kinds;
        while !rest.is_empty() {
            let (count, bytes) = first_block(rest)?;
            let (of_block, others) = rest.split_at(count);
            let storage = Arc::new(Storage::uninitialized(bytes, DeviceId::HOST)?);
            let mut offset = 0;
            for &(dtype, shape) in of_block {
                let storage = Arc::clone(&storage);
                let layout = Layout::row_major(shape);
                tensors.push(Tensor::from_storage(storage, dtype, layout, offset)?);
                offset += taken(dtype, shape)?;
            }
            rest = others;
        }
        // SAFETY: the bytes are those of the tensors. No two tensors share bytes, and nobody else
        // has them before they are returned. Memory of a storage counts as initialised.
        let parts = tensors.iter().map(|tensor: &Tensor| unsafe {
            slice::from_raw_parts_mut(tensor.address(), tensor.bytes())
        });
        write(parts.collect())?;
        Ok(tensors)
    }
}

/// How many of `kinds`, which is not empty, share the next block, and how many bytes the block has.
fn first_block(kinds: &[(DType, Shape)]) -> Result<(usize, usize)> {
    let mut bytes = 0usize;
    for (index, &(dtype, shape)) in kinds.iter().enumerate() {
        let more = taken(dtype, shape)?;
        if index > 0 && more > BLOCK.saturating_sub(bytes) {
            return Ok((index, bytes));
        }
        bytes += more;
    }
    Ok((kinds.len(), bytes))
}

/// The bytes of a block that a tensor takes. They are whole lines, and one line if it has no
/// elements, so that no two tensors have one address.
fn taken(dtype: DType, shape: Shape) -> Result<usize> {
    let bytes = shape.bytes(dtype)?.max(1);
    bytes
        .checked_next_multiple_of(ALIGNMENT)
        .ok_or_else(|| Error::no_bytes(bytes, "for a tensor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_that_are_made_together_share_blocks_and_no_bytes() {
        let sizes = [3, 0, BLOCK / 8, 1, BLOCK / 4, 17, 17, BLOCK / 4 + 1, 5];
        let kinds = sizes.map(|elements| (DType::Float32, Shape::new(&[elements]).unwrap()));
        let tensors = Tensor::in_shared_blocks(&kinds, |parts| {
            assert_eq!(parts.len(), sizes.len());
            for (number, part) in parts.into_iter().enumerate() {
                part.fill(number as u8);
            }
            Ok(())
        });
        let tensors = tensors.unwrap();
        for (number, (tensor, elements)) in tensors.iter().zip(sizes).enumerate() {
            assert_eq!(tensor.shape()[..], [elements]);
            let view = tensor.reading().unwrap();
            let bytes = view.as_bytes().unwrap();
            for byte in bytes.first().into_iter().chain(bytes.last()) {
                assert_eq!(*byte, number as u8);
            }
            assert!(tensor.address().addr().is_multiple_of(ALIGNMENT));
        }
        let shares = |left: usize, right: usize| {
            Arc::ptr_eq(tensors[left].storage().0, tensors[right].storage().0)
        };
        assert!(shares(0, 3) && !shares(3, 4) && !shares(4, 5) && shares(5, 6) && !shares(6, 7));
        assert!(!shares(7, 8));
        assert!(
            Tensor::in_shared_blocks(&[], |_| Ok(()))
                .unwrap()
                .is_empty()
        );
        let failed = Tensor::in_shared_blocks(&kinds[..1], |_| Err(Error::Internal("it".into())));
        assert!(failed.is_err());
    }
}
