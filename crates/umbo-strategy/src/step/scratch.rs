//! Memory that a callback uses during one step and finds again, unzeroed, in the next one.

use umbo_base::error::{Error, Result};
use umbo_device::DeviceId;
use umbo_tensor::storage::{ALIGNMENT, Storage};

/// Scratch memory of one replica. Regions are granted one after another and all taken back at
/// the start of the next step. What did not fit in one block this time does the next time, so a
/// steady step allocates nothing.
pub(crate) struct Scratch {
    device: DeviceId,
    blocks: Vec<Storage>,
    /// Bytes granted of the last block.
    used: usize,
    /// Bytes granted in this step, over all blocks.
    granted: usize,
}

impl Scratch {
    /// Memory of `device`.
    pub fn on(device: DeviceId) -> Scratch {
        Scratch {
            device,
            blocks: Vec::new(),
            used: 0,
            granted: 0,
        }
    }

    /// Takes all regions back.
    pub fn reset(&mut self) {
        if self.granted == 0 {
            return;
        }
        self.used = 0;
        self.granted = 0;
        if self.blocks.len() > 1 {
            // Several small blocks were needed: the next step's first request makes one that
            // holds what they held together.
            let together = self.blocks.iter().map(Storage::bytes).sum();
            self.blocks.clear();
            if let Ok(block) = Storage::uninitialized(together, self.device) {
                self.blocks.push(block);
            }
        }
    }

    /// The address, as the device counts, of a region of `bytes` bytes at a multiple of 64, until
    /// the next reset.
    pub fn grant(&mut self, bytes: usize) -> Result<*mut u8> {
        let exhausted = || Error::no_bytes(bytes, "of scratch memory");
        let rounded = bytes
            .max(1)
            .checked_next_multiple_of(ALIGNMENT)
            .ok_or_else(exhausted)?;
        let fits = self
            .blocks
            .last()
            .is_some_and(|block| block.bytes() - self.used >= rounded);
        if !fits {
            let wanted = rounded.max(self.granted);
            let block = Storage::uninitialized(wanted, self.device)
                .or_else(|_| Storage::uninitialized(rounded, self.device))
                .map_err(|error| match self.device.is_host_memory() {
                    true => exhausted(),
                    false => error,
                })?;
            self.blocks.push(block);
            self.used = 0;
        }
        let block = self.blocks.last().ok_or_else(exhausted)?;
        let region = block.address().wrapping_add(self.used);
        self.used += rounded;
        self.granted += rounded;
        Ok(region)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_aligned_disjoint_and_settle_in_one_block() {
        let mut scratch = Scratch::on(DeviceId::HOST);
        for _ in 0..3 {
            scratch.reset();
            let regions: Vec<usize> = [100, 0, 5000, 64]
                .map(|bytes| scratch.grant(bytes).unwrap() as usize)
                .into();
            assert!(
                regions
                    .iter()
                    .all(|region| region.is_multiple_of(ALIGNMENT))
            );
            let mut sorted = regions.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), regions.len());
        }
        assert_eq!(scratch.blocks.len(), 1);
        assert!(scratch.grant(usize::MAX).is_err());
        assert!(scratch.grant(isize::MAX as usize - 4096).is_err());
    }
}
