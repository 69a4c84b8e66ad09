//! The shared memory of one block, and the local memory of its threads.

use crate::bits::Bits;
use crate::codes::Code;
use crate::report::Mistake;

use super::shadow::{Identities, Kind, Who};
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
        me: Who,
        address: u64,
        bytes: u64,
        kind: Kind,
    ) -> Result<(*mut u8, Option<Finding>), Fault> {
        let end = address.checked_add(bytes).filter(|end| *end <= self.data.len() as u64);
        let Some(end) = end else {
            let text = format!(
                "{bytes} bytes at {address} of shared memory, of which there are {}",
                self.data.len()
            );
            return Err(Fault { code: Code::ILLEGAL_ADDRESS, mistake: Mistake::OutOfBounds, text });
        };
        let mut finding = None;
        if kind != Kind::Write && self.initialised.first_missing(address..end).is_some() {
            finding = Some(Finding::Uninitialised);
        }
        if kind != Kind::Read {
            self.initialised.set(address..end, true);
        }
        let range = address as usize..end as usize;
        if ids.access_shared(
            me,
            kind,
            &mut self.writers[range.clone()],
            &mut self.readers[range.clone()],
        ) {
            finding = Some(Finding::Race);
        }
        Ok((self.data[range].as_mut_ptr(), finding))
    }
}

/// The local memory of the threads of a block, one piece each.
pub struct Local {
    data: Vec<u8>,
    each: usize,
}

impl Local {
    pub fn new(each: u32, threads: u32) -> Local {
        Local { data: vec![0xcd; each as usize * threads as usize], each: each as usize }
    }

    pub fn access(&mut self, thread: u32, address: u64, bytes: u64) -> Result<*mut u8, Fault> {
        if address.checked_add(bytes).is_none_or(|end| end > self.each as u64) {
            let text = format!(
                "{bytes} bytes at {address} of a thread's local memory, of which there are {}",
                self.each
            );
            return Err(Fault { code: Code::ILLEGAL_ADDRESS, mistake: Mistake::OutOfBounds, text });
        }
        let start = thread as usize * self.each + address as usize;
        Ok(self.data[start..start + bytes as usize].as_mut_ptr())
    }
}
