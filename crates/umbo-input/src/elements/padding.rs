//! The space around the elements of a padded batch.

use std::sync::Arc;

use crate::elements::leaves::Leaves;
use crate::elements::spec::{ElementSpec, LeafSpec};
use umbo_base::error::{Error, Result};
use umbo_device::DeviceId;
use umbo_tensor::values::Value;
use umbo_tensor::{DType, Tensor};

/// How elements that differ in shape are padded.
#[derive(Clone, Debug, Default)]
pub struct PaddingOptions {
    /// The number around smaller elements: a scalar for all tensors of an element, or a nest like
    /// the element with a scalar for each. Without it, they are padded with zeros.
    pub value: Option<Value>,
    /// Whether a batch comes with a mask of what is not padding.
    pub mask: bool,
}

/// Padding whose values fit the elements.
#[derive(Clone)]
pub(crate) struct Padding {
    /// A scalar for each tensor of an element, on the host.
    values: Option<Arc<Vec<Tensor>>>,
    pub(crate) mask: bool,
}

impl Padding {
    /// Checks the options for elements like `spec`. INVALID_ARGUMENT if the value has another
    /// structure, or tensors that are not scalars of the elements' dtypes.
    pub(crate) fn new(options: &PaddingOptions, spec: &ElementSpec) -> Result<Padding> {
        let values = match &options.value {
            Some(value) => Some(Arc::new(values(value, spec)?)),
            None => None,
        };
        Ok(Padding {
            values,
            mask: options.mask,
        })
    }

    /// The number around tensor `leaf` of an element, unless it is zero.
    pub(crate) fn value(&self, leaf: usize) -> Option<&Tensor> {
        self.values.as_ref().and_then(|values| values.get(leaf))
    }
}

/// The scalar for each tensor of elements like `spec`.
fn values(value: &Value, spec: &ElementSpec) -> Result<Vec<Tensor>> {
    let mut dtypes = Vec::new();
    spec.for_each_leaf(&mut |leaf| dtypes.push(leaf.dtype));
    let leaves = Leaves::of(spec);
    let find = |leaf: usize| match value {
        Value::Tensor(tensor) => Ok(tensor),
        nest => leaves.tensor(nest, leaf).map_err(|_| {
            let problem = format!("a nest that is not like the elements, {spec}");
            Error::invalid("padding", problem)
        }),
    };
    let scalars = dtypes.into_iter().enumerate().map(|(leaf, dtype)| {
        let scalar = find(leaf)?;
        if scalar.dtype() != dtype || scalar.shape().rank() > 0 {
            return Err(invalid!(
                "padding",
                "{} of shape {} for tensor {leaf} of the elements, {spec}; a scalar of dtype \
                 {dtype} is expected",
                scalar.dtype(),
                scalar.shape()
            ));
        }
        scalar.copied_to(DeviceId::HOST)
    });
    scalars.collect()
}

/// The spec of the masks of batches like `batch`: for each tensor, whether a place along dimension
/// 1 is of its element. Tensors of one dimension, whose elements are scalars, have no dimension 1.
pub(crate) fn mask_spec(batch: &ElementSpec) -> Result<ElementSpec> {
    batch.map(&mut |leaf| {
        let dimensions = leaf.shape.len().min(2);
        Ok(ElementSpec::Leaf(LeafSpec {
            dtype: DType::Bool,
            shape: leaf.shape[..dimensions].to_vec(),
        }))
    })
}
