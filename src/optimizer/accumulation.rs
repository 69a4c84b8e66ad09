//! The sum of contributions of several runs, until it is applied.

use std::sync::Arc;

use crate::error::Result;
use crate::kernels::dtype::DType;
use crate::optimizer::row_sums::{Merged, RowSums, Source, Workspace};
use crate::tensor::storage::Storage;
use crate::tensor::{Layout, Tensor};
use crate::values::variable::Variable;

/// What the runs since the last update have contributed: one float64 tensor for each variable, made
/// when it is first needed, and kept. So accumulating costs eight bytes of memory an element,
/// whatever the number of replicas and runs, and the sum has the bits of one run with all of the
/// contributions. Of a table it is the rows that were touched.
pub(super) struct Accumulation {
    /// How many runs.
    pub(super) runs: u64,
    /// The sum of their weights.
    pub(super) weight: f64,
    sums: Vec<Sum>,
    workspace: Workspace,
}

enum Sum {
    Dense(DenseSum),
    Rows(Box<RowSums>),
}

#[derive(Default)]
struct DenseSum {
    tensor: Option<Tensor>,
    /// One of the runs wrote the variable; else what the tensor holds does not count.
    written: bool,
}

impl Accumulation {
    /// Of no run. `is_table` says which of the variables have row-sparse gradients.
    pub(super) fn new(
        variables: &[Variable],
        is_table: impl Fn(usize) -> bool,
    ) -> Result<Accumulation> {
        let sum = |(index, variable)| {
            Ok(match is_table(index) {
                true => Sum::Rows(Box::new(RowSums::new(variable)?)),
                false => Sum::Dense(DenseSum::default()),
            })
        };
        let sums = variables.iter().enumerate().map(sum).collect::<Result<_>>()?;
        Ok(Accumulation { runs: 0, weight: 0.0, sums, workspace: Workspace::default() })
    }

    /// Has memory for the sum of variable `index`. A table has it since its rows were merged.
    pub(super) fn reserve(&mut self, index: usize, variable: &Variable) -> Result<()> {
        if let Sum::Dense(sum) = &mut self.sums[index]
            && sum.tensor.is_none()
        {
            let (dtype, shape) = (DType::Float64, variable.shape());
            let storage = Arc::new(Storage::zeroed(shape.bytes(dtype)?, variable.device())?);
            let layout = Layout::row_major(shape);
            sum.tensor = Some(Tensor::from_storage(storage, dtype, layout, 0)?);
        }
        Ok(())
    }

    /// Whether a run before the last wrote variable `index`; for a table also the last one, once
    /// its rows are merged.
    pub(super) fn has_variable(&self, index: usize) -> bool {
        self.of_variable(index).is_some() || self.rows(index).is_some()
    }

    /// The sum of variable `index`, if it is no table and a run wrote it.
    pub(super) fn of_variable(&self, index: usize) -> Option<&Tensor> {
        match &self.sums[index] {
            Sum::Dense(sum) => sum.tensor.as_ref().filter(|_| sum.written),
            Sum::Rows(_) => None,
        }
    }

    /// The sums of the rows of variable `index`, if it is a table and a run wrote it.
    pub(super) fn rows(&self, index: usize) -> Option<&Merged> {
        match &self.sums[index] {
            Sum::Dense(_) => None,
            Sum::Rows(sums) => sums.merged(),
        }
    }

    /// Merges what the last run contributed to variable `index`, if that is a table.
    pub(super) fn merge_rows<'a>(
        &mut self,
        index: usize,
        table: &Variable,
        sources: impl Iterator<Item = Source<'a>> + Clone,
    ) -> Result<()> {
        match &mut self.sums[index] {
            Sum::Dense(_) => Ok(()),
            Sum::Rows(sums) => sums.merge(table, sources, &mut self.workspace),
        }
    }

    /// Counts the merged rows of variable `index` among those of earlier runs. Returns whether it
    /// is a table.
    pub(super) fn keep_rows(&mut self, index: usize) -> bool {
        match &mut self.sums[index] {
            Sum::Dense(_) => false,
            Sum::Rows(sums) => {
                sums.keep();
                true
            }
        }
    }

    /// The memory of variable `index`, if there is some, to be added to or, if nothing in it counts
    /// (true), to be overwritten; from now on it counts.
    pub(super) fn claim(&mut self, index: usize) -> Option<(&Tensor, bool)> {
        let Sum::Dense(sum) = &mut self.sums[index] else { return None };
        let tensor = sum.tensor.as_ref()?;
        Some((tensor, !std::mem::replace(&mut sum.written, true)))
    }

    /// Forgets what was accumulated, and keeps the memory.
    pub(super) fn reset(&mut self) {
        (self.runs, self.weight) = (0, 0.0);
        self.sums.iter_mut().for_each(|sum| match sum {
            Sum::Dense(sum) => sum.written = false,
            Sum::Rows(sums) => sums.reset(),
        });
    }
}
