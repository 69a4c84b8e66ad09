//! The gradient of a row-sparse variable: the rows of all replicas, where rows with the same index
//! are merged.
//!
//! Merging takes time and memory in proportion to the contributed rows, whatever the size of the
//! variable. It puts the contributions in the order of the rows. An update in host memory adds them
//! up as it goes over the rows; their sums are written only for what needs them more than once or
//! elsewhere.

#![expect(unsafe_code, reason = "memory for views is used again")]

use crate::gradients::row_buffer::RowBuffer;
use crate::gradients::rows::ReplicaRows;
use umbo_base::error::{Error, Result, memory};
use umbo_device::DeviceId;
use umbo_kernels::instruction_set::Instructions;
use umbo_kernels::rows::order::RowOrder;
use umbo_kernels::rows::sum::{RowPart, RowSums};
use umbo_kernels::update::pass::RowGradients;
use umbo_kernels::update::weighted_sum::WeightedSum;
use umbo_kernels::view::Span;
use umbo_tensor::values::variable::Variable;
use umbo_tensor::{DType, Shape, Tensor};

/// The sums of the contributions to one row-sparse variable since the last update.
///
/// An apply merges the rows of the last run with those of the runs before it while it prepares; if
/// the apply is dropped, the earlier sums count again.
pub(crate) struct MergedRowSums {
    /// The sums of the runs before the last one, if one of them contributed.
    before: Merged,
    has_before: bool,
    /// The sums of all runs, once the last one is merged.
    all: Merged,
    has_all: bool,
    /// The sums of all runs are not written; they are those of `order` and `parts`.
    is_unsummed: bool,
    order: RowOrder,
    /// The rows of the last run. They are used as long as the apply that merged them has the
    /// gradients.
    parts: Vec<RowPart<'static>>,
}

/// Indices of the contributed rows, ascending, and the sum of the contributions to each.
pub(crate) struct Merged {
    rows: Vec<usize>,
    sums: RowBuffer,
}

/// The place where the rows that are merged are added up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Summing {
    /// In the merging, which writes their sums.
    AtOnce,
    /// In an update in host memory, which alone reads them.
    InUpdate,
}

/// The rows of one replica, which replica it is, and the factor of its rows in the sum.
pub(crate) type RowSource<'a> = (usize, &'a ReplicaRows, f64);

impl MergedRowSums {
    /// Sums of no runs.
    pub(crate) fn new(variable: &Variable) -> Result<MergedRowSums> {
        let [before, all] = [Merged::new(variable)?, Merged::new(variable)?];
        Ok(MergedRowSums {
            before,
            has_before: false,
            all,
            has_all: false,
            is_unsummed: false,
            order: RowOrder::default(),
            parts: Vec::new(),
        })
    }

    /// Merges the rows of `sources`, which are in replica order; `with_before` also the sums from
    /// before the last run. Without sources the result is those earlier sums. Allocates nothing
    /// once a run had as many rows.
    ///
    /// Fails if an index is not a row of `variable`. [`RowPieces::check`] has checked the indices
    /// when the replica submitted.
    ///
    /// # Safety
    /// With [`Summing::InUpdate`], the rows of the sources stay as they are until the update is
    /// done, or these sums are merged again, kept, or forgotten.
    ///
    /// [`RowPieces::check`]: crate::gradients::rows::RowPieces::check
    pub(crate) unsafe fn merge<'a>(
        &mut self,
        with_before: bool,
        variable: &Variable,
        sources: impl Iterator<Item = RowSource<'a>> + Clone,
        summing: Summing,
    ) -> Result<()> {
        self.forget_last();
        if sources.clone().next().is_none() {
            return Ok(());
        }
        let before = (with_before && self.has_before).then_some(&self.before);
        collect(variable, before, sources, &mut self.order, &mut self.parts)?;
        self.order.sort(variable.shape()[0]);
        let merged = match summing {
            Summing::AtOnce => self.sum(with_before, variable),
            Summing::InUpdate => self.all.take_rows(variable, &self.order),
        };
        self.is_unsummed = summing == Summing::InUpdate;
        self.has_all = merged.is_ok();
        if !self.is_unsummed {
            self.parts.clear();
        }
        merged
    }

    /// Writes the sums of what was collected.
    fn sum(&mut self, with_before: bool, variable: &Variable) -> Result<()> {
        let MergedRowSums {
            before,
            has_before,
            all,
            order,
            parts,
            ..
        } = self;
        all.take_rows(variable, order)?;
        let before = (with_before && *has_before).then(|| before.sums());
        all.take_sums(
            variable,
            &RowSums::new(order, before, parts, all.row_elements()),
        )
    }

    /// Forgets the rows of the last run.
    fn forget_last(&mut self) {
        (self.has_all, self.is_unsummed) = (false, false);
        self.parts.clear();
    }

    /// The rows of all runs, if one contributed.
    pub(crate) fn merged(&self) -> Option<&Merged> {
        let before = self.has_before.then_some(&self.before);
        if self.has_all {
            Some(&self.all)
        } else {
            before
        }
    }

    /// The operands of the gradients of these rows.
    pub(crate) fn gradients(&self) -> Option<RowGradients<'_>> {
        let merged = self.merged()?;
        if !(self.has_all && self.is_unsummed) {
            return Some(RowGradients::Summed(merged.sums()));
        }
        let before = self.has_before.then(|| self.before.sums());
        let width = merged.row_elements();
        let sums = RowSums::new(&self.order, before, &self.parts, width);
        Some(RowGradients::Terms(sums))
    }

    /// Counts the last run, whose sums are written, among the earlier runs.
    pub(crate) fn keep(&mut self) {
        debug_assert!(!self.is_unsummed, "a run that is kept has sums");
        if std::mem::take(&mut self.has_all) {
            std::mem::swap(&mut self.before, &mut self.all);
            self.has_before = true;
        }
    }

    /// The sums of the runs before the next one, if one contributed.
    pub(crate) fn kept(&self) -> Option<&Merged> {
        self.has_before.then_some(&self.before)
    }

    /// Replaces the sums.
    pub(crate) fn put(&mut self, merged: Merged) {
        self.forget_last();
        (self.before, self.has_before) = (merged, true);
    }

    /// Forgets all runs, and keeps the memory.
    pub(crate) fn reset(&mut self) {
        self.forget_last();
        self.has_before = false;
    }
}

impl Merged {
    fn new(variable: &Variable) -> Result<Merged> {
        let sums = RowBuffer::new(DType::Float64, variable.shape(), DeviceId::HOST)?;
        Ok(Merged {
            rows: Vec::new(),
            sums,
        })
    }

    /// Rows of `variable`, ascending, with their sums in `sums`, a float64 tensor.
    pub(crate) fn of(variable: &Variable, rows: Vec<usize>, sums: &Tensor) -> Result<Merged> {
        let mut merged = Merged::new(variable)?;
        merged.sums.resize(rows.len(), rows.len())?;
        // SAFETY: the sums are new, and nobody else has them.
        unsafe { merged.sums.tensor().assume_exclusive() }.copy_from(sums)?;
        merged.rows = rows;
        Ok(merged)
    }

    /// The sums as a tensor, float64.
    pub(crate) fn tensor(&self) -> &Tensor {
        self.sums.tensor()
    }

    /// Indices of the contributed rows, ascending.
    pub(crate) fn rows(&self) -> &[usize] {
        &self.rows
    }

    /// The same as a tensor, int64, on `device`.
    pub(crate) fn indices(&self, device: DeviceId) -> Result<Tensor> {
        let numbers = memory::collect(self.rows.iter().map(|&row| Ok(row as i64)), "row numbers")?;
        Tensor::from_slice(&numbers, Shape::new(&[numbers.len()])?, device)
    }

    /// The elements of one row.
    pub(crate) fn row_elements(&self) -> usize {
        self.sums.tensor().shape()[1..].iter().product()
    }

    /// The number of elements that the rows have.
    pub(crate) fn elements(&self) -> usize {
        self.rows.len() * self.row_elements()
    }

    /// The sum of each of the rows, in float64, if they are written.
    pub(crate) fn sums(&self) -> Span<'_> {
        self.sums.span()
    }

    /// The sums, divided by `divisor`, as a gradient of elements of type `dtype`.
    pub(crate) fn gradient(&self, dtype: DType, divisor: f64) -> WeightedSum<'_> {
        let sums = self.sums();
        WeightedSum::new(dtype, sums.elements(), &[], divisor).starting_from(Some(sums))
    }

    /// Takes the rows of `order`.
    fn take_rows(&mut self, variable: &Variable, order: &RowOrder) -> Result<()> {
        // The most rows that there can be: the number of distinct rows changes from step to step.
        let most = order.entries().min(variable.shape()[0]);
        self.rows.clear();
        self.rows
            .try_reserve(most)
            .map_err(|_| out_of_memory(variable))?;
        self.rows
            .extend((0..order.rows()).map(|position| order.row(position)));
        Ok(())
    }

    /// Writes the sums of the rows that it has.
    fn take_sums(&mut self, variable: &Variable, sums: &RowSums<'_>) -> Result<()> {
        let most = sums.entries().min(variable.shape()[0]);
        self.sums.resize(self.rows.len(), most)?;
        // SAFETY: the sums belong to this apply, and nobody reads them before they are merged.
        unsafe {
            let to = self.sums.tensor().assume_exclusive().into_span()?;
            sums.write_to(Instructions::chosen(), &to);
        }
        Ok(())
    }
}

/// Enters the rows of `before`, then those of the sources, into `order`, and the values of the
/// latter into `parts`.
fn collect<'a>(
    variable: &Variable,
    before: Option<&Merged>,
    sources: impl Iterator<Item = RowSource<'a>> + Clone,
    order: &mut RowOrder,
    parts: &mut Vec<RowPart<'static>>,
) -> Result<()> {
    let before = before.map_or(&[][..], |before| &before.rows);
    let mut entries = before.len();
    for (_, rows, _) in sources.clone() {
        let rows = rows.pieces();
        entries = entries
            .checked_add(rows.rows())
            .ok_or_else(|| out_of_memory(variable))?;
    }
    order.start(entries).map_err(|_| out_of_memory(variable))?;
    order.add_rows(before);
    parts.clear();
    for (replica, rows, factor) in sources {
        let rows = rows.pieces();
        rows.each_indices(variable, replica, |indices, rows| {
            order.add_indices(indices, rows)
        })?;
        for (indices, values) in rows.iter() {
            // SAFETY: the caller of `merge` has promised it, or the parts are cleared before
            // `merge`, which borrows the rows, returns.
            let values = unsafe { values.span()?.held() };
            let rows = indices.shape()[0];
            parts.push(RowPart {
                values,
                rows,
                factor,
            });
        }
    }
    Ok(())
}

fn out_of_memory(variable: &Variable) -> Error {
    Error::no_memory_for(format!("merging the rows of {variable:?}"))
}
