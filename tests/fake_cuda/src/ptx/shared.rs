//! The shared memory of one block.

use crate::bits::Bits;
use crate::codes::Code;
use crate::report::Mistake;

use super::shadow::{Identities, Kind};
use super::view::{Fault, Finding};

/// Memory of a block with what is known of each byte.
pub struct Shared {
    data: Vec<u8>,
    initialised: Bits,
    writers: Vec<u32>,
    readers: Vec<u32>,
}

impl Shared {
    pub fn new(bytes: usize) -> Shared {
        Shared {
            data: vec![0xcd; bytes],
            initialised: Bits::new(bytes as u64),
            writers: vec![0; bytes],
            readers: vec![0; bytes],
        }
    }

    /// A new block: nothing is written yet.
    pub fn clear(&mut self) {
        self.data.fill(0xcd);
        self.initialised.set(0..self.data.len() as u64, false);
    }

    /// As `Views::access`.
    pub fn access(
        &mut self,
        ids: &Identities,
        me: u32,
        address: u64,
        bytes: u64,
        kind: Kind,
    ) -> Result<(*mut u8, Option<Finding>), Fault> {
        let end = address
            .checked_add(bytes)
            .filter(|end| *end <= self.data.len() as u64);
        let Some(end) = end else {
            let all = self.data.len();
            let text = format!("{bytes} bytes at {address} of {all} of shared memory");
            return Err(Fault {
                code: Code::ILLEGAL_ADDRESS,
                mistake: Mistake::OutOfBounds,
                text,
            });
        };
        let mut finding = None;
        if kind != Kind::Write && self.initialised.first_missing(address..end).is_some() {
            finding = Some(Finding::Uninitialised);
        }
        if kind != Kind::Read {
            self.initialised.set(address..end, true);
        }
        let range = address as usize..end as usize;
        let writers = &mut self.writers[range.clone()];
        let readers = &mut self.readers[range.clone()];
        if ids.access(true, me, kind, writers, readers) {
            finding = Some(Finding::Race);
        }
        Ok((self.data[range].as_mut_ptr(), finding))
    }
}
