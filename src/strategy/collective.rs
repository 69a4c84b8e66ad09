//! Reducing, gathering and taking apart values in cross-replica context, and the same on a
//! replica context as merge calls.

use super::central_storage::Strategy;
use super::context::{ReplicaContext, require_cross_replica};
use super::merge::Operation;
use super::variables;
use crate::cross_device::{self, ReduceOp};
use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use crate::values::Value;
use crate::values::variable::Variable;

/// Where a reduction goes.
#[derive(Clone, Debug)]
pub enum Destination {
    /// One device.
    Device(DeviceId),
    /// The devices of all components of a per-replica value, or the device of a tensor or
    /// variable.
    Like(Value),
}

/// How a reduction or a gathering is done, beside its operation.
#[derive(Clone, Debug, Default)]
pub struct Reduction {
    /// Axes to reduce within each replica; `None` reduces over replicas only.
    pub axes: Option<Vec<i64>>,
    /// The device of the result; `None`: `CPU:0`.
    pub destination: Option<DeviceId>,
    /// A tensor to write the result into.
    pub output: Option<Tensor>,
}

impl Reduction {
    fn device(&self) -> DeviceId {
        self.destination.unwrap_or(DeviceId::HOST)
    }
}

impl Strategy {
    /// Reduces a value over replicas and, if axes are given, within each replica along them.
    /// Nests are reduced leaf by leaf.
    ///
    /// Without axes the components of a per-replica value are added element by element; MEAN
    /// divides by their number. With axes each component is summed along them and the sums are
    /// added; MEAN divides by the number of elements that were added, over all replicas, so
    /// components may differ in those dimensions. A plain tensor without axes is its own mean and
    /// has no sum over several replicas; with axes it counts once for each replica.
    pub fn reduce(&self, op: ReduceOp, value: &Value, how: &Reduction) -> Result<Value> {
        require_cross_replica(self, "umbo_strategy_reduce")?;
        self.reduce_here(op, value, how)
    }

    fn reduce_here(&self, op: ReduceOp, value: &Value, how: &Reduction) -> Result<Value> {
        no_output_for_nests(value, how)?;
        value.map_leaves(&mut |leaf| self.reduce_leaf(op, leaf, how))
    }

    fn reduce_leaf(&self, op: ReduceOp, leaf: &Value, how: &Reduction) -> Result<Value> {
        let reduce = |components: &[Tensor]| {
            let output = how.output.as_ref();
            cross_device::reduce(op, components, how.axes.as_deref(), how.device(), output)
                .map(Value::Tensor)
        };
        let tensor = match leaf {
            Value::PerReplica(value) => return reduce(value.components()),
            Value::Tensor(tensor) => tensor.clone(),
            Value::Variable(variable) if how.axes.is_some() || self.num_replicas() == 1 => {
                variables::read(variable)?
            }
            Value::Variable(_) | Value::Tuple(_) | Value::Struct(_) => {
                return match op {
                    ReduceOp::Mean => Ok(leaf.clone()),
                    ReduceOp::Sum => Err(self.not_reducible(leaf)),
                };
            }
        };
        if how.axes.is_some() {
            return reduce(&vec![tensor; self.num_replicas()]);
        }
        if op == ReduceOp::Sum && self.num_replicas() > 1 {
            return Err(self.not_reducible(leaf));
        }
        match &how.output {
            None => Ok(leaf.clone()),
            Some(output) => {
                cross_device::copy_into(&tensor, output)?;
                Ok(Value::Tensor(output.clone()))
            }
        }
    }

    fn not_reducible(&self, leaf: &Value) -> Error {
        Error::invalid(
            "value",
            format!(
                "{} that is the same on all {} replicas cannot be reduced by SUM; pass a \
                 per-replica value (each replica's own tensor), or MEAN",
                leaf.kind_name(),
                self.num_replicas()
            ),
        )
    }

    /// Concatenates the components of a per-replica value along `axis`, in replica order. Plain
    /// values, and values of one component, come back as they are. Nests go leaf by leaf.
    pub fn gather(&self, value: &Value, axis: i64, how: &Reduction) -> Result<Value> {
        require_cross_replica(self, "umbo_strategy_gather")?;
        no_output_for_nests(value, how)?;
        value.map_leaves(&mut |leaf| self.gather_leaf(leaf, axis, how))
    }

    fn gather_leaf(&self, leaf: &Value, axis: i64, how: &Reduction) -> Result<Value> {
        let single = match leaf {
            Value::PerReplica(value) if value.components().len() > 1 => {
                let output = how.output.as_ref();
                return cross_device::gather(value.components(), axis, how.device(), output)
                    .map(Value::Tensor);
            }
            Value::PerReplica(value) => Value::Tensor(value.components()[0].clone()),
            plain => plain.clone(),
        };
        if let (Some(output), Ok(tensor)) = (&how.output, single.tensor_of(0)) {
            cross_device::copy_into(tensor, output)?;
            return Ok(Value::Tensor(output.clone()));
        }
        Ok(single)
    }

    /// The local results of a value as a tuple: the components of a per-replica value; for a nest
    /// one nest for each replica; anything else alone.
    pub fn local_results(&self, value: &Value) -> Result<Value> {
        match value {
            Value::PerReplica(parts) => {
                Ok(Value::tuple(parts.components().iter().cloned().map(Value::Tensor).collect()))
            }
            Value::Tuple(_) | Value::Struct(_) => {
                let nests: Result<_> =
                    (0..self.num_replicas()).map(|replica| value.component(replica)).collect();
                Ok(Value::tuple(nests?))
            }
            plain => Ok(Value::tuple(vec![plain.clone()])),
        }
    }

    /// Reduces a value over replicas onto a destination: a plain value on one device, or one copy
    /// for each component of a per-replica destination.
    pub fn reduce_to(&self, op: ReduceOp, value: &Value, to: &Destination) -> Result<Value> {
        require_cross_replica(self, "umbo_strategy_reduce_to")?;
        let one = |device| {
            let how = Reduction { destination: Some(device), ..Reduction::default() };
            let reduced = self.reduce_here(op, value, &how)?;
            reduced.map_leaves(&mut |leaf| match leaf {
                Value::Tensor(tensor) if tensor.device() != device => {
                    cross_device::copy_to(tensor, device).map(Value::Tensor)
                }
                leaf => Ok(leaf.clone()),
            })
        };
        match to {
            Destination::Device(device) => one(*device),
            Destination::Like(Value::Tensor(tensor)) => one(tensor.device()),
            Destination::Like(Value::Variable(variable)) => one(variable.device()),
            Destination::Like(Value::PerReplica(like)) => {
                let devices: Vec<_> = like.components().iter().map(Tensor::device).collect();
                copies(&one(devices[0])?, &devices)
            }
            Destination::Like(other) => Err(Error::invalid(
                "destination",
                format!(
                    "{} is no destination; give a device name, a tensor, a variable or a \
                     per-replica value",
                    other.kind_name()
                ),
            )),
        }
    }

    /// Calls `function` once with the stored variable in cross-replica context. What it assigns
    /// becomes central state if it succeeds, and is dropped if it fails.
    pub fn update(
        &self,
        variable: &Variable,
        arguments: Option<&Value>,
        function: impl FnOnce(&Variable, Option<Value>) -> Result<Option<Value>>,
    ) -> Result<Option<Value>> {
        require_cross_replica(self, "umbo_strategy_update")?;
        let arguments = arguments.map(|arguments| arguments.component(0)).transpose()?;
        self.central_step(|| function(variable, arguments))
    }
}

fn no_output_for_nests(value: &Value, how: &Reduction) -> Result<()> {
    match value {
        Value::Tuple(_) | Value::Struct(_) if how.output.is_some() => Err(Error::invalid(
            "output",
            format!(
                "one output tensor for {}; reduce leaf by leaf, or leave it out",
                value.kind_name()
            ),
        )),
        _ => Ok(()),
    }
}

/// One copy of a plain tensor for each device; several on one device are separate tensors.
fn copies(value: &Value, devices: &[DeviceId]) -> Result<Value> {
    value.map_leaves(&mut |leaf| match leaf {
        Value::Tensor(tensor) => {
            let copies: Result<_> =
                devices.iter().map(|&device| cross_device::copy_to(tensor, device)).collect();
            Value::per_replica(copies?)
        }
        leaf => Ok(leaf.clone()),
    })
}

impl ReplicaContext {
    /// Reduces a nest of tensors over the replicas; each replica gets its own copy, on its
    /// device. One merge call for the whole nest.
    pub fn all_reduce(&self, op: ReduceOp, value: Value) -> Result<Value> {
        self.check_nest("umbo_replica_context_all_reduce", &value)?;
        self.combine(Operation::AllReduce(op), value, move |strategy, merged| {
            let how = Reduction { destination: Some(DeviceId::HOST), ..Reduction::default() };
            strategy.reduce_here(op, &merged, &how)
        })
    }

    /// Concatenates a nest of tensors over the replicas along `axis`; each replica gets its own
    /// copy of the whole, on its device.
    pub fn all_gather(&self, value: Value, axis: i64) -> Result<Value> {
        self.check_nest("umbo_replica_context_all_gather", &value)?;
        self.combine(Operation::AllGather(axis), value, move |strategy, merged| {
            merged.map_leaves(&mut |leaf| strategy.gather_leaf(leaf, axis, &Reduction::default()))
        })
    }

    fn check_nest(&self, what: &'static str, value: &Value) -> Result<()> {
        let mut leaves = 0;
        let wrong = value.find_leaf(&mut |leaf| {
            leaves += 1;
            match leaf {
                Value::Tensor(_) => None,
                other => Some(other.kind_name()),
            }
        });
        match wrong {
            Some(kind) => Err(Error::invalid(
                "value",
                format!("{what}: {kind} among the leaves; they must be tensors"),
            )),
            None if leaves == 0 => Err(Error::invalid(
                "value",
                format!("{what}: an empty structure; it needs a tensor"),
            )),
            None => Ok(()),
        }
    }

    fn combine(
        &self,
        operation: Operation,
        value: Value,
        reduce: impl FnOnce(&Strategy, Value) -> Result<Value> + Send + 'static,
    ) -> Result<Value> {
        let merge = move |strategy: &Strategy, values: Vec<Option<Value>>| {
            let values: Vec<Value> = values.into_iter().flatten().collect();
            // Every leaf becomes a per-replica value, also one that is the same on all: the sum
            // of one tensor over n replicas is what each of them asked for.
            let merged = Value::merge(&values, true, "value")?;
            let reduced = reduce(strategy, merged)?;
            let copies = copies(&reduced, strategy.compute_devices())?;
            (0..strategy.num_replicas())
                .map(|replica| copies.component(replica).map(Some))
                .collect()
        };
        let result = self.synchronize(operation, Some(value), Box::new(merge))?;
        result.ok_or_else(|| Error::Internal("a collective without a result".into()))
    }
}
