//! The sum of contributions of several runs, until it is applied.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::kernels::dtype::DType;
use crate::kernels::view::{Span, SpanMut};
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
    memory: Option<Memory>,
    /// One of the runs wrote the variable; else what the memory holds does not count.
    written: bool,
}

struct Memory {
    reading: Span,
    writing: SpanMut,
    _owner: Tensor,
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
        if sum.memory.is_none() {
            let (dtype, shape) = (DType::Float64, variable.shape());
            let storage = Arc::new(Storage::zeroed(shape.bytes(dtype)?, variable.device())?);
            let tensor = Tensor::from_storage(storage, dtype, Layout::row_major(shape), 0)?;
            let spans = (tensor.reading()?.span(), tensor.writing()?.into_span());
            let (Some(reading), Some(writing)) = spans else {
                return Err(Error::Internal("a fresh sum is not contiguous".into()));
            };
            sum.memory = Some(Memory { reading, writing, _owner: tensor });
        }
        Ok(())
    }

    /// The sum of variable `index`, if a run wrote it.
    pub(super) fn of_variable(&self, index: usize) -> Option<Span> {
        let sum = &self.sums[index];
        sum.memory.as_ref().filter(|_| sum.written).map(|memory| memory.reading)
    }

    /// The memory of variable `index`, if it was reserved.
    pub(super) fn memory(&self, index: usize) -> Option<&SpanMut> {
        self.sums[index].memory.as_ref().map(|memory| &memory.writing)
    }

    /// From now on what the memory of variable `index` holds counts. Returns whether it did not
    /// before, and so is to be overwritten, not added to.
    pub(super) fn claim(&mut self, index: usize) -> bool {
        !std::mem::replace(&mut self.sums[index].written, true)
    }

    /// Forgets what was accumulated, and keeps the memory.
    pub(super) fn reset(&mut self) {
        (self.runs, self.weight) = (0, 0.0);
        self.sums.iter_mut().for_each(|sum| sum.written = false);
    }
}
