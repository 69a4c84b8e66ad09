//! Memory for what goes from rank to rank.

#![expect(unsafe_code, reason = "words are bytes, too")]

use crate::error::{Error, Result};

/// Bytes at a multiple of 8, which every element type lies well at.
#[derive(Default)]
pub(in crate::optimizer) struct Words {
    words: Vec<u64>,
    bytes: usize,
}

impl Words {
    /// Has `bytes` bytes from now on. What they hold does not count.
    pub fn resize(&mut self, bytes: usize) -> Result<()> {
        let words = bytes.div_ceil(size_of::<u64>());
        let missing = words.saturating_sub(self.words.len());
        self.words.try_reserve(missing).map_err(|_| {
            Error::ResourceExhausted(format!("{bytes} bytes of memory to exchange gradients"))
        })?;
        self.words.resize(self.words.len().max(words), 0);
        self.bytes = bytes;
        Ok(())
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the words are initialised and there are enough of them; a byte may have any value.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.bytes) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and whatever the bytes become, the words may have any value, too.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.bytes) }
    }
}
