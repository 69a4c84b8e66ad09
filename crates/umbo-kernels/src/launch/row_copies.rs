//! Copies of a table's rows, out of the table and back into it.

use crate::dtype::DType;
use crate::launch::launcher::{Address, KernelLauncher, Table};
use crate::launch::place::divisor;
use umbo_base::error::Result;

/// Some rows of a table of 32-bit or 64-bit elements, and memory for as many rows without gaps.
#[derive(Clone, Copy, Debug)]
pub struct RowCopy {
    /// The type of the elements.
    pub dtype: DType,
    /// The numbers of the rows, each in 64 bits.
    pub numbers: Address,
    /// Their number.
    pub rows: u64,
    /// The elements of one row.
    pub width: u64,
    /// The first element of the table.
    pub table: Address,
    /// The first element of the memory without gaps.
    pub compact: Address,
    /// Whether rows are copied into the table, and not out of it.
    pub back: bool,
}

impl KernelLauncher<'_> {
    /// Queues a copy of rows. It needs no memory of the device.
    ///
    /// Fails with INVALID_ARGUMENT, with nothing queued, for elements of another size.
    ///
    /// # Safety
    /// When the queued work reaches the copy, the numbers and the source may be read, and the
    /// target written. Nobody else uses them at that time. The rows are rows of the table, and
    /// none is there twice.
    pub unsafe fn copy_rows(&self, copy: RowCopy) -> Result<()> {
        let size = copy.dtype.size();
        if ![4, 8].contains(&size) {
            return Err(invalid!("rows", "of {}", copy.dtype));
        }
        let RowCopy {
            numbers,
            table,
            compact,
            width,
            ..
        } = copy;
        let elements = copy.rows.saturating_mul(width);
        let work = Table::default().cut(self.enough_chunks, std::iter::once(elements))?;
        let (factor, shift) = divisor(width);
        let after = [width, factor, shift.into(), copy.back.into()];
        let before = [numbers, table, compact, elements];
        // SAFETY: the caller's promise, and the arguments are the kernel's.
        unsafe { self.over(&format!("umbo_copy_rows_{size}"), &work, 0, &before, &after) }
    }
}
