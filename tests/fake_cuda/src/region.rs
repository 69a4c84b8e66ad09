//! One piece of memory that devices can use.

use std::ops::Range;
use std::sync::Arc;

use crate::bits::Bits;
use crate::history::History;

/// Where the bytes lie and whose they are.
pub enum Place {
    /// Memory of a device. The addresses are reserved ones, the bytes are here.
    Device { ordinal: usize, _bytes: Vec<u8> },
    /// Page-locked host memory that the driver mapped.
    Locked,
    /// Page-locked host memory of the program's.
    Registered,
}

/// For each byte the identities of the threads that last wrote and read it.
pub struct Tracking {
    pub writers: Vec<u32>,
    pub readers: Vec<u32>,
}

/// An allocation of a device or a range of page-locked host memory, alive or freed.
pub struct Region {
    pub start: u64,
    pub bytes: u64,
    pub place: Place,
    /// Where the bytes are for this process.
    pub data: *mut u8,
    /// The number of the pool that it came from, if it did. Pools have access of their own.
    pub pool: Option<u32>,
    /// The context that made it.
    pub context: u32,
    /// Which bytes were written; `None` where the host may write without our knowledge.
    pub initialised: Option<Bits>,
    pub history: History,
    /// Made when a kernel first touches the region.
    pub tracking: Option<Tracking>,
    /// Who freed it, if it is no longer there.
    pub freed: Option<Arc<str>>,
}

// SAFETY: `data` points to memory that the region owns or that was registered with the driver, and
// it is used only while the driver is locked.
unsafe impl Send for Region {}

impl Region {
    pub fn end(&self) -> u64 {
        self.start + self.bytes
    }

    /// The device whose memory it is; `None` for the host.
    pub fn device(&self) -> Option<usize> {
        match self.place {
            Place::Device { ordinal, .. } => Some(ordinal),
            Place::Locked | Place::Registered => None,
        }
    }

    /// The offsets of `bytes` bytes at `address`, which lie in the region.
    pub fn offsets(&self, address: u64, bytes: u64) -> Range<u64> {
        address - self.start..address - self.start + bytes
    }

    /// Where the byte at `address`, which lies in the region, is for this process.
    pub fn at(&self, address: u64) -> *mut u8 {
        self.data.wrapping_add((address - self.start) as usize)
    }

    /// The region in words.
    pub fn describe(&self) -> String {
        let kind = match self.place {
            Place::Device { ordinal, .. } => format!("memory of device {ordinal}"),
            Place::Locked => "page-locked memory".into(),
            Place::Registered => "registered memory".into(),
        };
        format!("{kind} {:#x} ({} bytes)", self.start, self.bytes)
    }
}
