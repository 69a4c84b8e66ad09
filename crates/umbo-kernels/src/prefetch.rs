//! Prefetching: asking for memory before it is needed.
//!
//! Processors cannot predict which row of a table comes next. A kernel that can predict it asks for
//! the row some rows ahead, so that the row is in the cache when it is needed. Processors do
//! predict passes over contiguous memory, but not far enough ahead when a pass reads many arrays
//! side by side.

use crate::streaming::LINE;

/// How many rows ahead to ask. Memory has enough time to answer, and the rows fit in the first
/// cache.
pub(crate) const ROWS_AHEAD: usize = 6;

/// How many bytes ahead to ask in a pass over contiguous memory. An update of eight contributions
/// reads eleven arrays side by side. With 2048 bytes ahead in each of them, a first cache of 32 KiB
/// lost lines before they were used, and such an update took two to three times as long on an AMD
/// EPYC.
pub(crate) const BYTES_AHEAD: usize = 512;

/// The most lines of one row that are asked for. The processor predicts the lines after them.
const MOST_LINES: usize = 8;

/// Asks for the first of `bytes` bytes from `first` on. The bytes need not exist: the call can only
/// change how long later reads take. It has no effect on processors whose instruction for this is
/// not known.
#[inline(always)]
pub fn prefetch(first: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..bytes).step_by(LINE).take(MOST_LINES) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction is in every x86-64 processor, and has no effect where there is
        // no memory.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (first, bytes, LINE, MOST_LINES);
}
