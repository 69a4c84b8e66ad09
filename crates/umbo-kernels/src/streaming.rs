//! Writing past the caches.
//!
//! An ordinary store to a line that is in no cache first reads the line. For a large output that is
//! written as a whole and not read soon, this read is a third of the traffic of a copy, and the
//! output displaces everything else from the caches. Streaming (non-temporal) stores of whole lines
//! avoid both. If AVX-512 is in use, they are its stores, one for a line. Else they are those of
//! SSE2, which every x86-64 processor has. On other architectures the stores are ordinary ones. The
//! bytes written are the same.

use std::sync::atomic::{AtomicUsize, Ordering};

#[cfg(target_arch = "x86_64")]
use crate::instruction_set::InstructionSet;
use crate::instruction_set::Instructions;
use umbo_system::processors::last_level_cache;

/// The unit in which memory and caches exchange bytes.
pub const LINE: usize = 64;

/// The size of the last-level cache that is assumed if the system does not report one.
const USUAL_CACHE: usize = 32 << 20;

/// The traffic in bytes from which on outputs are streamed; 0 before the first use.
static SELECTED: AtomicUsize = AtomicUsize::new(0);

/// Whether an operation that reads and writes `traffic` bytes in all should stream its output. It
/// should if the last-level cache holds no more bytes than that, unless [`select`] sets another
/// limit. With less traffic, enough data may stay in that cache between operations for ordinary
/// stores to be faster.
pub fn pays(traffic: usize) -> bool {
    if cfg!(not(target_arch = "x86_64")) {
        return false;
    }
    let mut threshold = SELECTED.load(Ordering::Relaxed);
    if threshold == 0 {
        threshold = last_level_cache().unwrap_or(USUAL_CACHE);
        select(threshold);
    }
    traffic >= threshold
}

/// From now on, operations in the whole process stream from `traffic` bytes on. Results do not
/// depend on it.
pub fn select(traffic: usize) {
    SELECTED.store(traffic.max(1), Ordering::Relaxed);
}

/// Copies `bytes` bytes. Streams the lines of the target that are covered entirely, and stores the
/// edges. The caller has to call [`finish`] before the thread signals that it is done.
///
/// # Safety
/// `from` may be read and `to` written for `bytes` bytes, and the two do not overlap.
#[inline(always)]
pub unsafe fn write(instructions: Instructions, from: *const u8, to: *mut u8, bytes: usize) {
    let head = to.addr().wrapping_neg() % LINE;
    if bytes < head + LINE {
        // SAFETY: the caller's promise.
        unsafe { to.copy_from_nonoverlapping(from, bytes) };
        return;
    }
    let lines = (bytes - head) / LINE;
    let tail = head + lines * LINE;
    // SAFETY: the caller's promise, for parts of the range: `head` is less than `bytes`, the lines
    // end at or before `bytes`, and the first of them begins at a multiple of `LINE`.
    unsafe {
        to.copy_from_nonoverlapping(from, head);
        write_lines(
            instructions,
            from.add(head).cast(),
            to.add(head).cast(),
            lines,
        );
        to.add(tail)
            .copy_from_nonoverlapping(from.add(tail), bytes - tail);
    }
}

/// Copies `lines` lines, streaming them. Unlike [`write_line`] it may be called outside of a loop
/// that is compiled for an instruction set.
///
/// # Safety
/// `from` may be read, `to` may be written and is aligned to a line, and the two do not overlap.
#[inline(always)]
unsafe fn write_lines(
    instructions: Instructions,
    from: *const [u8; LINE],
    to: *mut [u8; LINE],
    lines: usize,
) {
    #[cfg(not(target_arch = "x86_64"))]
    let _ = instructions;
    #[cfg(target_arch = "x86_64")]
    if instructions.set() == InstructionSet::Avx512 {
        // SAFETY: there are such instructions only where the processor has them; the caller's
        // promise.
        unsafe { write_lines_avx512(from, to, lines) };
        return;
    }
    for line in 0..lines {
        // SAFETY: the caller's promise.
        unsafe { write_line_of_baseline(from.add(line), to.add(line)) };
    }
}

/// Copies one line, streaming it.
///
/// # Safety
/// As for [`write_lines`].
#[inline(always)]
pub unsafe fn write_line(instructions: Instructions, from: *const [u8; LINE], to: *mut [u8; LINE]) {
    #[cfg(not(target_arch = "x86_64"))]
    let _ = instructions;
    #[cfg(target_arch = "x86_64")]
    if instructions.set() == InstructionSet::Avx512 {
        // SAFETY: there are such instructions only where the processor has them; the caller's
        // promise.
        unsafe { write_line_avx512(from, to) };
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { write_line_of_baseline(from, to) };
}

/// # Safety
/// As for [`write_lines`].
#[inline(always)]
unsafe fn write_line_of_baseline(from: *const [u8; LINE], to: *mut [u8; LINE]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        let from = from.cast::<__m128i>();
        let to = to.cast::<__m128i>();
        for part in 0..LINE / size_of::<__m128i>() {
            // SAFETY: the parts are those of the line, and `to` is aligned for them.
            unsafe { _mm_stream_si128(to.add(part), _mm_loadu_si128(from.add(part))) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise.
    unsafe {
        to.copy_from_nonoverlapping(from, 1)
    };
}

/// # Safety
/// As for [`write_lines`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn write_lines_avx512(from: *const [u8; LINE], to: *mut [u8; LINE], lines: usize) {
    for line in 0..lines {
        // SAFETY: the caller's promise.
        unsafe { write_line_avx512(from.add(line), to.add(line)) };
    }
}

/// # Safety
/// As for [`write_lines`].
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn write_line_avx512(from: *const [u8; LINE], to: *mut [u8; LINE]) {
    use std::arch::x86_64::{_mm512_loadu_si512, _mm512_stream_si512};
    // SAFETY: the caller's promise.
    unsafe { _mm512_stream_si512(to.cast(), _mm512_loadu_si512(from.cast())) };
}

/// Makes what this thread has streamed visible to others before anything that it writes next.
#[inline(always)]
pub fn finish() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of every x86-64 processor, and the fence touches no memory.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_arrives_and_no_other_is_touched() {
        let from: Vec<u8> = (0..400).map(|index| index as u8).collect();
        let lengths = [0, 1, 63, 64, 65, 127, 128, 129, 300];
        let lengths =
            Instructions::all().flat_map(|instructions| lengths.map(|bytes| (instructions, bytes)));
        for start in [0, 1, 17, 63, 64] {
            for (instructions, bytes) in lengths.clone() {
                let mut to = vec![255u8; 512];
                // SAFETY: both ranges lie in their vectors.
                unsafe {
                    let from = from.as_ptr().add(3);
                    let to = to.as_mut_ptr().add(start);
                    write(instructions, from, to, bytes);
                }
                finish();
                assert_eq!(to[start..start + bytes], from[3..3 + bytes]);
                assert!(
                    to[..start]
                        .iter()
                        .chain(&to[start + bytes..])
                        .all(|&byte| byte == 255)
                );
            }
        }
    }
}
