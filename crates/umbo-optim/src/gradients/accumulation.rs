//! The sum of contributions of several runs, until it is applied.

#![expect(
    unsafe_code,
    reason = "sums that were saved are put back, and rows are read where replicas wrote them"
)]

use crate::gradients::contributions::Contributions;
use crate::gradients::row_sums::{Merged, MergedRowSums, RowSource, Summing};
use umbo_base::error::{Error, Result, memory};
use umbo_device::DeviceId;
use umbo_kernels::dtype::DType;
use umbo_kernels::float::real;
use umbo_kernels::update::pass::RowGradients;
use umbo_tensor::collectives::copy_to;
use umbo_tensor::slab::{CACHE_SHIFT, Slab};
use umbo_tensor::values::variable::Variable;
use umbo_tensor::{Shape, Tensor};

/// The sum of the contributions since the last update: one float64 tensor for each variable, made
/// when it is first needed, and kept. So accumulating costs eight bytes of memory an element,
/// whatever the number of replicas and runs, and the sum has the bits of one run with all of the
/// contributions. For a row-sparse variable it is the rows that were written.
///
/// Beside the sums, memory is reserved for the gradients that an apply computes from them and from
/// the last run, if it needs them twice and keeping them costs less than computing them again.
pub(crate) struct Accumulation {
    /// How many runs.
    pub(crate) runs: u64,
    /// The sum of their weights.
    pub(crate) weight: f64,
    sums: Vec<VariableSum>,
    /// Grows when the sums are forgotten.
    period: u64,
    /// For each variable, the last period in which a run was accumulated while the variable was
    /// frozen.
    left_out: Vec<u64>,
    /// The variables that are row-sparse.
    row_sparse: Vec<usize>,
    sum_slab: Slab,
    gradient_slab: Slab,
}

enum VariableSum {
    Dense(DenseSum),
    Rows(Box<MergedRowSums>),
}

/// The sum of the contributions to one variable since the last update.
#[derive(Debug)]
pub struct AccumulatedSum {
    /// The position of the variable.
    pub index: usize,
    /// If it is row-sparse: the rows that were written, ascending.
    pub rows: Option<Vec<usize>>,
    /// The sum, float64: of the variable's shape, or for each of the rows.
    pub sum: Tensor,
}

/// The same sum, checked and ready to be imported.
pub(crate) enum PreparedSum {
    Dense(usize, Tensor),
    Rows(usize, Merged),
}

#[derive(Default)]
struct DenseSum {
    sum: Option<Tensor>,
    /// The last period in which a run wrote the variable. The contents of the sum's memory do not
    /// count in others.
    written: u64,
    gradient: Option<Tensor>,
}

/// Reserves memory for `shape` in `place`, if there is none.
fn reserve(
    place: &mut Option<Tensor>,
    slab: &mut Slab,
    dtype: DType,
    shape: Shape,
    device: DeviceId,
) -> Result<()> {
    if place.is_none() {
        *place = Some(slab.zeros(dtype, shape, device)?);
    }
    Ok(())
}

impl Accumulation {
    /// An accumulation of no runs. `is_row_sparse` says which of the variables have row-sparse
    /// gradients.
    pub(crate) fn new(
        variables: &[Variable],
        is_row_sparse: impl Fn(usize) -> bool,
    ) -> Result<Accumulation> {
        let sum = |(index, variable)| {
            Ok(match is_row_sparse(index) {
                true => VariableSum::Rows(Box::new(MergedRowSums::new(variable)?)),
                false => VariableSum::Dense(DenseSum::default()),
            })
        };
        let sums = variables
            .iter()
            .enumerate()
            .map(sum)
            .collect::<Result<_>>()?;
        let row_sparse = (0..variables.len())
            .filter(|&index| is_row_sparse(index))
            .collect();
        Ok(Accumulation {
            runs: 0,
            weight: 0.0,
            sums,
            period: 1,
            left_out: vec![0; variables.len()],
            row_sparse,
            sum_slab: Slab::new(0),
            gradient_slab: Slab::new(CACHE_SHIFT / 2),
        })
    }

    /// The number of runs with these contributions, and the sum of their weights.
    pub(crate) fn with(&self, contributions: Contributions<'_>) -> (u64, f64) {
        (
            self.runs + contributions.runs(),
            self.weight + contributions.total_weight(),
        )
    }

    /// Reserves memory for the sum of variable `index`; a row-sparse variable has it since its rows
    /// were merged.
    pub(crate) fn reserve(&mut self, index: usize, variable: &Variable) -> Result<()> {
        let VariableSum::Dense(dense) = &mut self.sums[index] else {
            return Ok(());
        };
        let slab = &mut self.sum_slab;
        let shape = variable.shape();
        let device = variable.device();
        reserve(&mut dense.sum, slab, DType::Float64, shape, device)
    }

    /// Reserves contiguous memory on the variable's device for the gradient of variable `index`,
    /// which is not row-sparse.
    pub(crate) fn reserve_gradient(&mut self, index: usize, variable: &Variable) -> Result<()> {
        let VariableSum::Dense(sum) = &mut self.sums[index] else {
            return Ok(());
        };
        let shape = Shape::new(&[variable.shape().elements()])?;
        let slab = &mut self.gradient_slab;
        let dtype = real::computing(variable.dtype());
        reserve(&mut sum.gradient, slab, dtype, shape, variable.device())
    }

    /// The memory for the gradient of variable `index`, if it was reserved.
    pub(crate) fn gradient(&self, index: usize) -> Option<&Tensor> {
        let VariableSum::Dense(sum) = &self.sums[index] else {
            return None;
        };
        sum.gradient.as_ref()
    }

    /// Whether a run before the last wrote variable `index`.
    pub(crate) fn has_before(&self, index: usize) -> bool {
        match &self.sums[index] {
            VariableSum::Dense(sum) => sum.written == self.period,
            VariableSum::Rows(sums) => sums.kept().is_some(),
        }
    }

    /// A run is accumulated without variable `index`, which is frozen.
    pub(crate) fn leave_out(&mut self, index: usize) {
        self.left_out[index] = self.period;
    }

    /// Whether one of the accumulated runs is without variable `index`, which was frozen.
    pub(crate) fn is_left_out(&self, index: usize) -> bool {
        self.left_out[index] == self.period
    }

    /// Whether variable `index` is row-sparse.
    pub(crate) fn is_row_sparse(&self, index: usize) -> bool {
        matches!(self.sums[index], VariableSum::Rows(_))
    }

    /// The sum of variable `index`, if it is not row-sparse and a run wrote it.
    pub(crate) fn of_variable(&self, index: usize) -> Option<&Tensor> {
        self.memory(index).filter(|_| self.has_before(index))
    }

    /// The memory of the sum of variable `index`, if it was reserved. A row-sparse variable has
    /// none here.
    pub(crate) fn memory(&self, index: usize) -> Option<&Tensor> {
        match &self.sums[index] {
            VariableSum::Dense(dense) => dense.sum.as_ref(),
            VariableSum::Rows(_) => None,
        }
    }

    /// The rows of variable `index`, if it is row-sparse and a run wrote it.
    pub(crate) fn rows(&self, index: usize) -> Option<&Merged> {
        self.row_sums(index)?.merged()
    }

    /// The operands of the gradients of these rows.
    pub(crate) fn row_gradients(&self, index: usize) -> Option<RowGradients<'_>> {
        self.row_sums(index)?.gradients()
    }

    fn row_sums(&self, index: usize) -> Option<&MergedRowSums> {
        match &self.sums[index] {
            VariableSum::Dense(_) => None,
            VariableSum::Rows(sums) => Some(sums),
        }
    }

    /// The variables that are row-sparse.
    pub(crate) fn row_sparse(&self) -> impl Iterator<Item = usize> {
        self.row_sparse.iter().copied()
    }

    /// Merges `rows` into the gradients of the row-sparse variables: what the last run contributed,
    /// and `with_before` also what was accumulated before.
    ///
    /// # Safety
    /// As for [`MergedRowSums::merge`].
    pub(crate) unsafe fn merge_rows<'a, R>(
        &mut self,
        variables: &[Variable],
        with_before: bool,
        rows: impl Fn(usize) -> R,
        summing: Summing,
    ) -> Result<()>
    where
        R: Iterator<Item = RowSource<'a>> + Clone,
    {
        let Accumulation {
            sums, row_sparse, ..
        } = self;
        row_sparse
            .iter()
            .try_for_each(|&index| match &mut sums[index] {
                VariableSum::Dense(_) => Ok(()),
                // SAFETY: the caller's promise.
                VariableSum::Rows(sums) => unsafe {
                    sums.merge(with_before, &variables[index], rows(index), summing)
                },
            })
    }

    /// Folds the last run into the accumulated sum of variable `index`: what was merged of
    /// a row-sparse variable counts, and so does what the memory of another variable holds. Returns
    /// whether the latter did not before, and so is to be overwritten, not added to.
    pub(crate) fn claim(&mut self, index: usize) -> bool {
        match &mut self.sums[index] {
            VariableSum::Dense(sum) => {
                std::mem::replace(&mut sum.written, self.period) != self.period
            }
            VariableSum::Rows(sums) => {
                sums.keep();
                false
            }
        }
    }

    /// The sum of variable `index`, whose rows come with it if it is row-sparse, if a run wrote it.
    pub(crate) fn export(&self, index: usize) -> Result<Option<AccumulatedSum>> {
        let (rows, sum) = match &self.sums[index] {
            VariableSum::Dense(_) if let Some(sum) = self.of_variable(index) => (None, sum.clone()),
            VariableSum::Rows(sums) if let Some(merged) = sums.kept() => {
                let rows = merged.rows().iter().map(|&row| Ok(row));
                (
                    Some(memory::collect(rows, "row numbers")?),
                    merged.tensor().clone(),
                )
            }
            _ => return Ok(None),
        };
        Ok(Some(AccumulatedSum {
            index,
            rows,
            sum: copy_to(&sum, DeviceId::HOST)?,
        }))
    }

    /// Prepares everything for [`Accumulation::import`]. Changes nothing that is visible.
    pub(crate) fn prepare_import(
        &mut self,
        variables: &[Variable],
        from: Vec<AccumulatedSum>,
    ) -> Result<Vec<PreparedSum>> {
        let prepare = |AccumulatedSum { index, rows, sum }| {
            self.reserve(index, &variables[index])?;
            Ok(match rows {
                None => PreparedSum::Dense(index, sum),
                Some(rows) => PreparedSum::Rows(index, Merged::of(&variables[index], rows, &sum)?),
            })
        };
        from.into_iter().map(prepare).collect()
    }

    /// Replaces what was accumulated.
    pub(crate) fn import(&mut self, runs: u64, weight: f64, from: Vec<PreparedSum>) -> Result<()> {
        self.reset();
        (self.runs, self.weight) = (runs, weight);
        for prepared in from {
            match prepared {
                PreparedSum::Dense(index, value) => {
                    self.claim(index);
                    let none = || Error::Internal("no memory was reserved for a sum".into());
                    let sum = self.of_variable(index).ok_or_else(none)?;
                    // SAFETY: only the owner of the accumulation reads and writes sums.
                    unsafe { sum.assume_exclusive() }.copy_from(&value)?;
                }
                PreparedSum::Rows(index, merged) => {
                    if let VariableSum::Rows(sums) = &mut self.sums[index] {
                        sums.put(merged);
                    }
                }
            }
        }
        Ok(())
    }

    /// Forgets what was accumulated, and keeps the memory.
    pub(crate) fn reset(&mut self) {
        (self.runs, self.weight) = (0, 0.0);
        self.period += 1;
        for &index in &self.row_sparse {
            if let VariableSum::Rows(sums) = &mut self.sums[index] {
                sums.reset();
            }
        }
    }
}
