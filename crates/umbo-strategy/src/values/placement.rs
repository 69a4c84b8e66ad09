//! Destinations: reductions and copies onto devices.

#![expect(unsafe_code, reason = "results that nobody else has yet are written")]

use super::collective::{Destination, ReductionOptions, copy, on_device, spread};
use crate::context::require_cross_replica;
use crate::ranks::CollectiveKind;
use crate::setup::central_storage::Strategy;
use crate::variables;
use umbo_base::error::{Error, Result};
use umbo_device::DeviceId;
use umbo_tensor::collectives::{ReduceOp, ReductionBatch};
use umbo_tensor::values::{PerReplica, Value};

impl Strategy {
    /// Reduces a value over replicas onto a destination: a plain value on one device, or one copy
    /// for each component of a per-replica destination.
    pub fn reduce_to(&self, op: ReduceOp, value: &Value, to: &Destination) -> Result<Value> {
        require_cross_replica(self.id())?;
        let targets = Targets::of(to)?;
        targets.place(&self.reduce_here(op, value, &ReductionOptions::onto(targets.first()))?)
    }

    /// As [`Strategy::reduce_to`] for each pair of a value and its destination; the results as a
    /// tuple. A plain value counts as one component, so that its SUM is itself.
    pub fn batch_reduce_to(&self, op: ReduceOp, pairs: &[(Value, Destination)]) -> Result<Value> {
        require_cross_replica(self.id())?;
        if pairs.is_empty() {
            return Err(invalid!("values", "none; give one pair or more"));
        }
        let mut batch = ReductionBatch::default();
        let reduced: Vec<(Value, Targets)> = pairs
            .iter()
            .map(|(value, to)| {
                let purpose = format_args!("batch reduce {}", op.name());
                let value = self.of_all_ranks(CollectiveKind::Reduce, &purpose, value)?;
                let read = value.map_leaves(&mut |leaf| match leaf {
                    Value::Variable(variable) => variables::read(variable).map(Value::Tensor),
                    other => Ok(other.clone()),
                });
                let components = read?.of_replicas()?;
                let targets = Targets::of(to)?;
                let how = ReductionOptions::onto(targets.first());
                Ok((self.reduce_in(&mut batch, op, &components, &how)?, targets))
            })
            .collect::<Result<_>>()?;
        // SAFETY: the results are still here.
        unsafe { batch.run() };
        let placed = reduced.iter().map(|(value, targets)| targets.place(value));
        Value::tuple(placed.collect::<Result<_>>()?)
    }

    /// Copies a tensor or indexed slices to a destination: a plain value on one device, or one
    /// copy for each component of a per-replica destination.
    pub fn broadcast_to(&self, value: &Value, to: &Destination) -> Result<Value> {
        require_cross_replica(self.id())?;
        if self.is_default() {
            return Err(Error::Unimplemented(
                "the default strategy has no devices of its own to broadcast to; use another \
                 strategy"
                    .into(),
            ));
        }
        if !matches!(
            value,
            Value::Variable(_) | Value::Tensor(_) | Value::IndexedSlices(_)
        ) {
            let problem = format!(
                "{} cannot be broadcast; give a tensor, indexed slices or a variable",
                value.kind_name()
            );
            return Err(Error::invalid("value", problem));
        }
        let targets = Targets::of(to)?;
        targets.spread(copy(value, targets.first())?)
    }
}

/// The devices of a destination.
struct Targets {
    devices: Vec<DeviceId>,
    /// Whether each device gets a copy of its own, as a component of a per-replica value.
    per_replica: bool,
}

impl Targets {
    fn of(to: &Destination) -> Result<Targets> {
        let one = |device| {
            Ok(Targets {
                devices: vec![device],
                per_replica: false,
            })
        };
        match to {
            Destination::Device(device) => one(*device),
            Destination::Like(Value::Tensor(tensor)) => one(tensor.device()),
            Destination::Like(Value::IndexedSlices(slices)) => one(slices.device()),
            Destination::Like(Value::Variable(variable)) => one(variable.device()),
            Destination::Like(Value::PerReplica(like)) => Ok(Targets {
                devices: devices_of(like),
                per_replica: true,
            }),
            Destination::Like(other) => Err(invalid!(
                "destination",
                "{} is not a destination; give a device name, a tensor, indexed slices, a variable \
                 or a per-replica value",
                other.kind_name()
            )),
        }
    }

    /// The device on which a result is made, before it is copied to the others.
    fn first(&self) -> DeviceId {
        self.devices[0]
    }

    /// A result that was made for the first device, with all leaves copied to it.
    fn place(&self, value: &Value) -> Result<Value> {
        self.spread(value.map_leaves(&mut |leaf| on_device(leaf, self.first()))?)
    }

    /// Copies a value on the first device to all devices.
    fn spread(&self, value: Value) -> Result<Value> {
        if self.per_replica {
            spread(&value, &self.devices)
        } else {
            Ok(value)
        }
    }
}

fn devices_of(value: &PerReplica) -> Vec<DeviceId> {
    let device = |component: &Value| match component {
        Value::Tensor(tensor) => tensor.device(),
        Value::IndexedSlices(slices) => slices.device(),
        Value::PerReplica(_) | Value::Nest(_) | Value::Variable(_) => DeviceId::HOST,
    };
    value.values().iter().map(device).collect()
}
