//! Adding up the rows that replicas contribute to the gradient of a table.

use crate::error::{Error, Result};
use crate::kernels::cuda::gradient::{Addend, Contribution};
use crate::kernels::cuda::place::divisor;
use crate::kernels::cuda::queue::{Address, Launcher, Plain, Queue, argument};
use crate::kernels::dtype::DType;
use crate::kernels::rows::order::RowOrder;

/// Some rows, one for each of as many entries of an order.
#[derive(Clone, Copy, Debug)]
pub struct TablePart {
    /// The rows, contiguous.
    pub values: Address,
    /// How many there are.
    pub rows: usize,
    /// What each element is multiplied with.
    pub factor: f64,
}

/// As the kernels read it.
#[derive(Clone, Copy)]
#[repr(C)]
struct NamedRow {
    accumulated: Address,
    first_entry: u64,
    entries: u64,
}

const _: () = assert!(size_of::<NamedRow>() == 24);

// SAFETY: three numbers of eight bytes.
unsafe impl Plain for NamedRow {}

/// Where the row of an entry is.
enum Term {
    Accumulated(Address),
    Fresh(Contribution),
}

impl<Q: Queue> Launcher<Q> {
    /// Queues, for every row of `order`, the sum of factor × row over the entries that name it, in
    /// float64 and in the order's own order, to `sums`. The bits are those of
    /// [`sum_rows`](crate::kernels::rows::sum::sum_rows).
    ///
    /// The first entries are those of `accumulated`, whose rows are float64, whose factor does not
    /// count, and which names no row twice; then come those of `parts`, one after the other, of type
    /// `dtype`. A row has `width` elements.
    ///
    /// Fails with INVALID_ARGUMENT, with nothing queued, if entries and rows are not as many as the
    /// order says, and for a type that gradients cannot have.
    ///
    /// # Safety
    /// The rows may be read and the sums written when the work that is queued here comes to it, by
    /// nobody else at the same time.
    pub unsafe fn sum_rows(
        &mut self,
        order: &RowOrder,
        accumulated: Option<TablePart>,
        parts: &[TablePart],
        dtype: DType,
        width: u64,
        sums: Address,
    ) -> Result<()> {
        let kernel = match dtype {
            DType::Float16 => "umbo_row_sums_f16",
            DType::BFloat16 => "umbo_row_sums_bf16",
            DType::Float32 => "umbo_row_sums_f32",
            DType::Float64 => "umbo_row_sums_f64",
            other => return Err(Error::invalid("gradient", format!("{other}; must be a float"))),
        };
        let all = accumulated.iter().chain(parts);
        let entries = all.fold(0usize, |sum, part| sum.saturating_add(part.rows));
        if entries != order.entries() {
            let problem = format!("{entries} rows for {} that are named", order.entries());
            return Err(Error::invalid("rows", problem));
        }
        let mut elements = order.rows() as u64 * width;
        self.table.clear();
        let work = self.table.cut(self.thresholds, std::iter::once(elements))?;
        let term = |entry| term(order, accumulated.as_ref(), parts, dtype, width, entry);
        let fresh = |entry: &usize| matches!(term(*entry), Some(Term::Fresh(_)));
        let rows_at = self.table.begin::<NamedRow>(order.rows())?;
        let mut first_entry = 0;
        for position in 0..order.rows() {
            let own = order.entries_of(position);
            let mut row = NamedRow { accumulated: 0, first_entry, entries: own.len() as u64 };
            if let Some(Term::Accumulated(address)) = term(own.start) {
                row.accumulated = address;
                row.entries -= 1;
            }
            if own.filter(fresh).count() as u64 != row.entries {
                let problem = "a sum of earlier runs names a row twice";
                return Err(Error::invalid("rows", problem));
            }
            self.table.push(row);
            first_entry += row.entries;
        }
        let entries_at = self.table.begin::<Addend>(first_entry as usize)?;
        for entry in 0..order.entries() {
            if let Some(Term::Fresh(row)) = term(entry) {
                self.table.push(Addend::from(row));
            }
        }
        let table = self.queue.upload(self.table.bytes())?;
        let (mut rows, mut entries, mut sums) = (table + rows_at, table + entries_at, sums);
        let (mut width, (mut factor, mut shift)) = (width, divisor(width));
        let mut before = [
            argument(&mut rows),
            argument(&mut entries),
            argument(&mut sums),
            argument(&mut elements),
        ];
        let mut after = [argument(&mut width), argument(&mut factor), argument(&mut shift)];
        // SAFETY: the caller's promise, and the arguments are the kernel's.
        unsafe { self.over(kernel, &work, table, &mut before, &mut after) }
    }
}

/// The term of a sorted entry, if there are as many.
fn term(
    order: &RowOrder,
    accumulated: Option<&TablePart>,
    parts: &[TablePart],
    dtype: DType,
    width: u64,
    entry: usize,
) -> Option<Term> {
    let mut number = order.number(entry)?;
    let at = |part: &TablePart, number: usize, size: usize| {
        part.values + number as u64 * width * size as u64
    };
    if let Some(part) = accumulated {
        if number < part.rows {
            return Some(Term::Accumulated(at(part, number, size_of::<f64>())));
        }
        number -= part.rows;
    }
    for part in parts {
        if number < part.rows {
            let gradient = at(part, number, dtype.size());
            return Some(Term::Fresh(Contribution { gradient, factor: part.factor }));
        }
        number -= part.rows;
    }
    None
}
