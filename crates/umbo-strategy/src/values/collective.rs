//! Reducing, gathering and taking apart values in cross-replica context.

#![expect(
    unsafe_code,
    reason = "results are written into tensors that the caller has guaranteed"
)]

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::context::require_cross_replica_else;
use crate::ranks::CollectiveKind;
use crate::ranks::large::large_components;
use crate::setup::central_storage::Strategy;
use crate::{values::sparse, variables};
use umbo_base::error::{Error, Result};
use umbo_device::DeviceId;
use umbo_tensor::collectives::{self, ReduceOp, ReductionBatch};
use umbo_tensor::values::Value;
use umbo_tensor::{Tensor, TensorMut};

/// The destination of a reduction.
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
pub struct ReductionOptions {
    /// Axes to reduce within each replica; `None` reduces over replicas only.
    pub axes: Option<Vec<i64>>,
    /// The device of the result; `None`: `CPU:0`, and for plain values where they are.
    pub destination: Option<DeviceId>,
    /// The place for the result; `None`: a fresh tensor.
    pub output: Option<ReductionOutput>,
    /// Suppresses the hint about axes in messages, since the caller can name none.
    pub over_replicas_only: bool,
}

/// A tensor that a result is to be written into.
#[derive(Clone, Debug)]
pub struct ReductionOutput(Tensor);

impl ReductionOutput {
    /// # Safety
    /// Nobody else reads or writes the tensor while something is done with this or a clone of it,
    /// and no two such things are done at the same time.
    pub unsafe fn new(tensor: Tensor) -> ReductionOutput {
        ReductionOutput(tensor)
    }
}

impl ReductionOptions {
    /// Over replicas only, onto `device`.
    pub(crate) fn onto(device: DeviceId) -> ReductionOptions {
        ReductionOptions {
            destination: Some(device),
            over_replicas_only: true,
            ..ReductionOptions::default()
        }
    }

    fn output(&self) -> Option<TensorMut<'_>> {
        // SAFETY: the maker of the output guaranteed that.
        self.output
            .as_ref()
            .map(|ReductionOutput(tensor)| unsafe { tensor.assume_exclusive() })
    }

    fn device(&self) -> DeviceId {
        self.destination.unwrap_or(DeviceId::HOST)
    }
}

impl Strategy {
    /// Reduces a value over replicas and, if axes are given, within each replica along them.
    /// Nests are reduced leaf by leaf.
    ///
    /// Without axes the components of a per-replica value are added element by element; MEAN
    /// divides by their number; MIN and MAX choose one of them. With axes each component is summed
    /// along them and the sums are added; MEAN divides by the number of elements that were added,
    /// over all replicas, so components may differ in those dimensions. A plain tensor without axes
    /// is its own mean and extreme and has no sum over several replicas; with axes it counts once
    /// for each replica. The mean of integers is a float for any number of replicas, also of a
    /// plain tensor. Extremes of indexed slices are those of dense tensors.
    pub fn reduce(&self, op: ReduceOp, value: &Value, how: &ReductionOptions) -> Result<Value> {
        require_cross_replica_else(self.id(), "an all-reduce or a merge call")?;
        self.reduce_here(op, value, how)
    }

    pub(crate) fn reduce_here(
        &self,
        op: ReduceOp,
        value: &Value,
        how: &ReductionOptions,
    ) -> Result<Value> {
        let mut batch = ReductionBatch::default();
        let reduced = match self.ranks().is_alone() {
            true => self.reduce_in(&mut batch, op, value, how)?,
            false => self.reduce_over_ranks(&mut batch, op, value, how)?,
        };
        // SAFETY: the results are still here, or they are an output, for which the caller gave its
        // guarantee.
        unsafe { batch.run() };
        Ok(reduced)
    }

    /// As [`Strategy::reduce_in`], over the replicas of all ranks. Large tensors are reduced in
    /// parts.
    fn reduce_over_ranks(
        &self,
        batch: &mut ReductionBatch,
        op: ReduceOp,
        value: &Value,
        how: &ReductionOptions,
    ) -> Result<Value> {
        let ranks = self.ranks();
        no_output_for_nests(value, how)?;
        fn in_parts<'l>(leaf: &'l Value, how: &ReductionOptions) -> Option<&'l [Tensor]> {
            large_components(leaf).filter(|_| how.axes.is_none())
        }
        let purpose = format_args!("reduce {}", op.name());
        let of_all = ranks.gather_except(
            |leaf| in_parts(leaf, how).is_some(),
            CollectiveKind::Reduce,
            &purpose,
            Ok(value.clone()),
        )?;
        let mut large = Vec::new();
        value.find_leaf(&mut |leaf| {
            large.extend(in_parts(leaf, how));
            None::<()>
        });
        let large = large
            .into_iter()
            .map(|components| ranks.reduce_large(op, components));
        let mut large = large.collect::<Result<Vec<_>>>()?.into_iter();
        of_all.map_leaves(&mut |leaf| match in_parts(leaf, how) {
            None => self.reduce_leaf(batch, op, leaf, how),
            Some(_) => {
                let none = || Error::Internal("fewer tensors were reduced than there are".into());
                deliver(large.next().ok_or_else(none)?, how)
            }
        })
    }

    /// `value` with the components of all ranks' replicas, if there are several ranks.
    pub(crate) fn of_all_ranks<'a>(
        &self,
        kind: CollectiveKind,
        purpose: &dyn fmt::Display,
        value: &'a Value,
    ) -> Result<Cow<'a, Value>> {
        match self.ranks().is_alone() {
            true => Ok(Cow::Borrowed(value)),
            false => self
                .ranks()
                .gather(kind, purpose, Ok(value.clone()))
                .map(Cow::Owned),
        }
    }

    /// As [`Strategy::reduce`], except that the result is not there before the batch has run. The
    /// components are those of all ranks.
    pub(crate) fn reduce_in(
        &self,
        batch: &mut ReductionBatch,
        op: ReduceOp,
        value: &Value,
        how: &ReductionOptions,
    ) -> Result<Value> {
        no_output_for_nests(value, how)?;
        value.map_leaves(&mut |leaf| self.reduce_leaf(batch, op, leaf, how))
    }

    fn reduce_leaf(
        &self,
        batch: &mut ReductionBatch,
        op: ReduceOp,
        leaf: &Value,
        how: &ReductionOptions,
    ) -> Result<Value> {
        let mut reduce = |components: &[Tensor]| {
            let output = how.output();
            let no_axes: Option<&[i64]> = (!how.over_replicas_only).then_some(&[]);
            let axes = how.axes.as_deref().or(no_axes);
            batch
                .reduce(op, components, axes, how.device(), output)
                .map(Value::Tensor)
        };
        let tensor = match leaf {
            Value::PerReplica(value) if value.is_dense() => return reduce(value.components()),
            Value::PerReplica(value) => {
                let components = value.values();
                return match sparse::all_slices(&components) {
                    Some(slices) if how.axes.is_none() && !op.is_choice() => {
                        no_output_for_slices(how)?;
                        let reduced = sparse::concatenate(op, &slices, how.device())?;
                        Ok(Value::IndexedSlices(Arc::new(reduced)))
                    }
                    _ => reduce(&sparse::dense_components(value)?),
                };
            }
            Value::Tensor(tensor) => tensor.clone(),
            Value::IndexedSlices(slices) if how.axes.is_some() => {
                slices.to_dense(DeviceId::HOST)?
            }
            Value::IndexedSlices(_) if op != ReduceOp::Sum || self.num_replicas_in_sync() == 1 => {
                no_output_for_slices(how)?;
                return place(leaf, how);
            }
            Value::Variable(variable)
                if how.axes.is_some()
                    || how.output.is_some()
                    || self.num_replicas_in_sync() == 1
                    || (op == ReduceOp::Mean && !variable.dtype().is_float()) =>
            {
                variables::read(variable)?
            }
            Value::Variable(_) | Value::Nest(_) | Value::IndexedSlices(_) => {
                return match op {
                    ReduceOp::Mean | ReduceOp::Min | ReduceOp::Max => place(leaf, how),
                    ReduceOp::Sum => Err(self.not_reducible(leaf)),
                };
            }
        };
        if how.axes.is_some() {
            // One of equal components is enough to choose from.
            let components = match op.is_choice() {
                true => 1,
                false => self.num_replicas_in_sync(),
            };
            return reduce(&vec![tensor; components]);
        }
        if op == ReduceOp::Sum && self.num_replicas_in_sync() > 1 {
            return Err(self.not_reducible(leaf));
        }
        if op == ReduceOp::Mean && !tensor.dtype().is_float() {
            return reduce(&[tensor]);
        }
        deliver(tensor, how)
    }

    fn not_reducible(&self, leaf: &Value) -> Error {
        invalid!(
            "value",
            "{} that is the same on all {} replicas cannot be reduced by SUM; pass a per-replica \
             value (each replica's own tensor), or MEAN, MIN or MAX, which are the value itself",
            leaf.kind_name(),
            self.num_replicas_in_sync()
        )
    }

    /// Concatenates the components of a per-replica value along `axis`, in replica order. Plain
    /// values, and values of one component, come back as they are, or as copies if a destination is
    /// given and they lie elsewhere. Nests go leaf by leaf.
    pub fn gather(&self, value: &Value, axis: i64, how: &ReductionOptions) -> Result<Value> {
        require_cross_replica_else(self.id(), "an all-gather or a merge call")?;
        no_output_for_nests(value, how)?;
        self.gather_here(value, axis, how)
    }

    pub(super) fn gather_here(
        &self,
        value: &Value,
        axis: i64,
        how: &ReductionOptions,
    ) -> Result<Value> {
        let purpose = format_args!("gather along axis {axis}");
        let value = self.of_all_ranks(CollectiveKind::Value, &purpose, value)?;
        value.map_leaves(&mut |leaf| self.gather_leaf(leaf, axis, how))
    }

    fn gather_leaf(&self, leaf: &Value, axis: i64, how: &ReductionOptions) -> Result<Value> {
        let single = match leaf {
            Value::PerReplica(value) => {
                let components = sparse::dense_components(value)?;
                if let [alone] = components.as_slice() {
                    Value::Tensor(alone.clone())
                } else {
                    let output = how.output();
                    return collectives::gather(&components, axis, how.device(), output)
                        .map(Value::Tensor);
                }
            }
            Value::IndexedSlices(_) => {
                return Err(Error::Unimplemented(
                    "gathering indexed slices is not offered; gather their values and indices, or \
                     a per-replica value of them, which gives dense tensors"
                        .into(),
                ));
            }
            plain => plain.clone(),
        };
        if how.output.is_none() {
            return place(&single, how);
        }
        match &single {
            Value::Variable(variable) => deliver(variables::read(variable)?, how),
            other => deliver(other.tensor_of(0)?.clone(), how),
        }
    }

    /// The local results of a value as a tuple: the components of a per-replica value; for a nest
    /// one nest for each replica; anything else alone.
    pub fn local_results(&self, value: &Value) -> Result<Value> {
        match value {
            Value::PerReplica(parts) => Value::tuple(parts.values()),
            Value::Nest(_) => {
                let nests: Result<_> = (0..self.num_replicas())
                    .map(|replica| value.component(replica))
                    .collect();
                Value::tuple(nests?)
            }
            plain => Value::tuple(vec![plain.clone()]),
        }
    }
}

/// A plain leaf where it is wanted: itself, or a copy on the destination, if one is given and the
/// leaf lies elsewhere.
fn place(leaf: &Value, how: &ReductionOptions) -> Result<Value> {
    how.destination
        .map_or_else(|| Ok(leaf.clone()), |device| on_device(leaf, device))
}

/// A tensor where it is wanted: in the output, if there is one, else as [`place`] does.
fn deliver(tensor: Tensor, how: &ReductionOptions) -> Result<Value> {
    let Some(mut output) = how.output() else {
        return place(&Value::Tensor(tensor), how);
    };
    collectives::copy_into(&tensor, &mut output)?;
    Ok(Value::Tensor(output.done()))
}

/// A leaf on `device`: itself if it lies there, else a copy.
pub(crate) fn on_device(leaf: &Value, device: DeviceId) -> Result<Value> {
    match leaf {
        Value::Tensor(tensor) if tensor.device() == device => Ok(leaf.clone()),
        Value::Variable(variable) if variable.device() == device => Ok(leaf.clone()),
        Value::IndexedSlices(slices) if slices.device() == device => Ok(leaf.clone()),
        leaf => copy(leaf, device),
    }
}

/// A copy of a plain leaf on `device`.
pub(crate) fn copy(leaf: &Value, device: DeviceId) -> Result<Value> {
    match leaf {
        Value::Tensor(tensor) => collectives::copy_to(tensor, device).map(Value::Tensor),
        Value::Variable(variable) => {
            collectives::copy_to(&variables::read(variable)?, device).map(Value::Tensor)
        }
        Value::IndexedSlices(slices) => sparse::copy_to(slices, device),
        other => Ok(other.clone()),
    }
}

fn no_output_for_nests(value: &Value, how: &ReductionOptions) -> Result<()> {
    match value {
        Value::Nest(_) if how.output.is_some() => Err(invalid!(
            "output",
            "one output tensor for {}; reduce leaf by leaf, or leave it out",
            value.kind_name()
        )),
        _ => Ok(()),
    }
}

fn no_output_for_slices(how: &ReductionOptions) -> Result<()> {
    match how.output {
        Some(_) => Err(invalid!(
            "output",
            "the result is indexed slices, which have no fixed size; leave it out"
        )),
        None => Ok(()),
    }
}

/// Checks the nest that a replica contributes to a collective.
pub(super) fn check_nest(value: &Value) -> Result<()> {
    let mut leaves = 0;
    let wrong = value.find_leaf(&mut |leaf| {
        leaves += 1;
        match leaf {
            Value::Tensor(_) | Value::IndexedSlices(_) => None,
            other => Some(other.kind_name()),
        }
    });
    match wrong {
        Some(kind) => Err(invalid!(
            "value",
            "{kind} among the leaves; they must be tensors or indexed slices"
        )),
        None if leaves == 0 => Err(invalid!("value", "an empty structure; it needs a tensor")),
        None => Ok(()),
    }
}

/// One copy of each plain leaf for each device; several on one device are separate objects. One of
/// the devices gets a tensor itself that lies there.
pub(crate) fn spread(value: &Value, devices: &[DeviceId]) -> Result<Value> {
    value.map_leaves(&mut |leaf| {
        let mut hand_over = true;
        let copy = |&device: &DeviceId| match leaf {
            Value::Tensor(tensor) if hand_over && tensor.device() == device => {
                hand_over = false;
                Ok(leaf.clone())
            }
            leaf => self::copy(leaf, device),
        };
        match leaf {
            Value::Tensor(_) | Value::IndexedSlices(_) => {
                Value::per_replica_of(devices.iter().map(copy).collect::<Result<_>>()?)
            }
            other => Ok(other.clone()),
        }
    })
}
