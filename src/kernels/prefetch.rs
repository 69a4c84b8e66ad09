//! Asking for memory before it is needed.
//!
//! Processors do not foresee which row of a table comes next. Where a kernel knows, it says so some rows
//! ahead, and the row is in the cache when it is its turn. Passes over contiguous memory they do
//! foresee, but not far enough where many arrays are read side by side.

use crate::kernels::streaming::LINE;

/// How many rows ahead to ask: enough for memory to answer, few enough to stay in the first cache.
pub(in crate::kernels) const ROWS_AHEAD: usize = 6;

/// How many bytes ahead to ask in a pass over contiguous memory. An update of eight contributions reads eleven arrays
/// side by side: with 2048 bytes of each on their way, a first cache of 32 KiB loses lines before they are used, and
/// such an update took two to three times as long on an AMD EPYC.
pub(in crate::kernels) const BYTES_AHEAD: usize = 512;

/// The most lines of one row that are asked for; what follows the processor foresees.
const MOST_LINES: usize = 8;

/// Asks for the first of `bytes` bytes from `first` on. They need not exist: nothing but time
/// depends on it. Without effect where the processor's instruction is not known.
#[inline(always)]
pub(in crate::kernels) fn prefetch(first: *const u8, bytes: usize) {
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
