//! Small tensors side by side in common blocks.
//!
//! A model may have thousands of small variables. In blocks of their own each would start at
//! whatever place the allocator found, and a pass over all of them would wait for memory at each.
//! Side by side, in the order in which they were made, they are read as one stream.

use std::sync::Arc;

use crate::device::DeviceId;
use crate::error::Result;
use crate::tensor::storage::{ALIGNMENT, Storage};
use crate::tensor::{DType, Layout, Shape, Tensor};

/// Larger tensors get blocks of their own.
const SMALL: usize = 16 << 10;

/// Blocks grow from the first of these to the last, so that a few small tensors cost little.
const BLOCK: [usize; 2] = [4 << 10, 1 << 20];

/// How far a buffer is shifted against the one before, in bytes. It is a whole number of
/// cache lines, and all multiples up to the 64th differ modulo 4 KiB, up to the 1024th modulo
/// 64 KiB: the buffers of one variable, all read at once, then fall into different cache sets.
pub const CACHE_SHIFT: usize = 4416;

/// Where the next small tensors are made. A block is freed with the last tensor in it.
pub struct Slab {
    /// At which byte of a block the first tensor starts.
    shift: usize,
    block: Option<Arc<Storage>>,
    used: usize,
    /// The size of the next block.
    next: usize,
}

impl Slab {
    /// A slab whose blocks begin with `shift` unused bytes, rounded up to a cache line. Slabs that
    /// are walked over at the same time have different shifts, so that tensors of the same place
    /// in each do not compete for the same lines of a cache.
    pub const fn new(shift: usize) -> Slab {
        let shift = shift.next_multiple_of(ALIGNMENT);
        Slab { shift, block: None, used: 0, next: BLOCK[0] }
    }

    /// A contiguous tensor of zeros: behind the one that was made before, if it is small, there is
    /// room, and it is on the same device; else in a block that begins with it, or of its own.
    pub fn zeros(&mut self, dtype: DType, shape: Shape, device: DeviceId) -> Result<Tensor> {
        let bytes = shape.bytes(dtype)?;
        if bytes > SMALL {
            return Tensor::zeros(dtype, shape, device);
        }
        // A tensor without elements takes a line, too: no two tensors have one address.
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

/// Whether the elements of `after` lie right behind those of `before`, in one block: then both, and what follows
/// in the same way, can be read and written as one.
pub fn follows(before: &Tensor, after: &Tensor) -> bool {
    let ((block, start), (other, next)) = (before.storage(), after.storage());
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
                assert!(tensor.to_vec::<f32>().unwrap().iter().all(|&element| element == 0.0));
                assert!(tensor.address().addr().is_multiple_of(ALIGNMENT));
                (tensor.address().addr(), tensor.shape().elements() * 4)
            })
            .collect();
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|pair| pair[0].0 + pair[0].1.max(1) <= pair[1].0));
        assert_eq!(tensors[1].address().addr(), tensors[0].address().addr() + ALIGNMENT);
        // Blocks live as long as their tensors, not as long as the slab.
        drop(slab);
        // SAFETY: nobody else has it.
        unsafe { tensors[3].assume_exclusive() }.fill_zeros().unwrap();
    }
}
