//! All-reduce and all-gather: merge calls in which the replicas combine their values.

#![expect(
    unsafe_code,
    reason = "small results are written into tensors that the call alone has"
)]

use smallvec::SmallVec;

use crate::setup::central_storage::Strategy;
use crate::step::ReplicaContext;
use crate::step::merge::{FEW, MergeCall};
use crate::step::operation::Operation;
use crate::step::slot::InlineReduction;
use crate::values::collective::{ReductionOptions, check_nest, spread};
use umbo_base::error::{Error, Result};
use umbo_device::DeviceId;
use umbo_kernels::reduce::over_replicas::result_dtype;
use umbo_kernels::view::Span;
use umbo_tensor::blocks::LARGE;
use umbo_tensor::collectives::{self, ReduceOp};
use umbo_tensor::values::Value;
use umbo_tensor::{DType, Shape, Tensor};

/// The largest result that is kept for the next one, in bytes.
const MOST_KEPT: usize = 4096;

impl ReplicaContext {
    /// Reduces a nest of tensors and indexed slices over the replicas; each replica gets its own
    /// copy, on its device. One merge call for the whole nest.
    pub fn all_reduce(&self, op: ReduceOp, value: Value) -> Result<Value> {
        check_nest(&value)?;
        self.check_current()?;
        let operation = Operation::AllReduce(op);
        let direct = self.direct(op, &value);
        let direct = direct.map_err(|error| error.named(operation.to_string()))?;
        self.combine(operation, value, direct, |strategy, calls| {
            // A function that captures nothing needs no memory.
            let Operation::AllReduce(op) = calls[0].operation else {
                return Err(Error::Internal(
                    "a call of another operation in an all-reduce".into(),
                ));
            };
            if let Some(inputs) = direct_inputs(calls) {
                let outputs = calls
                    .iter_mut()
                    .filter_map(|call| Some(&mut call.direct.as_mut()?.to));
                collectives::reduce_to_each(op, &inputs, outputs)?;
                return Ok(None);
            }
            let merged = merged(calls)?;
            let reduced =
                strategy.reduce_here(op, &merged, &ReductionOptions::onto(DeviceId::HOST))?;
            // All leaves are per-replica values here, and their reductions are new tensors.
            spread(&reduced, strategy.replica_devices()).map(Some)
        })
    }

    /// A small tensor in host memory with one for its result. Large ones have more to gain from
    /// being made one after the other.
    fn direct(&self, op: ReduceOp, value: &Value) -> Result<Option<InlineReduction>> {
        let device = self.device();
        let Value::Tensor(tensor) = value else {
            return Ok(None);
        };
        let Ok(dtype) = result_dtype(op, tensor.dtype()) else {
            return Ok(None);
        };
        let is_in_host_memory = device.is_host_memory() && tensor.device().is_host_memory();
        if !is_in_host_memory
            || tensor.bytes() >= LARGE
            || !tensor.layout().is_contiguous()
            || !self.strategy().ranks().is_alone()
        {
            return Ok(None);
        }
        let shape = tensor.shape();
        let output = self.output(dtype, shape)?;
        // SAFETY: the call has both tensors as long as the spans, nobody else uses the second, and
        // replica and coordinator take turns.
        let (from, to) = unsafe {
            (
                tensor.span()?.held(),
                output.assume_exclusive().into_span()?.held(),
            )
        };
        Ok(Some(InlineReduction {
            from,
            to,
            shape,
            output: Some(output),
        }))
    }

    /// A tensor for the result of an all-reduce, on the replica's device: that of the last one if
    /// the program has released it and it fits, so that a steady call allocates nothing.
    fn output(&self, dtype: DType, shape: Shape) -> Result<Tensor> {
        let slot = self.step.as_ref().map(|step| &step.slots[self.replica]);
        // SAFETY: the replica's turn.
        let mut kept = slot.map(|slot| unsafe { slot.reduced.get() });
        let fits = |last: &mut Tensor| {
            (last.dtype(), last.shape()) == (dtype, shape) && last.get_mut().is_some()
        };
        if let Some(Some(last)) = &mut kept
            && fits(last)
        {
            return Ok(last.clone());
        }
        let output = Tensor::uninitialized(dtype, shape, self.device())?;
        if let Some(kept) = kept {
            *kept = Some(output.clone()).filter(|output| output.bytes() <= MOST_KEPT);
        }
        Ok(output)
    }

    /// Concatenates a nest of tensors over the replicas along `axis`; each replica gets its own
    /// copy of the whole, on its device.
    pub fn all_gather(&self, value: Value, axis: i64) -> Result<Value> {
        check_nest(&value)?;
        self.check_current()?;
        if value
            .find_leaf(&mut |leaf| matches!(leaf, Value::IndexedSlices(_)).then_some(()))
            .is_some()
        {
            return Err(Error::Unimplemented(
                "gathering indexed slices is not offered; gather their values and indices".into(),
            ));
        }
        self.combine(
            Operation::AllGather(axis),
            value,
            None,
            move |strategy, calls| {
                let gathered =
                    strategy.gather_here(&merged(calls)?, axis, &ReductionOptions::default())?;
                spread(&gathered, strategy.replica_devices()).map(Some)
            },
        )
    }

    fn combine<F>(
        &self,
        operation: Operation,
        value: Value,
        direct: Option<InlineReduction>,
        combine: F,
    ) -> Result<Value>
    where
        F: FnOnce(&Strategy, &mut [&mut MergeCall]) -> Result<Option<Value>> + Send + 'static,
    {
        // The run fails with what one of its operations has to say, which therefore says which it
        // was.
        let merge = move |strategy: &Strategy, calls: &mut [&mut MergeCall]| {
            combine(strategy, calls).map_err(|error| error.named(calls[0].operation.to_string()))
        };
        let result = self.synchronize_directly(operation, Some(value), direct, Box::new(merge))?;
        result.ok_or_else(|| Error::Internal("a collective without a result".into()))
    }
}

/// The elements that the calls contribute, if all do so directly and with one dtype and shape.
fn direct_inputs(calls: &[&mut MergeCall]) -> Option<SmallVec<[Span<'static>; FEW]>> {
    let kind = |direct: &InlineReduction| (direct.from.dtype(), direct.shape);
    let first = kind(calls.first()?.direct.as_ref()?);
    let mut inputs = SmallVec::new();
    for call in calls {
        let direct = call
            .direct
            .as_ref()
            .filter(|direct| kind(direct) == first)?;
        inputs.push(direct.from);
    }
    Some(inputs)
}

/// The contributions of all replicas. Every leaf becomes a per-replica value, even if it is the
/// same object on all replicas, since each replica asked for the sum over all of them.
fn merged(calls: &[&mut MergeCall]) -> Result<Value> {
    let values: Vec<Value> = calls
        .iter()
        .filter_map(|call| call.arguments.clone())
        .collect();
    Value::merge(&values, true, "value")
}
