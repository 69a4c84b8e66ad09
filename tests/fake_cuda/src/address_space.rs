//! Where device memory seems to lie: addresses that the host cannot touch.

use std::ptr;

use crate::codes::{Code, Outcome};

/// A reserved range of addresses; each is given out once. The bytes lie elsewhere.
pub struct AddressSpace {
    start: u64,
    end: u64,
    next: u64,
}

/// Room between two allocations, so that an access past the end of one meets none.
const GAP: u64 = 4096;
/// Each allocation starts at a multiple of this, as on a device.
const ALIGNMENT: u64 = 512;

impl AddressSpace {
    /// Reserves 1 TiB, or less where that is not to be had. Nothing of it takes memory.
    pub fn reserve() -> AddressSpace {
        for shift in (33..=40).rev() {
            let bytes = 1u64 << shift;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: a new mapping at an address that the kernel chooses; no memory in use is
            // touched.
            let at = unsafe {
                libc::mmap(
                    ptr::null_mut(),
                    bytes as usize,
                    libc::PROT_NONE,
                    flags,
                    -1,
                    0,
                )
            };
            if at != libc::MAP_FAILED {
                let start = at as u64;
                return AddressSpace {
                    start,
                    end: start + bytes,
                    next: start,
                };
            }
        }
        AddressSpace {
            start: 0,
            end: 0,
            next: 0,
        }
    }

    /// A new piece of the space.
    pub fn take(&mut self, bytes: u64) -> Outcome<u64> {
        let start = self.next.next_multiple_of(ALIGNMENT);
        let end = start
            .checked_add(bytes)
            .and_then(|end| end.checked_add(GAP));
        match end {
            Some(end) if end <= self.end => {
                self.next = end;
                Ok(start)
            }
            _ => Err(Code::OUT_OF_MEMORY),
        }
    }

    /// Whether an address belongs to some device, allocated or not.
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}
