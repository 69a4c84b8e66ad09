//! Memory for messages between ranks, as bytes and as elements.

#![expect(unsafe_code, reason = "words are bytes, too")]

use std::slice;

use umbo_base::error::{Result, memory};
use umbo_kernels::dtype::DType;
use umbo_kernels::view::{Span, SpanMut};

/// Workers share elements at multiples of so many, so that no two workers write one cache line.
pub(crate) const BLOCK: usize = 64;

/// Alignment, in bytes, of each contribution or sum in a message.
pub(super) const WORD: usize = size_of::<u64>();

/// Bytes at a multiple of 8, which is enough for the alignment of every element type.
#[derive(Default)]
pub(crate) struct AlignedBytes {
    words: Vec<u64>,
    bytes: usize,
}

impl AlignedBytes {
    /// Sets the length to `bytes`. The contents are unspecified.
    pub fn resize(&mut self, bytes: usize) -> Result<()> {
        let words = bytes.div_ceil(size_of::<u64>());
        let missing = words.saturating_sub(self.words.len());
        self.words
            .try_reserve(missing)
            .map_err(|_| memory::exhausted(bytes, "bytes to exchange gradients"))?;
        self.words.resize(self.words.len().max(words), 0);
        self.bytes = bytes;
        Ok(())
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the words are initialised and there are enough of them; a byte may have any
        // value.
        unsafe { slice::from_raw_parts(self.words.as_ptr().cast(), self.bytes) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and whatever the bytes become, the words may have any value, too.
        unsafe { slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.bytes) }
    }
}

/// `bytes`, rounded up to the alignment.
pub(crate) fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(WORD)
}

/// Takes the next elements from the front of `from`.
pub(super) fn take<'a>(from: &mut &'a mut [u8], dtype: DType, elements: usize) -> SpanMut<'a> {
    let bytes = elements * dtype.size();
    let (place, rest) = std::mem::take(from).split_at_mut(padded(bytes));
    *from = rest;
    SpanMut::of_bytes(&mut place[..bytes], dtype)
}

/// Copies all elements of a span to another one that is alike.
///
/// # Safety
/// Nobody else reads or writes `to` during the call, and the two do not overlap.
pub(crate) unsafe fn copy(from: Span<'_>, to: &SpanMut<'_>) {
    assert_eq!((from.dtype(), from.elements()), (to.dtype(), to.elements()));
    let bytes = from.elements() * from.dtype().size();
    // SAFETY: both have this many bytes, and the caller guarantees the rest.
    unsafe { to.data().copy_from_nonoverlapping(from.data(), bytes) };
}
