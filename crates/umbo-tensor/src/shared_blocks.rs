//! Many tensors that are made at once and lie side by side in few blocks.
//!
//! A fresh block from the system costs a call and page faults. So thousands of tensors with one
//! block each would cost more than the work that fills them. Also, large blocks have large pages.

use std::sync::Arc;
use std::{mem, slice};

use super::storage::Storage;
use super::{DType, Layout, Shape, Tensor};
use umbo_base::error::{Error, Result};
use umbo_device::DeviceId;

/// A block is closed before it gets longer than this. A larger tensor has its own block.
const BLOCK: usize = 64 << 20;

/// The bytes of some tensors that are being made.
pub struct SharedBlock<'a> {
    /// All bytes of the block.
    pub bytes: &'a mut [u8],
    /// The byte at which the elements of each tensor begin.
    pub starts: Vec<usize>,
}

impl Tensor {
    /// Contiguous tensors in host memory, one for each of `kinds`. `write` fills the bytes of the
    /// blocks; bytes that it does not write are unspecified. In a block each tensor begins where
    /// the one before it ends, or at the next multiple of its elements' size: so what lies in this
    /// way elsewhere can be copied as a whole. A block is freed with the last tensor in it.
    ///
    /// Fails as `write` does, and with RESOURCE_EXHAUSTED if there is no memory.
    pub fn in_shared_blocks(
        kinds: &[(DType, Shape)],
        write: impl FnOnce(Vec<SharedBlock<'_>>) -> Result<()>,
    ) -> Result<Vec<Tensor>> {
        let mut tensors = Vec::with_capacity(kinds.len());
        let mut blocks = Vec::new();
        let mut rest = kinds;
        while !rest.is_empty() {
            let (starts, bytes) = first_block(rest)?;
            let (of_block, others) = rest.split_at(starts.len());
            let storage = Arc::new(Storage::uninitialized(bytes, DeviceId::HOST)?);
            for (&(dtype, shape), &start) in of_block.iter().zip(&starts) {
                let storage = Arc::clone(&storage);
                let layout = Layout::row_major(shape);
                tensors.push(Tensor::from_storage(storage, dtype, layout, start)?);
            }
            blocks.push((storage, starts));
            rest = others;
        }
        let blocks = blocks.iter_mut().map(|(storage, starts)| SharedBlock {
            // SAFETY: nobody else has the block before its tensors are returned. Memory of a
            // storage counts as initialised.
            bytes: unsafe { slice::from_raw_parts_mut(storage.address(), storage.bytes()) },
            starts: mem::take(starts),
        });
        write(blocks.collect())?;
        Ok(tensors)
    }
}

/// The bytes at which those of `kinds` begin that share the next block, of which there are some
/// unless `kinds` is empty, and how many bytes the block has.
fn first_block(kinds: &[(DType, Shape)]) -> Result<(Vec<usize>, usize)> {
    let mut starts = Vec::new();
    let mut end = 0usize;
    for &(dtype, shape) in kinds {
        let start = end.next_multiple_of(dtype.size());
        let bytes = shape.bytes(dtype)?;
        if !starts.is_empty() && bytes > BLOCK.saturating_sub(start) {
            break;
        }
        starts.push(start);
        end = start
            .checked_add(bytes)
            .ok_or_else(|| Error::no_bytes(bytes, "for a tensor"))?;
    }
    Ok((starts, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_that_are_made_together_share_blocks_and_no_bytes() {
        let sizes = [3, 0, BLOCK / 8, 1, BLOCK / 4, 17, 17, BLOCK / 4 + 1, 5, 2];
        let dtype = |index| match index % 2 {
            0 => DType::UInt8,
            _ => DType::Float32,
        };
        let kind = |(index, elements)| (dtype(index), Shape::new(&[elements]).unwrap());
        let kinds: Vec<_> = sizes.into_iter().enumerate().map(kind).collect();
        let tensors = Tensor::in_shared_blocks(&kinds, |blocks| {
            let mut number = 0;
            for SharedBlock { bytes, starts } in blocks {
                assert!(bytes.as_ptr().addr().is_multiple_of(64));
                for start in starts {
                    let (dtype, shape) = kinds[number];
                    bytes[start..][..shape.bytes(dtype).unwrap()].fill(number as u8);
                    number += 1;
                }
            }
            assert_eq!(number, sizes.len());
            Ok(())
        });
        let tensors = tensors.unwrap();
        let mut end = 0;
        for (number, (tensor, &(dtype, shape))) in tensors.iter().zip(&kinds).enumerate() {
            assert_eq!((tensor.dtype(), tensor.shape()), (dtype, shape));
            let view = tensor.reading().unwrap();
            let bytes = view.as_bytes().unwrap();
            for byte in bytes.first().into_iter().chain(bytes.last()) {
                assert_eq!(*byte, number as u8);
            }
            let (_, start) = tensor.storage();
            assert!(start == 0 || (end..end + dtype.size()).contains(&start));
            end = start + bytes.len();
        }
        let shares = |left: usize, right: usize| {
            Arc::ptr_eq(tensors[left].storage().0, tensors[right].storage().0)
        };
        assert!(shares(0, 6) && !shares(6, 7) && !shares(7, 8) && shares(8, 9));
        assert!(
            Tensor::in_shared_blocks(&[], |_| Ok(()))
                .unwrap()
                .is_empty()
        );
        let failed = Tensor::in_shared_blocks(&kinds[..1], |_| Err(Error::Internal("it".into())));
        assert!(failed.is_err());
    }
}
