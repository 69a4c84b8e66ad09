//! Memory for what goes from rank to rank, as bytes and as elements.

#![expect(unsafe_code, reason = "words are bytes, too")]

use std::ops::Range;
use std::slice;

use crate::error::{Error, Result};
use crate::executor::workers;
use crate::kernels::dtype::DType;
use crate::kernels::layout::{Layout, Shape};
use crate::kernels::update::tiles::MOST_SLOTS;
use crate::kernels::view::{Span, SpanMut, View, ViewMut};
use parking_lot::Mutex;

/// Where state is copied to, for each share of the work.
#[derive(Default)]
pub(in crate::optimizer) struct Scratch(pub Vec<Mutex<AlignedBytes>>);

/// Of so many elements the state is copied at a time.
pub(super) const TRIAL: usize = 1024;

impl Scratch {
    /// Has the memory that trials take.
    pub fn reserve(&mut self) -> Result<()> {
        let shares = workers::count();
        self.0.resize_with(self.0.len().max(shares), Mutex::default);
        self.0.iter().try_for_each(|words| words.lock().resize(MOST_SLOTS * TRIAL * WORD))
    }
}

/// Elements of one contribution, or of the sum of several, at multiples of so many bytes.
pub(super) const WORD: usize = size_of::<u64>();

/// Bytes at a multiple of 8, which every element type lies well at.
#[derive(Default)]
pub(in crate::optimizer) struct AlignedBytes {
    words: Vec<u64>,
    bytes: usize,
}

impl AlignedBytes {
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
        unsafe { slice::from_raw_parts(self.words.as_ptr().cast(), self.bytes) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and whatever the bytes become, the words may have any value, too.
        unsafe { slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.bytes) }
    }
}

/// As many bytes as elements of `bytes` bytes take.
pub(super) fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(WORD)
}

/// The next `bytes` bytes of `from`, which goes on behind them.
pub(super) fn take<'a>(from: &mut &'a mut [u8], bytes: usize) -> &'a mut [u8] {
    let (place, rest) = std::mem::take(from).split_at_mut(padded(bytes));
    *from = rest;
    &mut place[..bytes]
}

/// The bytes of some elements.
pub(super) fn bytes_of<'a>(span: Span<'a>, range: &Range<usize>) -> &'a [u8] {
    assert!(range.start <= range.end && range.end <= span.elements());
    let size = span.dtype().size();
    // SAFETY: the span has the range, and its elements are initialised memory without padding that
    // nobody writes as long as the span is used.
    unsafe { slice::from_raw_parts(span.data().add(range.start * size), range.len() * size) }
}

/// Copies all elements of a span to another one that is alike.
///
/// # Safety
/// Nobody else reads or writes `to` meanwhile, and the two have nothing in common.
pub(in crate::optimizer) unsafe fn copy(from: Span<'_>, to: &SpanMut<'_>) {
    assert_eq!((from.dtype(), from.elements()), (to.dtype(), to.elements()));
    let from = bytes_of(from, &(0..from.elements()));
    // SAFETY: as many bytes are there, and the caller vouches for the rest.
    unsafe { to.data().copy_from_nonoverlapping(from.as_ptr(), from.len()) };
}

fn layout(bytes: &[u8], dtype: DType) -> Layout {
    assert!(bytes.as_ptr().addr().is_multiple_of(dtype.size()));
    let elements = bytes.len() / dtype.size();
    Layout::row_major(Shape::new(&[elements]).expect("as many bytes lie in memory"))
}

/// Bytes as elements.
pub(super) fn span(bytes: &[u8], dtype: DType) -> Span<'_> {
    // SAFETY: the bytes are borrowed as long as the result is, lie well, which is asserted, and any
    // bytes are numbers.
    let view = unsafe { View::new(bytes.as_ptr(), dtype, layout(bytes, dtype)) };
    view.span().expect("a row of elements is contiguous")
}

/// Bytes as elements that may be written.
pub(super) fn span_mut(bytes: &mut [u8], dtype: DType) -> SpanMut<'_> {
    // SAFETY: as in `span`, and nobody else has what is borrowed to be written.
    let view = unsafe { ViewMut::new(bytes.as_mut_ptr(), dtype, layout(bytes, dtype)) };
    view.into_span().expect("a row of elements is contiguous")
}
