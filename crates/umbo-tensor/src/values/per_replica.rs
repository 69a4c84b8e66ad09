//! Values with one component for each replica.

use std::sync::Arc;

use super::Value;
use crate::Tensor;
use umbo_base::error::{Error, Result};

/// One component per replica: tensors or indexed slices.
#[derive(Debug)]
pub struct PerReplica(Components);

#[derive(Debug)]
enum Components {
    /// All are tensors.
    Dense(Vec<Tensor>),
    /// At least one component is indexed slices.
    Mixed(Vec<Value>),
}

impl PerReplica {
    /// How many components there are: one or more.
    pub fn count(&self) -> usize {
        match &self.0 {
            Components::Dense(components) => components.len(),
            Components::Mixed(components) => components.len(),
        }
    }

    /// The component of `replica`, if there is one.
    pub fn component(&self, replica: usize) -> Option<Value> {
        match &self.0 {
            Components::Dense(components) => components.get(replica).cloned().map(Value::Tensor),
            Components::Mixed(components) => components.get(replica).cloned(),
        }
    }

    /// All components as values, in replica order.
    pub fn values(&self) -> Vec<Value> {
        (0..self.count())
            .filter_map(|replica| self.component(replica))
            .collect()
    }

    /// Whether all components are tensors.
    pub fn is_dense(&self) -> bool {
        matches!(self.0, Components::Dense(_))
    }

    /// The components, in replica order, if all are tensors ([`PerReplica::is_dense`]); else an
    /// empty slice.
    pub fn components(&self) -> &[Tensor] {
        if let Components::Dense(components) = &self.0 {
            components
        } else {
            &[]
        }
    }

    /// The components, which the input pipeline that alone owns them reuses in place; an empty
    /// slice if not all are tensors.
    pub fn components_mut(&mut self) -> &mut [Tensor] {
        if let Components::Dense(components) = &mut self.0 {
            components
        } else {
            &mut []
        }
    }

    pub(super) fn too_short(&self, replica: usize) -> Error {
        let count = self.count();
        let problem =
            format!("a per-replica value of {count} components has none for replica {replica}");
        Error::out_of_range("value", problem)
    }

    /// The component of `replica`, if it is a tensor.
    pub(super) fn dense(&self, replica: usize) -> Option<&Tensor> {
        match &self.0 {
            Components::Dense(components) => components.get(replica),
            Components::Mixed(components) => components.get(replica)?.as_tensor(),
        }
    }

    /// The size of the first dimension of the component of `replica`.
    pub(super) fn rows(&self, replica: usize) -> Option<u64> {
        let shape = match self.component(replica)? {
            Value::IndexedSlices(slices) => slices.values().shape(),
            component => component.as_tensor()?.shape(),
        };
        shape.first().map(|&size| size as u64)
    }
}

impl Value {
    /// A per-replica value of these components.
    pub fn per_replica(components: Vec<Tensor>) -> Result<Value> {
        if components.is_empty() {
            return Err(invalid!(
                "components",
                "none; a per-replica value has one or more"
            ));
        }
        Ok(Value::PerReplica(Arc::new(PerReplica(Components::Dense(
            components,
        )))))
    }

    /// A per-replica value of these components, each a tensor or indexed slices. If the components
    /// are nests of one structure, it is the same nest of per-replica values, since these are
    /// leaves.
    pub fn per_replica_of(components: Vec<Value>) -> Result<Value> {
        if components.iter().any(Value::is_nest) {
            return Value::merge(&components, true, "components");
        }
        if let Some(replica) = components.iter().position(|value| !value.is_component()) {
            let kind = components[replica].kind_name();
            let problem = format!(
                "{kind} where a tensor or indexed slices are expected; make a per-replica value \
                 of each leaf, and a nest of those"
            );
            return Err(Error::invalid(format!("components[{replica}]"), problem));
        }
        match components
            .iter()
            .map(|value| value.as_tensor().cloned())
            .collect()
        {
            Some(tensors) => Value::per_replica(tensors),
            None => Ok(Value::PerReplica(Arc::new(PerReplica(Components::Mixed(
                components,
            ))))),
        }
    }
}
