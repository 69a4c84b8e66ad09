//! Datasets of the rows of arrays.

#[cfg(not(feature = "files"))]
mod absent;
#[cfg(feature = "files")]
pub(crate) mod array_file;
pub mod file;
pub(crate) mod file_shares;
pub(crate) mod files;
pub(crate) mod from_tensors;
pub(crate) mod generator;
#[cfg(feature = "files")]
pub(crate) mod idx;
pub(crate) mod memory;
#[cfg(feature = "files")]
pub mod npy;
#[cfg(feature = "files")]
pub mod npz;
pub(crate) mod numpy;
pub(crate) mod range;
pub(crate) mod slices;

use std::sync::Arc;

use crate::dataset::{Dataset, Operation};
use crate::elements::spec::ElementSpec;
use crate::passes::IteratorStage;
use crate::passes::signature::Signature;
use crate::properties::DatasetProperties;
use slices::{Arrays, describe};
use umbo_base::error::Result;
use umbo_tensor::Tensor;
use umbo_tensor::values::Value;

impl Dataset {
    /// The slices of tensors along dimension 0. Element i consists of row i of each tensor, in the
    /// structure of `components` (a tensor, or a nest of tensors whose dimensions 0 agree).
    ///
    /// The tensors are shared, not copied: batches of consecutive rows are read-only views of them.
    /// They must not be written while the dataset or an element of it is in use.
    ///
    /// INVALID_ARGUMENT: a scalar, dimensions 0 that differ, per-replica values, variables, no
    /// tensor at all. UNIMPLEMENTED: memory that the CPU cannot address.
    pub fn from_tensor_slices(components: &Value) -> Result<Dataset> {
        Dataset::slices_of(components, "components")
    }

    /// As [`Dataset::from_tensor_slices`], of the argument of this name.
    fn slices_of(components: &Value, argument: &'static str) -> Result<Dataset> {
        let mut tensors = Vec::new();
        let spec = describe(components, argument, &mut tensors)?;
        let rows = tensors
            .first()
            .map(|tensor: &Tensor| tensor.shape()[0] as u64)
            .ok_or_else(|| invalid!(argument, "they contain no tensor"))?;
        if let Some(position) = tensors
            .iter()
            .position(|other| other.shape()[0] as u64 != rows)
        {
            return Err(invalid!(
                argument,
                "dimension 0 differs: {rows} in tensor 0 (shape {}), {} in tensor {position} \
                 (shape {}); row i of each tensor belongs to element i",
                tensors[0].shape(),
                tensors[position].shape()[0],
                tensors[position].shape()
            ));
        }
        let arrays = Arc::new(Arrays {
            components: tensors,
            rows,
        });
        Dataset::of(Arc::new(Slices { arrays, spec }), &[])
    }

    /// The dataset that [`Dataset::from_tensor_slices`] makes of a struct of `arrays` with these
    /// names. Without names it is made of a tuple, or of a single array itself. `argument` is the
    /// name of the arrays.
    pub fn from_named_arrays(
        arrays: Vec<Tensor>,
        names: Option<&[&str]>,
        argument: &'static str,
    ) -> Result<Dataset> {
        Dataset::slices_of(&nest_of_arrays(arrays, names)?, argument)
    }
}

/// A struct of `arrays` with these names. Without names it is a tuple, or a single array itself.
pub(crate) fn nest_of_arrays(arrays: Vec<Tensor>, names: Option<&[&str]>) -> Result<Value> {
    let mut arrays = arrays.into_iter().map(Value::Tensor);
    match names {
        Some(names) => {
            let names = names.iter().map(|&name| name.into());
            Value::structure(names.zip(arrays).collect())
        }
        None if arrays.len() == 1 => Ok(arrays.next().unwrap_or_else(Value::nothing)),
        None => Value::tuple(arrays.collect()),
    }
}

struct Slices {
    arrays: Arc<Arrays>,
    spec: ElementSpec,
}

impl Operation for Slices {
    fn properties(&self, _inputs: &[&DatasetProperties]) -> Result<DatasetProperties> {
        Ok(DatasetProperties::of_arrays(
            self.spec.clone(),
            &self.arrays,
        ))
    }

    fn signature(&self, _inputs: usize) -> Signature {
        self.arrays.signature()
    }

    fn start(&self, _dataset: &Dataset) -> Result<Box<dyn IteratorStage<Value>>> {
        Ok(slices::elements(
            &self.arrays,
            &self.spec,
            slices::in_order(self.arrays.rows),
        ))
    }
}
