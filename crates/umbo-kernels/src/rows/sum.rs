//! Adding up the rows that replicas contribute to the gradient of a table.
//!
//! The sum of a row runs over all entries that name it, in the order in which they were added: by
//! replica, then by position. It is float64, like the sum of a dense gradient
//! ([`weighted_sum`](crate::update::weighted_sum)), so that an update uses both in the same way.
//! One worker adds up a row, so the bits do not depend on the threads.

use std::ops::Range;

use crate::dtype::DType;
use crate::float::gradient_element::{GradientElement, for_gradient_dtype};
use crate::instruction_set::{Instructions, Kernel, dispatch};
use crate::prefetch::{ROWS_AHEAD, prefetch};
use crate::rows::order::RowOrder;
use crate::view::{View, ViewMut};
use umbo_executor::workers;

/// Some rows, one for each entry of a range of an order.
#[derive(Clone, Copy, Debug)]
pub struct RowPart<'a> {
    /// The rows: contiguous, and as many in the first dimension as there are entries.
    pub values: View<'a>,
    /// The factor of each element.
    pub factor: f64,
}

/// Writes to `sums`, for every row of `order`, the sum of factor × row over the entries that name
/// it. The sums are in the order's own order.
///
/// The first entries are those of `accumulated`, which is float64 and has the factor 1. The entries
/// of `parts` follow, one part after the other. Nothing is allocated.
///
/// Asserted, not reported: all views are contiguous; their rows have as many elements as those of
/// `sums`; there are as many entries and rows as in the order; `parts` are of one dtype that
/// gradients can have; `sums` is float64.
pub fn sum_rows(
    instructions: Instructions,
    order: &RowOrder,
    accumulated: Option<View>,
    parts: &[RowPart],
    sums: &mut ViewMut,
) {
    let shape = sums.layout().shape;
    let width = shape[1..].iter().product();
    assert!(sums.layout().is_contiguous() && sums.dtype() == DType::Float64);
    assert_eq!(shape[0], order.rows());
    let dtype = parts
        .first()
        .map_or(DType::Float64, |part| part.values.dtype());
    let mut entries = 0;
    for view in accumulated
        .iter()
        .chain(parts.iter().map(|part| &part.values))
    {
        let shape = view.layout().shape;
        assert!(view.layout().is_contiguous());
        assert_eq!(shape[1..].iter().product::<usize>(), width);
        entries += shape[0];
    }
    assert!(accumulated.is_none_or(|view| view.dtype() == DType::Float64));
    assert!(parts.iter().all(|part| part.values.dtype() == dtype));
    assert_eq!(entries, order.entries());
    for_gradient_dtype!(dtype, T => {
        let bytes = width * (size_of::<T>() + size_of::<f64>());
        workers::for_each_task(order.entries(), bytes, &|range| {
            let element = std::marker::PhantomData::<T>;
            let rows = order.rows_within(range);
            let part = RowSums { order, accumulated, parts, sums, width, rows, element };
            dispatch(instructions, part);
        });
    });
}

/// One worker's part: the sums of some rows, which no other worker has. The views are as `sum_rows`
/// asserted, and the parts are of type `T`.
struct RowSums<'a, T> {
    order: &'a RowOrder,
    accumulated: Option<View<'a>>,
    parts: &'a [RowPart<'a>],
    sums: &'a ViewMut<'a>,
    width: usize,
    rows: Range<usize>,
    element: std::marker::PhantomData<T>,
}

impl<T: GradientElement> Kernel for RowSums<'_, T> {
    #[inline(always)]
    fn run(self, instructions: Instructions) {
        for position in self.rows.clone() {
            let first = self
                .sums
                .data()
                .cast::<f64>()
                .wrapping_add(position * self.width);
            // SAFETY: the sums have this row, and no other worker has it; zeros are valid f64s.
            let sum = unsafe {
                first.write_bytes(0, self.width);
                std::slice::from_raw_parts_mut(first, self.width)
            };
            for entry in self.order.entries_of(position) {
                if let Some(RowTerm::Fresh(row, _)) = self.term(entry + ROWS_AHEAD) {
                    prefetch(row.as_ptr().cast(), size_of_val(row));
                }
                match self.term(entry) {
                    None => {}
                    Some(RowTerm::Accumulated(row)) => {
                        sum.iter_mut()
                            .zip(row)
                            .for_each(|(sum, value)| *sum += value);
                    }
                    Some(RowTerm::Fresh(row, factor)) => {
                        for (sum, value) in sum.iter_mut().zip(row) {
                            let [value] = T::widened(instructions, [*value]);
                            *sum += factor * value;
                        }
                    }
                }
            }
        }
    }
}

/// The contribution of an entry to the sum of its row.
enum RowTerm<'a, T> {
    /// A sum of earlier runs.
    Accumulated(&'a [f64]),
    /// A row of a part, and its factor.
    Fresh(&'a [T], f64),
}

impl<T: GradientElement> RowSums<'_, T> {
    /// The term of a sorted entry, or `None` past the last.
    #[inline(always)]
    fn term(&self, entry: usize) -> Option<RowTerm<'_, T>> {
        let mut number = self.order.number(entry)?;
        if let Some(accumulated) = &self.accumulated {
            let rows = accumulated.layout().shape[0];
            if number < rows {
                return Some(RowTerm::Accumulated(self.row(accumulated, number)));
            }
            number -= rows;
        }
        for part in self.parts {
            let rows = part.values.layout().shape[0];
            if number < rows {
                return Some(RowTerm::Fresh(self.row(&part.values, number), part.factor));
            }
            number -= rows;
        }
        None
    }

    /// Row `number` of a view of type `E`, which has this row.
    #[inline(always)]
    fn row<'v, E>(&self, view: &'v View, number: usize) -> &'v [E] {
        let first = view.data().cast::<E>().wrapping_add(number * self.width);
        // SAFETY: the view has this row, contiguous and of `width` elements (`sum_rows` asserted
        // it), and its builder guaranteed that it may be read.
        unsafe { std::slice::from_raw_parts(first, self.width) }
    }
}
