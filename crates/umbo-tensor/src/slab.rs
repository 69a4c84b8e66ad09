//! Small tensors that lie side by side in common blocks.
//!
//! A model may have thousands of small variables. If each had its own block, each would start
//! wherever the allocator found memory, and a pass over all of them would wait for memory at each.
//! When they lie side by side, in the order in which they were made, they are read as one stream.

use std::sync::Arc;

use crate::storage::{ALIGNMENT, Storage};
use crate::{DType, Layout, Shape, Tensor};
use umbo_base::error::Result;
use umbo_device::DeviceId;

/// The largest small tensor, in bytes. Larger tensors get their own blocks.
const SMALL: usize = 16 << 10;

/// The smallest and the largest block. Blocks grow from one to the other, so that a few small
/// tensors cost little.
const BLOCK: [usize; 2] = [4 << 10, 1 << 20];

/// The number of bytes a buffer is shifted against the one before. It is a whole number of cache
/// lines. All its multiples up to the 64th differ modulo 4 KiB, and up to the 1024th modulo 64 KiB.
/// So the buffers of one variable, which are all read at once, fall into different cache sets.
pub const CACHE_SHIFT: usize = 4416;

/// A place where small tensors are made. A block is freed with the last tensor in it.
pub struct Slab {
    /// The byte of a block at which the first tensor starts.
    shift: usize,
    block: Option<Arc<Storage>>,
    used: usize,
    /// The size of the next block.
    next: usize,
}

impl Slab {
    /// A slab whose blocks begin with `shift` unused bytes, rounded up to a cache line. Slabs that
    /// are read at the same time have different shifts, so that tensors at the same place in
    /// each do not compete for the same lines of a cache.
    pub const fn new(shift: usize) -> Slab {
        let shift = shift.next_multiple_of(ALIGNMENT);
        Slab {
            shift,
            block: None,
            used: 0,
            next: BLOCK[0],
        }
    }

    /// A contiguous tensor of zeros. A small tensor lies behind the one that was made before if the
    /// block has enough memory left and is on the same device; else it begins a new block. A
    /// large tensor has its own block.
    pub fn zeros(&mut self, dtype: DType, shape: Shape, device: DeviceId) -> Result<Tensor> {
        let bytes = shape.bytes(dtype)?;
        if bytes > SMALL {
            return Tensor::zeros(dtype, shape, device);
        }
        // A tensor without elements also takes a line, so that no two tensors have one address.
        let taken = bytes.max(1).next_multiple_of(ALIGNMENT);
        let fits =
            |block: &&Arc<Storage>| block.device() == device && block.bytes() - self.used >= taken;
        let block = match self.block.as_ref().filter(fits) {
            Some(block) => Arc::clone(block),
            None => {
                let size = self.next.max(self.shift + taken);
                let block = Arc::new(Storage::zeroed(size, device)?);
                self.block = Some(Arc::clone(&block));
                (self.used, self.next) = (self.shift, BLOCK[1].min(self.next * 2));
                block
            }
        };
        let tensor = Tensor::from_storage(block, dtype, Layout::row_major(shape), self.used)?;
        self.used += taken;
        Ok(tensor)
    }
}

/// Whether the elements of `after` lie directly behind those of `before`, in one block. If so, both
/// can be read and written as one, together with all that follow in the same way.
pub fn follows(before: &Tensor, after: &Tensor) -> bool {
    let (block, start) = before.storage();
    let (other, next) = after.storage();
    Arc::ptr_eq(block, other)
        && before.dtype() == after.dtype()
        && before.bytes() > 0
        && start + before.bytes() == next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_tensors_lie_side_by_side_and_share_nothing() {
        let mut slab = Slab::new(100);
        let mut make = |elements: usize| {
            let shape = Shape::new(&[elements]).unwrap();
            slab.zeros(DType::Float32, shape, DeviceId::HOST).unwrap()
        };
        let sizes = [3, 64, 0, 1, SMALL / 4, SMALL / 4 + 1, 17, 1000, 2000];
        let tensors: Vec<Tensor> = (0..400).map(|index| make(sizes[index % 9])).collect();
        let mut ranges: Vec<(usize, usize)> = tensors
            .iter()
            .map(|tensor| {
                assert!(
                    tensor
                        .to_vec::<f32>()
                        .unwrap()
                        .iter()
                        .all(|&element| element == 0.0)
                );
                assert!(tensor.address().addr().is_multiple_of(ALIGNMENT));
                (tensor.address().addr(), tensor.shape().elements() * 4)
            })
            .collect();
        ranges.sort_unstable();
        assert!(
            ranges
                .windows(2)
                .all(|pair| pair[0].0 + pair[0].1.max(1) <= pair[1].0)
        );
        assert_eq!(
            tensors[1].address().addr(),
            tensors[0].address().addr() + ALIGNMENT
        );
        // Blocks live as long as their tensors, also after the slab is dropped.
        drop(slab);
        // SAFETY: nobody else has it.
        unsafe { tensors[3].assume_exclusive() }
            .fill_zeros()
            .unwrap();
    }
}
