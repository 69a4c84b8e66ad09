//! Rounding of float32 elements to 16-bit floats, which writes the low-precision copies of
//! variables.
//!
//! Each element is rounded by itself, to nearest, ties to even, with denormals kept. So the bits do
//! not depend on the split into ranges or on the instruction set.

use std::ops::Range;

use half::{bf16, f16};

use crate::dtype::{DType, Element};
use crate::float::half_precision::{f32_to_bf16, narrow_to_f16s};
use crate::instruction_set::{Instructions, Kernel, dispatch};
use crate::streaming::{self, LINE};
use crate::view::{Span, SpanMut};
use umbo_executor::workers;

/// 16-bit elements that fill a line.
const BLOCK: usize = LINE / 2;

/// Elements that are rounded together in registers when fewer than a block are left.
const LANES: usize = 8;

/// A 16-bit float.
trait Narrow: Element {
    /// The given numbers, rounded.
    fn narrowed<const N: usize>(instructions: Instructions, values: &[f32; N]) -> [Self; N];
}

impl Narrow for f16 {
    #[inline(always)]
    fn narrowed<const N: usize>(instructions: Instructions, values: &[f32; N]) -> [f16; N] {
        narrow_to_f16s(instructions, values)
    }
}

impl Narrow for bf16 {
    #[inline(always)]
    fn narrowed<const N: usize>(_: Instructions, values: &[f32; N]) -> [bf16; N] {
        let mut narrow = [bf16::ZERO; N];
        narrow
            .iter_mut()
            .zip(values)
            .for_each(|(narrow, &value)| *narrow = f32_to_bf16(value));
        narrow
    }
}

/// Rounds all elements of `from` into those of `to`, on as many workers as the work is worth.
/// Asserts the same as [`narrow`].
pub fn narrow_all(instructions: Instructions, from: Span, to: &mut SpanMut) {
    let bytes = size_of::<f32>() + to.dtype().size();
    let streaming = streaming::pays(from.elements().saturating_mul(bytes));
    workers::for_each_range(from.elements(), bytes, &|range| {
        // SAFETY: `to` is exclusive, and ranges do not overlap.
        unsafe { narrow(instructions, from, to, range, streaming) };
        streaming::finish();
    });
}

/// Rounds the elements of `from` in `range` into the same elements of `to`, on this thread. If
/// `streaming`, it writes past the caches, and [`streaming::finish`] has to follow before others
/// may read.
///
/// Asserted, not reported: `from` is float32, `to` is float16 or bfloat16 and as long, and the
/// range lies within.
///
/// # Safety
/// Nobody else reads or writes these elements of `to` meanwhile.
pub unsafe fn narrow(
    instructions: Instructions,
    from: Span,
    to: &SpanMut,
    range: Range<usize>,
    streaming: bool,
) {
    narrow_ranges(instructions, from, to, std::iter::once(range), streaming);
}

/// Like [`narrow`], for the rows with these numbers. Each row has `elements` elements.
///
/// # Safety
/// As for [`narrow`].
pub unsafe fn narrow_rows(
    instructions: Instructions,
    from: Span,
    to: &SpanMut,
    rows: &[usize],
    elements: usize,
) {
    let ranges = rows.iter().map(|row| row * elements..(row + 1) * elements);
    narrow_ranges(instructions, from, to, ranges, false);
}

fn narrow_ranges(
    instructions: Instructions,
    from: Span,
    to: &SpanMut,
    ranges: impl Iterator<Item = Range<usize>>,
    streaming: bool,
) {
    assert_eq!(
        (from.dtype(), from.elements()),
        (DType::Float32, to.elements())
    );
    let from = from.data().cast::<f32>();
    let data = to.data();
    let elements = to.elements();
    match to.dtype() {
        DType::Float16 => {
            let to = data.cast();
            dispatch(
                instructions,
                Narrowing::<f16, _> {
                    from,
                    to,
                    elements,
                    ranges,
                    streaming,
                },
            );
        }
        DType::BFloat16 => {
            let to = data.cast();
            dispatch(
                instructions,
                Narrowing::<bf16, _> {
                    from,
                    to,
                    elements,
                    ranges,
                    streaming,
                },
            );
        }
        other => unreachable!("no copy of a variable is of {other}"),
    }
}

/// `from` and `to` hold `elements` elements.
struct Narrowing<T, R> {
    from: *const f32,
    to: *mut T,
    elements: usize,
    ranges: R,
    streaming: bool,
}

impl<T: Narrow, R: Iterator<Item = Range<usize>>> Kernel for Narrowing<T, R> {
    #[inline(always)]
    fn run(self, instructions: Instructions) {
        let Narrowing {
            from,
            to,
            elements,
            ranges,
            streaming,
        } = self;
        for Range { mut start, end } in ranges {
            assert!(start <= end && end <= elements);
            if streaming {
                // Only whole lines are streamed.
                let line = to.wrapping_add(start).addr().wrapping_neg() % LINE / size_of::<T>();
                let head = end.min(start + line);
                while start < head {
                    // SAFETY: the element is in the range, which lies in both spans. The caller of
                    // `narrow` guarantees that nobody else uses it.
                    unsafe { narrow_block::<T, 1>(instructions, from.add(start), to.add(start)) };
                    start += 1;
                }
            }
            while end - start >= BLOCK {
                // SAFETY: all elements of the block are in the range, as for one element. When
                // streaming, the block starts at a line and fills it.
                unsafe {
                    if streaming {
                        let from = from.add(start).cast::<[f32; BLOCK]>();
                        let block = T::narrowed(instructions, &*from);
                        let line = (&raw const block).cast();
                        streaming::write_line(instructions, line, to.add(start).cast());
                    } else {
                        narrow_block::<T, BLOCK>(instructions, from.add(start), to.add(start));
                    }
                }
                start += BLOCK;
            }
            while end - start >= LANES {
                // SAFETY: all of these elements are in the range, as for one element.
                unsafe { narrow_block::<T, LANES>(instructions, from.add(start), to.add(start)) };
                start += LANES;
            }
            while start < end {
                // SAFETY: the element is in the range, which lies in both spans, and nobody else
                // uses it.
                unsafe { narrow_block::<T, 1>(instructions, from.add(start), to.add(start)) };
                start += 1;
            }
        }
    }
}

/// # Safety
/// `from` may be read and `to` written for `N` elements, nobody else writes those, and the two do
/// not overlap.
#[inline(always)]
unsafe fn narrow_block<T: Narrow, const N: usize>(
    instructions: Instructions,
    from: *const f32,
    to: *mut T,
) {
    // SAFETY: the caller's promise; arrays are aligned as their elements.
    unsafe {
        to.cast::<[T; N]>()
            .write(T::narrowed(instructions, &*from.cast::<[f32; N]>()));
    }
}
