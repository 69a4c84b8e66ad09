//! Per-replica values: one component per replica.

use super::Value;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// One component per replica: tensors or indexed slices.
#[derive(Debug)]
pub struct PerReplica(Parts);

#[derive(Debug)]
enum Parts {
    /// All are tensors.
    Dense(Vec<Tensor>),
    /// At least one is indexed slices.
    Mixed(Vec<Value>),
}

impl PerReplica {
    /// A per-replica value of at least one component, all tensors.
    pub fn new(components: Vec<Tensor>) -> Result<PerReplica> {
        if components.is_empty() {
            return Err(no_components());
        }
        Ok(PerReplica(Parts::Dense(components)))
    }

    /// A per-replica value of at least one component, each a tensor or indexed slices.
    pub fn of(components: Vec<Value>) -> Result<PerReplica> {
        if components.is_empty() {
            return Err(no_components());
        }
        let other = components.iter().position(|component| !component.can_be_component());
        if let Some(replica) = other {
            return Err(Error::invalid(
                format!("components[{replica}]"),
                format!(
                    "{} where a tensor or indexed slices are expected; make a per-replica value of each \
                     leaf, and a nest of those",
                    components[replica].kind_name()
                ),
            ));
        }
        let dense: Option<Vec<Tensor>> = components
            .iter()
            .map(|component| match component {
                Value::Tensor(tensor) => Some(tensor.clone()),
                _ => None,
            })
            .collect();
        Ok(PerReplica(dense.map_or(Parts::Mixed(components), Parts::Dense)))
    }

    /// How many components there are.
    pub fn count(&self) -> usize {
        match &self.0 {
            Parts::Dense(components) => components.len(),
            Parts::Mixed(components) => components.len(),
        }
    }

    /// The component of `replica`, a tensor or indexed slices, if there is one.
    pub fn component(&self, replica: usize) -> Option<Value> {
        match &self.0 {
            Parts::Dense(components) => components.get(replica).cloned().map(Value::Tensor),
            Parts::Mixed(components) => components.get(replica).cloned(),
        }
    }

    /// All components as values, in replica order.
    pub fn values(&self) -> Vec<Value> {
        match &self.0 {
            Parts::Dense(components) => components.iter().cloned().map(Value::Tensor).collect(),
            Parts::Mixed(components) => components.clone(),
        }
    }

    /// Whether all components are tensors.
    pub fn is_dense(&self) -> bool {
        matches!(self.0, Parts::Dense(_))
    }

    /// The components, in replica order, of a value whose components all are tensors; nothing if
    /// [`PerReplica::is_dense`] says no.
    pub fn components(&self) -> &[Tensor] {
        match &self.0 {
            Parts::Dense(components) => components,
            Parts::Mixed(_) => &[],
        }
    }

    /// The components, to be reused in place by the input pipeline that owns them alone; nothing
    /// if they are not all tensors.
    pub fn components_mut(&mut self) -> &mut [Tensor] {
        match &mut self.0 {
            Parts::Dense(components) => components,
            Parts::Mixed(_) => &mut [],
        }
    }

    /// The component of `replica`, which must be a tensor.
    pub(super) fn tensor(&self, replica: usize) -> Result<&Tensor> {
        let found = match &self.0 {
            Parts::Dense(components) => components.get(replica),
            Parts::Mixed(components) => match components.get(replica) {
                Some(component) => return component.tensor_of(replica),
                None => None,
            },
        };
        found.ok_or_else(|| self.too_short(replica))
    }

    pub(super) fn too_short(&self, replica: usize) -> Error {
        Error::out_of_range(
            "value",
            format!(
                "a per-replica value of {} components has none for replica {replica}",
                self.count()
            ),
        )
    }

    /// How many examples the component of `replica` says that it holds.
    pub(super) fn annotated_examples(&self, replica: usize) -> Option<u64> {
        self.dense(replica)?.examples()
    }

    /// The component of `replica`, if it is a tensor.
    pub(super) fn dense(&self, replica: usize) -> Option<&Tensor> {
        match &self.0 {
            Parts::Dense(components) => components.get(replica),
            Parts::Mixed(components) => match components.get(replica)? {
                Value::Tensor(tensor) => Some(tensor),
                _ => None,
            },
        }
    }

    /// The size of the first dimension of the component of `replica`.
    pub(super) fn rows(&self, replica: usize) -> Option<u64> {
        let rows = |tensor: &Tensor| tensor.shape().first().map(|&size| size as u64);
        match &self.0 {
            Parts::Dense(components) => rows(components.get(replica)?),
            Parts::Mixed(components) => match components.get(replica)? {
                Value::Tensor(tensor) => rows(tensor),
                Value::IndexedSlices(slices) => rows(slices.values()),
                _ => None,
            },
        }
    }
}

fn no_components() -> Error {
    Error::invalid("components", "none; a per-replica value has one or more")
}
