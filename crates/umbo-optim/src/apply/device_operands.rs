//! The kernels' operands for an apply's gradients, and the memory of devices that an apply reserves
//! before it writes anything.

#![expect(unsafe_code, reason = "sums of rows are copied to a device")]

use crate::apply::sources::GradientSources;
use umbo_base::error::{Error, Result};
use umbo_device::backend::Backend;
use umbo_kernels::launch::{Address, DeviceContribution, Gradient, PreparedLaunches};
use umbo_tensor::{DType, Shape, Tensor};

/// The operands of the gradients of some variables, as kernels read them.
pub(crate) struct DeviceOperands {
    contributions: Vec<Vec<DeviceContribution>>,
    /// The sums of rows, which live as long as this.
    rows: Vec<Option<Tensor>>,
    /// Dense gradients are those of all ranks.
    exchanged: bool,
}

impl DeviceOperands {
    /// The operands for the variables with these indices.
    pub(crate) fn new(
        sources: &GradientSources<'_>,
        backend: &'static dyn Backend,
        variables: impl Iterator<Item = usize>,
    ) -> Result<DeviceOperands> {
        let mut contributions = Vec::new();
        let mut rows = Vec::new();
        for index in variables {
            let of_rows = sources.rows(index).map(|merged| {
                let sums = merged.sums();
                let shape = Shape::new(&[sums.elements()])?;
                let there = Tensor::uninitialized(DType::Float64, shape, backend.id())?;
                let bytes = sums.elements() * size_of::<f64>();
                // SAFETY: as many bytes are there on both sides, and nobody else has the tensor.
                unsafe { backend.upload(sums.data(), there.place().address, bytes) }?;
                Ok::<_, Error>(there)
            });
            rows.push(of_rows.transpose()?);
            contributions.push(sources.contributions_on_device(index));
        }
        Ok(DeviceOperands {
            contributions,
            rows,
            exchanged: sources.exchanged,
        })
    }

    /// The gradient of variable `index`, the `at`-th of these.
    pub(crate) fn gradient<'a>(
        &'a self,
        sources: &GradientSources<'_>,
        at: usize,
        index: usize,
    ) -> Gradient<'a> {
        let dtype = sources.variables()[index].dtype();
        let rows = self.rows[at].as_ref();
        let elements = sources.elements(index) as u64;
        let exchanged = self.exchanged && rows.is_none();
        let sum = || {
            sources
                .accumulation
                .of_variable(index)
                .map(|sum| sum.place().address)
        };
        Gradient {
            dtype,
            elements,
            gradient_dtype: if exchanged {
                dtype
            } else {
                sources.gradient_dtype(dtype)
            },
            contributions: if rows.is_some() {
                &[]
            } else {
                &self.contributions[at]
            },
            accumulated: match rows {
                Some(sums) => Some(sums.place().address),
                None if exchanged => None,
                None => sum(),
            },
            divisor: if exchanged { 1.0 } else { sources.divisor },
        }
    }
}

/// Copies of the weights and the state of a variable, or of its rows that have gradients, on its
/// device.
pub(crate) struct VariableCopies {
    /// The weights and the states: each copy, and the address of the original.
    pub(crate) copies: Vec<(Tensor, Address)>,
    pub(crate) rows: Option<Tensor>,
    /// The elements of a row.
    pub(crate) width: u64,
    /// The gradient as the rule gets it.
    pub(crate) gradient: Tensor,
}

/// For each variable that is updated: whether its gradient was not finite.
pub(crate) struct NotFinite {
    pub(crate) flags: Tensor,
    /// The place where the flags are copied to.
    pub(crate) on_host: Vec<[u8; 4]>,
}

/// All that an apply on a device needs to be carried out, from its preparation on.
pub(crate) struct ReservedMemory {
    pub(crate) launches: PreparedLaunches,
    /// The inputs of the kernels.
    pub(crate) _operands: DeviceOperands,
    pub(crate) _copies: Vec<VariableCopies>,
    pub(crate) flags: Option<NotFinite>,
}
