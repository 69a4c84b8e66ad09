//! Rows, which are slices along dimension 0: gathered by number, stacked one by one, and filled
//! with bytes.

use std::ptr;

use crate::copy::layouts::copy_dense;
use crate::layout::Layout;
use crate::view::{View, ViewMut};
use umbo_base::error::Result;

/// Copies row `rows[i]` of `source` to row `i` of `target`, for all of `rows`.
///
/// `target` is contiguous, has the dtype and the dimensions of `source` except the first, and at
/// least `rows.len()` rows. The two do not overlap. Fails, with nothing copied, with
/// INVALID_ARGUMENT if the views do not fit each other, and with OUT_OF_RANGE if there is no such
/// row.
pub fn copy_rows(source: &View, rows: &[u64], target: &mut ViewMut) -> Result<()> {
    let layout = source.layout();
    let Some(&available) = layout.shape.first() else {
        return Err(invalid!("source", "a scalar has no rows"));
    };
    if let Some(row) = rows.iter().find(|&&row| row >= available as u64) {
        return Err(out_of_range!("rows", "{row} is not in [0, {available})"));
    }
    let row = Layout::strided(layout.shape.without(0), &layout.strides()[1..])?;
    let bytes = checked_target(source, &row, target, rows.len())?;
    let step = layout.strides()[0] as usize * source.dtype().size();
    if bytes == 0 {
        return Ok(());
    }
    let size = source.dtype().size();
    let places = rows.iter().enumerate().map(|(position, &number)| {
        let from = source.data().wrapping_add(number as usize * step);
        (from, target.data().wrapping_add(position * bytes))
    });
    // SAFETY: it was just checked that these rows of the source exist, which its view guarantees,
    // and as many rows of the target. Views of distinct tensors that are read and written do not
    // overlap.
    unsafe {
        match bytes {
            _ if !row.is_contiguous() => {
                places.for_each(|(from, to)| copy_dense(from, &row, size, to));
            }
            // Rows of one number, of which there are many: as an instruction, and not a call.
            4 => places.for_each(|(from, to)| ptr::copy_nonoverlapping(from, to, 4)),
            8 => places.for_each(|(from, to)| ptr::copy_nonoverlapping(from, to, 8)),
            _ => places.for_each(|(from, to)| ptr::copy_nonoverlapping(from, to, bytes)),
        }
    }
    Ok(())
}

/// Copies all of `source` to row `position` of `target`.
///
/// `target` is contiguous and has the dtype of `source`. Its dimensions after the first are those
/// of `source`. The two do not overlap. Fails with INVALID_ARGUMENT if the views do not fit each
/// other or `target` has no such row.
pub fn copy_to_row(source: &View, target: &mut ViewMut, position: usize) -> Result<()> {
    let rows = position
        .checked_add(1)
        .ok_or_else(|| invalid!("position", "too large"))?;
    let bytes = checked_target(source, source.layout(), target, rows)?;
    // SAFETY: row `position` of the target has `bytes` bytes, and so has the layout of the source.
    // The two do not overlap.
    unsafe {
        let to = target.data().add(position * bytes);
        if source.layout().is_contiguous() {
            ptr::copy_nonoverlapping(source.data(), to, bytes);
        } else {
            copy_dense(source.data(), source.layout(), source.dtype().size(), to);
        }
    }
    Ok(())
}

/// Copies `bytes` into the contiguous `target`, from its byte `offset` on. Fails with
/// INVALID_ARGUMENT if they do not fit.
pub fn write_bytes(target: &mut ViewMut, offset: usize, bytes: &[u8]) -> Result<()> {
    let capacity = target.layout().shape.bytes(target.dtype())?;
    let end = offset.checked_add(bytes.len());
    if !target.layout().is_contiguous() || end.is_none_or(|end| end > capacity) {
        return Err(invalid!(
            "bytes",
            "{} from byte {offset} on do not fit in {capacity} contiguous bytes",
            bytes.len()
        ));
    }
    // SAFETY: the range was just checked to lie in the view. The view's builder guaranteed that
    // nobody else has access to it, so it does not overlap with `bytes` either.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), target.data().add(offset), bytes.len()) };
    Ok(())
}

/// Checks that `target` can hold `rows` rows like `row`, and returns the bytes of one row.
fn checked_target(source: &View, row: &Layout, target: &ViewMut, rows: usize) -> Result<usize> {
    let shape = target.layout().shape;
    let fits = source.dtype() == target.dtype()
        && target.layout().is_contiguous()
        && shape.first().is_some_and(|&capacity| capacity >= rows)
        && shape[1..] == *row.shape;
    if !fits {
        return Err(invalid!(
            "target",
            "{} of shape {shape} cannot take {rows} rows of {} and shape {}",
            target.dtype(),
            source.dtype(),
            row.shape
        ));
    }
    row.shape.bytes(source.dtype())
}
