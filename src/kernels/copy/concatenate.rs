//! Concatenation of contiguous parts along an axis, in one pass over the output.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::executor::workers;
use crate::kernels::instruction_set::Instructions;
use crate::kernels::streaming::{self, LINE, OutputTile};
use crate::kernels::view::{View, ViewMut};

/// Writes `parts`, one after the other along `axis`, to `output`. All are contiguous and agree in
/// dtype, rank and the sizes of all other axes; the output's size along `axis` is the sum of the
/// parts'.
///
/// Fails with INVALID_ARGUMENT if they do not.
pub fn concatenate(
    instructions: Instructions,
    parts: &[View],
    axis: usize,
    output: &mut ViewMut,
) -> Result<()> {
    let (dtype, shape) = (output.dtype(), output.layout().shape);
    if axis >= shape.rank() {
        return Err(Error::invalid(
            "axis",
            format!("{axis}; the tensors have {} dimensions", shape.rank()),
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
    let size: usize = parts.iter().filter(|part| fits(part)).map(|p| p.layout().shape[axis]).sum();
    if !(parts.iter().all(fits) && output.layout().is_contiguous() && size == shape[axis]) {
        return Err(Error::invalid("value", "parts and output do not fit together"));
    }
    let inner = shape[axis + 1..].iter().product::<usize>() * dtype.size();
    let part =
        |part: &View| CopiedPiece { data: part.data(), bytes: part.layout().shape[axis] * inner };
    let parts: Vec<CopiedPiece> = parts.iter().map(part).filter(|part| part.bytes > 0).collect();
    let rows = CopiedRows { parts: &parts, row: shape[axis] * inner, output: output.data() };
    let streaming = streaming::pays(shape.bytes(dtype)?.saturating_mul(2));
    workers::for_each_range(shape.elements(), 2 * dtype.size(), &|range| {
        let bytes = range.start * dtype.size()..range.end * dtype.size();
        if streaming {
            rows.stream(instructions, bytes);
            streaming::finish();
        } else {
            // SAFETY: the run is one of the range, which is this worker's alone.
            rows.for_each_run(bytes, |from, at, length| unsafe {
                rows.output.add(at).copy_from_nonoverlapping(from, length);
            });
        }
    });
    Ok(())
}

/// One of the tensors that are put together.
struct CopiedPiece {
    data: *const u8,
    /// Bytes of one of its rows, of which it has as many as the output.
    bytes: usize,
}

/// The output as rows, each of which has a run of bytes from each part.
struct CopiedRows<'a> {
    parts: &'a [CopiedPiece],
    /// Bytes of a row of the output.
    row: usize,
    output: *mut u8,
}

// SAFETY: the parts are views', which may be read from any thread, and the output is one's, which
// may be written from any; ranges of it are written by one worker each.
unsafe impl Sync for CopiedRows<'_> {}

impl CopiedRows<'_> {
    /// Calls `run(from, at, length)` for the runs that make up the output's bytes `range`, in
    /// order: `length` bytes from `from` on belong to byte `at` of the output.
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
                // Within the part: it has `bytes` bytes in each row, and is contiguous.
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

    /// Writes the output's bytes `range` past the caches.
    fn stream(&self, instructions: Instructions, range: Range<usize>) {
        let lines = |bytes: usize| bytes.is_multiple_of(LINE);
        let first = self.output.wrapping_add(range.start);
        if lines(first.addr())
            && lines(range.start)
            && lines(range.end)
            && self.parts.iter().all(|part| lines(part.bytes))
        {
            // SAFETY: the run lies in a part, which may be read, and belongs to this place of the
            // output, which is this worker's alone. It begins at a line and is whole lines, as
            // everything before it is.
            self.for_each_run(range, |from, at, length| unsafe {
                let to = self.output.add(at).cast();
                streaming::write_lines(instructions, from.cast(), to, length / LINE);
            });
        } else {
            self.stream_pieces(instructions, range);
        }
    }

    /// As [`CopiedRows::stream`], for runs of any length: those that are not whole lines are put together
    /// first, so that no line of the output is written in pieces.
    fn stream_pieces(&self, instructions: Instructions, range: Range<usize>) {
        let mut tile = OutputTile::new();
        let tile = tile.elements::<u8>();
        let whole_lines = |at: usize, length: usize| {
            self.output.wrapping_add(at).addr().is_multiple_of(LINE) && length.is_multiple_of(LINE)
        };
        // What the tile holds: the bytes of the output from `start` on.
        let (mut start, mut held) = (range.start, 0);
        self.for_each_run(range, |mut from, mut at, mut length| {
            if held == 0 && (whole_lines(at, length) || length >= 16 * tile.len()) {
                // SAFETY: the run lies in a part, which may be read, and belongs to this place of
                // the output, which is this worker's alone.
                unsafe { streaming::write(instructions, from, self.output.add(at), length) };
                start = at + length;
                return;
            }
            while length > 0 {
                // A tile ends where a line of the output ends.
                let misaligned = self.output.wrapping_add(start).addr() % LINE;
                let free = tile.len() - misaligned - held;
                let piece = length.min(free);
                // SAFETY: as above, for a part of the run; the tile has room for it, and is
                // written to the output once it is full.
                unsafe {
                    let place = tile.as_mut_ptr().cast::<u8>();
                    place.add(held).copy_from_nonoverlapping(from, piece);
                    held += piece;
                    if piece == free {
                        streaming::write(instructions, place, self.output.add(start), held);
                        (start, held) = (start + held, 0);
                    }
                    from = from.add(piece);
                }
                (at, length) = (at + piece, length - piece);
            }
            debug_assert_eq!(at, start + held);
        });
        // SAFETY: as above.
        unsafe {
            let to = self.output.add(start);
            streaming::write(instructions, tile.as_ptr().cast(), to, held);
        }
    }
}
