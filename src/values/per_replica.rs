//! Per-replica values: one component per replica.

use std::sync::Arc;

use super::indexed_slices::IndexedSlices;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// One component per replica: tensors or indexed slices.
#[derive(Debug)]
pub struct PerReplica(Components);

#[derive(Debug)]
enum Components {
    /// All are tensors.
    Dense(Vec<Tensor>),
    /// At least one component is indexed slices.
    Mixed(Vec<Component>),
}

/// The component of one replica.
#[derive(Clone, Debug)]
pub enum Component {
    /// A tensor.
    Tensor(Tensor),
    /// Some rows of a tensor.
    IndexedSlices(Arc<IndexedSlices>),
}

impl Component {
    fn tensor(&self) -> Option<&Tensor> {
        match self {
            Component::Tensor(tensor) => Some(tensor),
            Component::IndexedSlices(_) => None,
        }
    }
}

impl PerReplica {
    /// A per-replica value of at least one component, all tensors.
    pub fn new(components: Vec<Tensor>) -> Result<PerReplica> {
        if components.is_empty() {
            return Err(no_components());
        }
        Ok(PerReplica(Components::Dense(components)))
    }

    /// A per-replica value of at least one component, each a tensor or indexed slices.
    pub fn of(components: Vec<Component>) -> Result<PerReplica> {
        if components.is_empty() {
            return Err(no_components());
        }
        let dense: Option<_> = components.iter().map(|one| one.tensor().cloned()).collect();
        Ok(PerReplica(dense.map_or(Components::Mixed(components), Components::Dense)))
    }

    /// How many components there are.
    pub fn count(&self) -> usize {
        match &self.0 {
            Components::Dense(components) => components.len(),
            Components::Mixed(components) => components.len(),
        }
    }

    /// The component of `replica`, if there is one.
    pub fn component(&self, replica: usize) -> Option<Component> {
        match &self.0 {
            Components::Dense(components) => {
                components.get(replica).cloned().map(Component::Tensor)
            }
            Components::Mixed(components) => components.get(replica).cloned(),
        }
    }

    /// Whether all components are tensors.
    pub fn is_dense(&self) -> bool {
        matches!(self.0, Components::Dense(_))
    }

    /// The components, in replica order, if all are tensors ([`PerReplica::is_dense`]); else an empty slice.
    pub fn components(&self) -> &[Tensor] {
        match &self.0 {
            Components::Dense(components) => components,
            Components::Mixed(_) => &[],
        }
    }

    /// The components, which the input pipeline that alone owns them reuses in place; an empty slice if not all are
    /// tensors.
    pub fn components_mut(&mut self) -> &mut [Tensor] {
        match &mut self.0 {
            Components::Dense(components) => components,
            Components::Mixed(_) => &mut [],
        }
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

    /// The component of `replica`, if it is a tensor.
    pub(super) fn dense(&self, replica: usize) -> Option<&Tensor> {
        match &self.0 {
            Components::Dense(components) => components.get(replica),
            Components::Mixed(components) => components.get(replica)?.tensor(),
        }
    }

    /// The size of the first dimension of the component of `replica`.
    pub(super) fn rows(&self, replica: usize) -> Option<u64> {
        let component = self.component(replica)?;
        let tensor = match &component {
            Component::Tensor(tensor) => tensor,
            Component::IndexedSlices(slices) => slices.values(),
        };
        tensor.shape().first().map(|&size| size as u64)
    }
}

fn no_components() -> Error {
    Error::invalid("components", "none; a per-replica value has one or more")
}
