//! Datasets of elements that the caller has already made.

use std::sync::Arc;

use crate::cardinality::Cardinality;
use crate::dataset::{Dataset, Operation};
use crate::elements::spec::{ElementSpec, LeafSpec, described};
use crate::passes::IteratorStage;
use crate::passes::signature::Signature;
use crate::properties::DatasetProperties;
use crate::{passes::indexed, sources::memory};
use umbo_base::error::Result;
use umbo_base::error::memory::list;
use umbo_tensor::Tensor;
use umbo_tensor::values::Value;

impl Dataset {
    /// A dataset of one element: `element`, a tensor or a nest of tensors. The tensors are shared,
    /// not copied. They must not be written while the dataset or its element is in use.
    ///
    /// INVALID_ARGUMENT: per-replica values, variables, no tensor at all.
    pub fn from_tensors(element: &Value) -> Result<Dataset> {
        let spec =
            ElementSpec::describe(element, "element", &mut |tensor| Ok(LeafSpec::of(tensor)))?;
        if spec.leaves() == 0 {
            return Err(invalid!("element", "it contains no tensor"));
        }
        of_elements(spec, vec![memory::read_only_value(element)?])
    }

    /// A dataset with one element for each tensor. The tensors have the same dtype and rank. Their
    /// shapes may differ, so the element spec has no sizes. They are shared as by
    /// [`Dataset::from_tensors`].
    ///
    /// INVALID_ARGUMENT: no tensors, tensors of different dtypes or ranks.
    pub fn elements(tensors: &[Tensor]) -> Result<Dataset> {
        let first = tensors.first().ok_or_else(|| {
            invalid!(
                "tensors",
                "none; give one or more, which say the dtype and the dimensions"
            )
        })?;
        let mut elements = list(tensors.len(), "elements")?;
        for (position, tensor) in tensors.iter().enumerate() {
            if tensor.dtype() != first.dtype() || tensor.shape().rank() != first.shape().rank() {
                return Err(invalid!(
                    "tensors",
                    "tensor {position} is {}, tensor 0 is {}; all have one dtype and rank",
                    described(tensor),
                    described(first)
                ));
            }
            elements.push(Value::Tensor(memory::read_only(tensor)?));
        }
        let shape = vec![None; first.shape().rank()];
        of_elements(
            ElementSpec::Leaf(LeafSpec {
                dtype: first.dtype(),
                shape,
            }),
            elements,
        )
    }
}

fn of_elements(spec: ElementSpec, elements: Vec<Value>) -> Result<Dataset> {
    Dataset::of(
        Arc::new(Tensors {
            elements: Arc::new(elements),
            spec,
        }),
        &[],
    )
}

/// Elements in memory.
struct Tensors {
    elements: Arc<Vec<Value>>,
    spec: ElementSpec,
}

impl Operation for Tensors {
    fn properties(&self, _inputs: &[&DatasetProperties]) -> Result<DatasetProperties> {
        let count = Cardinality::Exact(self.elements.len() as u64);
        Ok(DatasetProperties::source(self.spec.clone(), count))
    }

    fn signature(&self, _inputs: usize) -> Signature {
        Signature::new("tensors").with("elements", self.elements.len())
    }

    fn start(&self, _dataset: &Dataset) -> Result<Box<dyn IteratorStage<Value>>> {
        let elements = Arc::clone(&self.elements);
        let count = self.elements.len() as u64;
        Ok(indexed::start(
            move |number| Ok(elements[number as usize].clone()),
            count,
        ))
    }
}
