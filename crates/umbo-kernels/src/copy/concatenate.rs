//! Concatenation of contiguous parts along an axis, in one pass over the output.

use std::ops::Range;

use crate::instruction_set::Instructions;
use crate::streaming::{self, LINE};
use crate::view::{View, ViewMut};
use umbo_base::error::Result;
use umbo_executor::workers;

/// The least length of a run that is written past the caches if it is not whole lines: the ends of
/// such a run are stored. With runs of 1000 bytes that is 1.4 times as fast; below this length it
/// is slower.
const LONG: usize = 12 * LINE;

/// Writes `parts`, one after the other along `axis`, to `output`. All are contiguous and have the
/// same dtype, rank and sizes of all other axes. The output's size along `axis` is the sum of the
/// sizes of the parts.
///
/// Fails with INVALID_ARGUMENT if these conditions do not hold.
pub fn concatenate(
    instructions: Instructions,
    parts: &[View],
    axis: usize,
    output: &mut ViewMut,
) -> Result<()> {
    let dtype = output.dtype();
    let shape = output.layout().shape;
    if axis >= shape.rank() {
        return Err(invalid!(
            "axis",
            "{axis}; the tensors have {} dimensions",
            shape.rank()
        ));
    }
    let fits = |part: &View| {
        let layout = part.layout();
        let same_rank = layout.shape.rank() == shape.rank();
        part.dtype() == dtype
            && layout.is_contiguous()
            && same_rank
            && layout.shape.with_size(axis, 0) == shape.with_size(axis, 0)
    };
    let size: usize = parts
        .iter()
        .filter(|part| fits(part))
        .map(|p| p.layout().shape[axis])
        .sum();
    if !(parts.iter().all(fits) && output.layout().is_contiguous() && size == shape[axis]) {
        return Err(invalid!("value", "parts and output do not fit together"));
    }
    let inner = shape[axis + 1..].iter().product::<usize>() * dtype.size();
    let part = |part: &View| CopiedPiece {
        data: part.data(),
        bytes: part.layout().shape[axis] * inner,
    };
    let parts: Vec<CopiedPiece> = parts
        .iter()
        .map(part)
        .filter(|part| part.bytes > 0)
        .collect();
    let rows = CopiedRows {
        parts: &parts,
        row: shape[axis] * inner,
        output: output.data(),
    };
    let streaming = streaming::pays(shape.bytes(dtype)?.saturating_mul(2));
    workers::for_each_range(shape.elements(), 2 * dtype.size(), &|range| {
        let bytes = range.start * dtype.size()..range.end * dtype.size();
        // SAFETY: the run lies in a part, which may be read, and in the worker's range of the
        // output, which no other worker has.
        rows.for_each_run(bytes, |from, at, length| unsafe {
            let to = rows.output.add(at);
            let is_lines = to.addr().is_multiple_of(LINE) && length.is_multiple_of(LINE);
            if streaming && (is_lines || length >= LONG) {
                streaming::write(instructions, from, to, length);
            } else {
                to.copy_from_nonoverlapping(from, length);
            }
        });
        streaming::finish();
    });
    Ok(())
}

/// One of the tensors that are concatenated.
struct CopiedPiece {
    data: *const u8,
    /// Bytes of one of its rows. It has as many rows as the output.
    bytes: usize,
}

/// The output as rows. Each row has a run of bytes from each part.
struct CopiedRows<'a> {
    parts: &'a [CopiedPiece],
    /// Bytes of a row of the output.
    row: usize,
    output: *mut u8,
}

// SAFETY: the parts are those of views, which may be read from any thread. The output is that of a
// view, which may be written from any thread; each range of it is written by one worker.
unsafe impl Sync for CopiedRows<'_> {}

impl CopiedRows<'_> {
    /// Calls `run(from, at, length)` for each run of the output's bytes `range`, in order. The
    /// `length` bytes from `from` on belong at byte `at` of the output.
    #[inline(always)]
    fn for_each_run(&self, range: Range<usize>, mut run: impl FnMut(*const u8, usize, usize)) {
        let mut at = range.start;
        let mut row = at / self.row.max(1);
        let mut skipped = at - row * self.row;
        while at < range.end {
            for &CopiedPiece { data, bytes } in self.parts {
                if skipped >= bytes {
                    skipped -= bytes;
                    continue;
                }
                let length = (bytes - skipped).min(range.end - at);
                // This address is within the part, which has `bytes` bytes in each row and is
                // contiguous.
                run(data.wrapping_add(row * bytes + skipped), at, length);
                at += length;
                skipped = 0;
                if at == range.end {
                    return;
                }
            }
            row += 1;
        }
    }
}
