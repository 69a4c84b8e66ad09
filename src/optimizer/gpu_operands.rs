//! What kernels are told of an apply's gradients, and the memory of a GPU that an apply has had before it writes
//! anything.

#![expect(unsafe_code, reason = "sums of rows are copied to a GPU")]

use crate::device::cuda::gpu::Gpu;
use crate::error::{Error, Result};
use crate::kernels::cuda::{Contribution, Gradient, Reserved};
use crate::optimizer::reserved_tensor::ReservedTensor;
use crate::optimizer::sources::Sources;
use crate::tensor::{DType, Shape, Tensor};

/// Of what the gradients of some variables are made, as kernels are told.
pub(super) struct Operands {
    contributions: Vec<Vec<Contribution>>,
    /// The sums of rows, which live as long as this.
    rows: Vec<Option<Tensor>>,
    /// What is not rows is the gradient of all ranks.
    exchanged: bool,
}

impl Operands {
    /// For the variables with these numbers.
    pub(super) fn new(
        sources: &Sources<'_>,
        gpu: &'static Gpu,
        variables: impl Iterator<Item = usize>,
    ) -> Result<Operands> {
        let (mut contributions, mut rows) = (Vec::new(), Vec::new());
        for index in variables {
            let of_rows = sources.rows(index).map(|merged| {
                let sums = merged.sums();
                let shape = Shape::new(&[sums.elements()])?;
                let there = Tensor::uninitialized(DType::Float64, shape, gpu.id())?;
                let bytes = sums.elements() * size_of::<f64>();
                // SAFETY: as many bytes are there on both sides, and nobody else has the tensor.
                unsafe { gpu.upload(sums.data(), there.place().address, bytes) }?;
                Ok::<_, Error>(there)
            });
            rows.push(of_rows.transpose()?);
            contributions.push(sources.contributions_on_gpu(index));
        }
        Ok(Operands { contributions, rows, exchanged: sources.exchanged })
    }

    /// The gradient of variable `index`, the `at`-th of these.
    pub(super) fn gradient<'a>(
        &'a self,
        sources: &Sources<'_>,
        at: usize,
        index: usize,
    ) -> Gradient<'a> {
        let dtype = sources.variables()[index].dtype();
        let (rows, elements) = (self.rows[at].as_ref(), sources.elements(index) as u64);
        if self.exchanged && rows.is_none() {
            let (gradient_dtype, contributions) = (dtype, self.contributions[at].as_slice());
            let (accumulated, divisor) = (None, 1.0);
            return Gradient {
                dtype,
                elements,
                gradient_dtype,
                contributions,
                accumulated,
                divisor,
            };
        }
        let sum = || sources.accumulation.of_variable(index).map(ReservedTensor::address);
        Gradient {
            dtype,
            elements,
            gradient_dtype: sources.gradient_dtype(dtype),
            contributions: if rows.is_some() { &[] } else { &self.contributions[at] },
            accumulated: rows.map_or_else(sum, |sums| Some(sums.place().address)),
            divisor: sources.divisor,
        }
    }

    /// Of how many contributions all are made.
    pub(super) fn contributions(&self) -> usize {
        self.contributions.iter().map(Vec::len).sum()
    }
}

/// All that an apply needs of a GPU's memory, had before anything is written.
pub(super) struct Ready {
    pub(super) operands: Operands,
    /// One for each variable that is updated: whether its gradient was not finite.
    pub(super) flags: Tensor,
    /// One for each variable that is updated, once the program has computed it.
    pub(super) computed: Vec<Computed>,
    /// Keeps the memory of the launch.
    pub(super) reserved: Reserved,
}

/// New weights and states of a variable, on its GPU, from an apply's preparation to its commit.
pub(super) struct Computed {
    pub(super) weights: Tensor,
    pub(super) slots: Vec<Tensor>,
    pub(super) rows: Option<Tensor>,
}
