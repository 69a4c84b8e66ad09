//! The sum of contributions of several runs, until it is applied.

use std::sync::Arc;

use crate::error::Result;
use crate::kernels::dtype::DType;
use crate::tensor::storage::Storage;
use crate::tensor::{Layout, Tensor};
use crate::values::variable::Variable;

/// What the runs since the last update have contributed: one float64 tensor for each variable, made
/// when it is first needed, and kept. So accumulating costs eight bytes of memory an element,
/// whatever the number of replicas and runs, and the sum has the bits of one run with all of the
/// contributions.
pub(super) struct Accumulation {
    /// How many runs.
    pub(super) runs: u64,
    /// The sum of their weights.
    pub(super) weight: f64,
    sums: Vec<Sum>,
}

#[derive(Default)]
struct Sum {
    tensor: Option<Tensor>,
    /// One of the runs wrote the variable; else what the tensor holds does not count.
    written: bool,
}

impl Accumulation {
    /// Of no run, for `variables` variables.
    pub(super) fn new(variables: usize) -> Accumulation {
        let sums = (0..variables).map(|_| Sum::default()).collect();
        Accumulation { runs: 0, weight: 0.0, sums }
    }

    /// Has memory for the sum of variable `index`.
    pub(super) fn reserve(&mut self, index: usize, variable: &Variable) -> Result<()> {
        let sum = &mut self.sums[index];
        if sum.tensor.is_none() {
            let (dtype, shape) = (DType::Float64, variable.shape());
            let storage = Arc::new(Storage::zeroed(shape.bytes(dtype)?, variable.device())?);
            let layout = Layout::row_major(shape);
            sum.tensor = Some(Tensor::from_storage(storage, dtype, layout, 0)?);
        }
        Ok(())
    }

    /// The sum of variable `index`, if a run wrote it.
    pub(super) fn of_variable(&self, index: usize) -> Option<&Tensor> {
        self.sums[index].tensor.as_ref().filter(|_| self.sums[index].written)
    }

    /// The memory of variable `index`, if there is some, to be added to or, if nothing in it counts
    /// (true), to be overwritten; from now on it counts.
    pub(super) fn claim(&mut self, index: usize) -> Option<(&Tensor, bool)> {
        let sum = &mut self.sums[index];
        let tensor = sum.tensor.as_ref()?;
        Some((tensor, !std::mem::replace(&mut sum.written, true)))
    }

    /// Forgets what was accumulated, and keeps the memory.
    pub(super) fn reset(&mut self) {
        (self.runs, self.weight) = (0, 0.0);
        self.sums.iter_mut().for_each(|sum| sum.written = false);
    }
}
