//! Where results go: reducing and copying onto destinations.

use super::central_storage::Strategy;
use super::collective::{Destination, Reduction, copies};
use super::context::require_cross_replica;
use super::{sparse, variables};
use crate::cross_device::{self, ReduceOp};
use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::values::{PerReplica, Value};

impl Strategy {
    /// Reduces a value over replicas onto a destination: a plain value on one device, or one copy
    /// for each component of a per-replica destination.
    pub fn reduce_to(&self, op: ReduceOp, value: &Value, to: &Destination) -> Result<Value> {
        require_cross_replica(self, "umbo_strategy_reduce_to")?;
        self.reduce_onto(op, value, to)
    }

    fn reduce_onto(&self, op: ReduceOp, value: &Value, to: &Destination) -> Result<Value> {
        place(to, |device| {
            let how = Reduction { destination: Some(device), ..Reduction::default() };
            self.reduce_here(op, value, &how)?.map_leaves(&mut |leaf| on(leaf, device))
        })
    }

    /// As [`Strategy::reduce_to`] for each pair of a value and its destination; the results as a
    /// tuple. A plain value counts as one component, so that its SUM is itself.
    pub fn batch_reduce_to(&self, op: ReduceOp, pairs: &[(Value, Destination)]) -> Result<Value> {
        require_cross_replica(self, "umbo_strategy_batch_reduce_to")?;
        if pairs.is_empty() {
            return Err(Error::invalid("values", "none; give one pair or more"));
        }
        let results: Result<_> = pairs
            .iter()
            .map(|(value, to)| {
                let components = value.map_leaves(&mut |leaf| match leaf {
                    Value::Variable(variable) => {
                        Value::per_replica(vec![variables::read(variable)?])
                    }
                    Value::Tensor(_) | Value::IndexedSlices(_) => {
                        Value::per_replica_of(vec![leaf.clone()])
                    }
                    other => Ok(other.clone()),
                })?;
                self.reduce_onto(op, &components, to)
            })
            .collect();
        Ok(Value::tuple(results?))
    }

    /// Copies a tensor or indexed slices to a destination: a plain value on one device, or one
    /// copy for each component of a per-replica destination.
    pub fn broadcast_to(&self, value: &Value, to: &Destination) -> Result<Value> {
        let what = "umbo_strategy_broadcast_to";
        require_cross_replica(self, what)?;
        if self.is_default() {
            return Err(Error::Unimplemented(format!("{what}: by the default strategy")));
        }
        let value = match value {
            Value::Variable(variable) => Value::Tensor(variables::read(variable)?),
            Value::Tensor(_) | Value::IndexedSlices(_) => value.clone(),
            other => {
                return Err(Error::invalid(
                    "value",
                    format!(
                        "{} cannot be broadcast; give a tensor, indexed slices or a variable",
                        other.kind_name()
                    ),
                ));
            }
        };
        place(to, |device| copy(&value, device))
    }
}

/// What `make` makes for one device, once for each device of the destination if that is a
/// per-replica value.
fn place(to: &Destination, make: impl Fn(DeviceId) -> Result<Value>) -> Result<Value> {
    match to {
        Destination::Device(device) => make(*device),
        Destination::Like(Value::Tensor(tensor)) => make(tensor.device()),
        Destination::Like(Value::IndexedSlices(slices)) => make(slices.device()),
        Destination::Like(Value::Variable(variable)) => make(variable.device()),
        Destination::Like(Value::PerReplica(like)) => {
            let devices = devices_of(like);
            copies(&make(devices[0])?, &devices)
        }
        Destination::Like(other) => Err(Error::invalid(
            "destination",
            format!(
                "{} is no destination; give a device name, a tensor, indexed slices, a variable or \
                 a per-replica value",
                other.kind_name()
            ),
        )),
    }
}

fn devices_of(value: &PerReplica) -> Vec<DeviceId> {
    let device = |component: &Value| match component {
        Value::Tensor(tensor) => tensor.device(),
        Value::IndexedSlices(slices) => slices.device(),
        _ => DeviceId::HOST,
    };
    value.values().iter().map(device).collect()
}

/// A leaf on `device`: itself if it lies there, else a copy.
fn on(leaf: &Value, device: DeviceId) -> Result<Value> {
    match leaf {
        Value::Tensor(tensor) if tensor.device() != device => copy(leaf, device),
        Value::IndexedSlices(slices) if slices.device() != device => copy(leaf, device),
        leaf => Ok(leaf.clone()),
    }
}

fn copy(leaf: &Value, device: DeviceId) -> Result<Value> {
    match leaf {
        Value::Tensor(tensor) => cross_device::copy_to(tensor, device).map(Value::Tensor),
        Value::IndexedSlices(slices) => sparse::copy_to(slices, device),
        other => Ok(other.clone()),
    }
}
