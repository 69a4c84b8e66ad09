//! SUM, MEAN, MIN and MAX over replicas, with or without axes.

#![expect(
    unsafe_code,
    reason = "a batch keeps views beside the tensors that they are of"
)]

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::collectives::components::{bytes_of, check_output, common_dtype, shapes};
use crate::{DType, MAX_RANK, Shape, Tensor, TensorMut};
use umbo_base::error::{Error, Result};
use umbo_base::observe::{self, Counter, Phase};
use umbo_device::DeviceId;
use umbo_kernels::instruction_set::Instructions;
use umbo_kernels::launch::{DevicePlace, DeviceReduction, on_device};
use umbo_kernels::reduce::over_axes::{AxisMask, reduce_over_axes};
use umbo_kernels::reduce::over_replicas::{Planned, reduce_over_replicas, result_dtype};
use umbo_kernels::reduce::reduction::ReduceOp;
use umbo_kernels::view::{Span, SpanMut, View};

/// Reduces `components` over the replicas and, if `axes` are given, over those axes too. Negative
/// axes count from the back. An empty list means over replicas only. `None` means the same; it also
/// says that the caller has no such argument, which suppresses the hint about it in messages.
///
/// Without axes all components have one shape, and MEAN divides by their number. With axes they may
/// differ in the sizes of these axes. MEAN then divides by the number of elements that were added
/// over all replicas, and empty components add nothing to that number. Over no element at all, SUM
/// is 0, MEAN is NaN, and MIN and MAX fail. They give the quiet NaN if any element is NaN, and take
/// -0 for less than +0, so that their bits do not depend on an order. SUM, MIN and MAX keep the
/// dtype, and integers wrap. MEAN of 8- and 16-bit integers is float32, and of wider ones float64,
/// for any number of replicas. Floats accumulate in a wider type and are rounded once. The bits
/// depend only on values, shapes and replica order.
///
/// The result is `output` if it is given. It must not share memory with a component. Without it the
/// result is a fresh tensor on `destination`.
///
/// Fails with INVALID_ARGUMENT, naming the shapes or dtypes of all replicas, for components that do
/// not fit each other, for SUM and MEAN of bool, for repeated axes, and for an output that does not
/// fit; with OUT_OF_RANGE for an axis that does not exist; with RESOURCE_EXHAUSTED if there is no
/// memory.
pub fn reduce(
    op: ReduceOp,
    components: &[Tensor],
    axes: Option<&[i64]>,
    destination: DeviceId,
    output: Option<TensorMut>,
) -> Result<Tensor> {
    let _reduce = observe::span(Phase::Reduce);
    let mut batch = ReductionBatch::default();
    let result = batch.reduce(op, components, axes, destination, output)?;
    // SAFETY: a fresh result belongs to nobody else before it is returned. For an `output`, the
    // caller has the exclusive right to write it.
    unsafe { batch.run() };
    Ok(result)
}

/// Like [`reduce`], over replicas alone, of contiguous elements in host memory, and writes all
/// outputs. Inputs and outputs have the same number of elements, the outputs the result's dtype.
pub fn reduce_to_each<'a>(
    op: ReduceOp,
    inputs: &[Span<'_>],
    mut outputs: impl Iterator<Item = &'a mut SpanMut<'static>>,
) -> Result<()> {
    let Some(first) = outputs.next() else {
        return Ok(());
    };
    let bytes = |span: &Span| (span.elements() * span.dtype().size()) as u64;
    observe::count(Counter::Reduced, || inputs.iter().map(bytes).sum());
    {
        let _reduce = observe::span(Phase::Reduce).named("reduce over replicas");
        let mut views = SmallVec::<[View; 4]>::new();
        for input in inputs {
            views.push(input.as_view());
        }
        let planned = Planned::new(op, &*views, first.as_view())?;
        reduce_over_replicas(Instructions::chosen(), &mut [planned]);
    }
    let _copy = observe::span(Phase::Copy);
    let whole = first.reading();
    for other in outputs {
        observe::count(Counter::Copied, || bytes(&whole));
        other.copy_from(&whole);
    }
    Ok(())
}

/// Reductions that are carried out together, as one piece of work for the workers. Reductions over
/// axes are carried out at once, one by one.
#[derive(Default)]
pub struct ReductionBatch {
    planned: Vec<Planned<'static>>,
    /// The tensors that the planned reductions read and write.
    tensors: Vec<Tensor>,
}

impl ReductionBatch {
    /// Like [`reduce`], except that the result is not written before [`ReductionBatch::run`].
    /// `output` must not share memory with anything else in the batch.
    pub fn reduce(
        &mut self,
        op: ReduceOp,
        components: &[Tensor],
        axes: Option<&[i64]>,
        destination: DeviceId,
        output: Option<TensorMut>,
    ) -> Result<Tensor> {
        let dtype = result_dtype(op, common_dtype(components, "a reduction")?)?;
        observe::count(Counter::Reduced, || bytes_of(components));
        let reduced = reduced_axes(components, axes.unwrap_or_default())?;
        let shape = reduced_shape(components, &reduced, axes.is_some())?;
        if let Some(output) = &output {
            check_output(output, dtype, shape, components)?;
        }
        let device = output
            .as_ref()
            .map_or(destination, |output| output.device());
        if !device.is_host_memory() && !reduced.contains(&true) {
            return reduce_on_device(op, components, dtype, shape, device, output);
        }
        let components = &*in_host_memory(components)?;
        let views = components
            .iter()
            .map(Tensor::reading)
            .collect::<Result<Vec<View>>>()?;
        if reduced.contains(&true) {
            let write = |to: &mut TensorMut| {
                let output = &mut to.writing()?;
                reduce_over_axes(Instructions::chosen(), op, &views, &reduced, output)
            };
            let Some(mut output) = output else {
                return Tensor::made(dtype, shape, destination, write);
            };
            output.through_host(false, write)?;
            return Ok(output.done());
        }
        let result = match output {
            Some(output) => output.done(),
            None => Tensor::uninitialized(dtype, shape, destination)?,
        };
        // SAFETY: the views are used when the batch runs, and the batch still has the tensors then.
        // The caller of `run` guarantees that nobody else uses the result, which is fresh
        // or was exclusively this call's.
        let planned = unsafe {
            let output = result.assume_exclusive().into_view()?.held();
            Planned::new(
                op,
                views
                    .into_iter()
                    .map(|view| view.held())
                    .collect::<Vec<_>>(),
                output,
            )?
        };
        self.planned.push(planned);
        self.tensors
            .extend(components.iter().chain([&result]).cloned());
        Ok(result)
    }

    /// Carries out the planned reductions.
    ///
    /// # Safety
    /// Nobody reads or writes the results before this returns, and nobody writes the components.
    pub unsafe fn run(mut self) {
        let _reduce = observe::span(Phase::Reduce).named("reduce over replicas");
        reduce_over_replicas(Instructions::chosen(), &mut self.planned);
    }
}

/// The components. Those outside of host memory are copied there.
fn in_host_memory(components: &[Tensor]) -> Result<Cow<'_, [Tensor]>> {
    if components
        .iter()
        .all(|component| component.device().is_host_memory())
    {
        return Ok(Cow::Borrowed(components));
    }
    components.iter().map(Tensor::on_host).collect()
}

/// Reduces over replicas only, to a result outside of host memory.
fn reduce_on_device(
    op: ReduceOp,
    components: &[Tensor],
    dtype: DType,
    shape: Shape,
    device: DeviceId,
    output: Option<TensorMut>,
) -> Result<Tensor> {
    let output = match output {
        Some(output) => output.done(),
        None => Tensor::uninitialized(dtype, shape, device)?,
    };
    let Some(backend) = output.backend()? else {
        return Err(Error::Internal(format!(
            "a reduction by kernels on {device}, which is in host memory"
        )));
    };
    let inputs_on_device: Vec<Tensor> = components
        .iter()
        .map(|component| match component.device() == device {
            true => Ok(component.clone()),
            false => component.copied_to(device),
        })
        .collect::<Result<_>>()?;
    let inputs: Vec<DevicePlace> = inputs_on_device.iter().map(Tensor::place).collect();
    let place = output.place();
    // SAFETY: inputs and output are tensors, whose memory is freed in the queue's order.
    // Nobody else has
    // the output: it was just made, or the right to write it was passed.
    on_device(backend, |launcher| unsafe {
        launcher.reduce_over_replicas(&DeviceReduction {
            op,
            inputs: &inputs,
            output: place,
        })
    })?;
    Ok(output)
}

/// The axes as a mask, after a check that all components have the same number of dimensions.
fn reduced_axes(components: &[Tensor], axes: &[i64]) -> Result<AxisMask> {
    let first = components[0].shape();
    if components
        .iter()
        .any(|component| component.shape().rank() != first.rank())
    {
        return Err(invalid!(
            "value",
            "the ranks of the replicas differ: {}; reductions need as many dimensions on each \
             replica: reshape before",
            shapes(components)
        ));
    }
    let mut reduced = [false; MAX_RANK];
    for &axis in axes {
        let counted = first.axis(axis)?;
        if std::mem::replace(&mut reduced[counted], true) {
            return Err(invalid!("axes", "{axes:?} names axis {counted} twice"));
        }
    }
    Ok(reduced)
}

/// The shape of the result: the dimensions that are not reduced, in which all components agree.
fn reduced_shape(components: &[Tensor], reduced: &AxisMask, takes_axes: bool) -> Result<Shape> {
    let first = components[0].shape();
    let differing = (0..first.rank()).find(|&axis| {
        !reduced[axis]
            && components
                .iter()
                .any(|other| other.shape()[axis] != first[axis])
    });
    if let Some(axis) = differing {
        let mut message = format!("the shapes of the replicas differ: {}", shapes(components));
        if reduced.contains(&true) {
            message += &format!(
                "; they may differ along reduced axes only; to reduce dimension {axis} too, add \
                 {axis} to axes"
            );
        } else if !takes_axes {
            message += "; reducing over replicas needs equal shapes: give it tensors of one \
                        shape, or reduce them on each replica first";
        } else {
            message += &format!(
                "; reducing over replicas needs equal shapes; to reduce dimension {axis} as well \
                 pass axes = {{{axis}}}"
            );
        }
        return Err(Error::invalid("value", message));
    }
    let mut sizes = [0; MAX_RANK];
    let mut rank = 0;
    for axis in (0..first.rank()).filter(|&axis| !reduced[axis]) {
        sizes[rank] = first[axis];
        rank += 1;
    }
    Shape::new(&sizes[..rank])
}
