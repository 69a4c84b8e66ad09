//! SUM and MEAN over replicas, with or without axes.

#![expect(unsafe_code, reason = "a batch keeps views beside the tensors that they are of")]

use std::borrow::Cow;

use crate::collectives::components::{bytes_of, check_output, common_dtype, shapes};
use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::kernels::copy::layouts;
use crate::kernels::cuda::{GpuPlace, GpuReduction, on_gpu};
use crate::kernels::instruction_set::Instructions;
use crate::kernels::reduce::over_axes::{AxisMask, reduce_over_axes};
use crate::kernels::reduce::over_replicas::{Planned, reduce_over_replicas, result_dtype};
use crate::kernels::reduce::reduction::ReduceOp;
use crate::kernels::view::{View, ViewMut};
use crate::observe::{self, Counter, Phase};
use crate::tensor::{DType, MAX_RANK, Shape, Tensor, TensorMut};

/// Reduces `components` over the replicas and, if `axes` are given, over those axes too (negative
/// values count from the back; none means over replicas only; `None` also says that the caller can
/// name none, so that messages do not advise to).
///
/// Without axes all components have one shape, and MEAN divides by their number. With axes they
/// may differ in the sizes of these, MEAN divides by the number of elements that were added over
/// all replicas, and empty components count none: over nothing at all SUM is 0 and MEAN is NaN.
/// SUM keeps the dtype and integers wrap; MEAN of 8- and 16-bit integers is float32, of wider ones
/// float64, for any number of replicas. Floats accumulate wider and are rounded once; the bits
/// depend on values, shapes and replica order alone.
///
/// The result is `output` if one is given, which must not share memory with a component, else a
/// fresh tensor on `destination`.
///
/// Fails with INVALID_ARGUMENT, naming the shapes or dtypes of all replicas, for components that
/// do not fit together, for bool, for repeated axes, and for an output that does not fit; with
/// OUT_OF_RANGE for an axis that is not there; with RESOURCE_EXHAUSTED if there is no memory.
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
    // SAFETY: nobody else has the result before it is returned, or, if it was given, before the
    // right to write it is.
    unsafe { batch.run() };
    Ok(result)
}

/// What a replica contributes to a reduction, and where it gets the result; both in host memory.
pub struct InAndOut<'a> {
    /// What it contributes.
    pub input: View<'a>,
    /// As many elements, of the dtype of the result.
    pub output: ViewMut<'a>,
}

/// As [`reduce`], over replicas alone, to all outputs. False, and nothing is done, if the inputs differ in dtype
/// or shape.
pub fn reduce_to_each(op: ReduceOp, parts: &mut [&mut InAndOut<'_>]) -> Result<bool> {
    let [first, others @ ..] = parts else { return Ok(false) };
    let inputs: Vec<View> = [&*first].into_iter().chain(&*others).map(|part| part.input).collect();
    let differs = |other: &View| {
        (other.dtype(), other.layout().shape) != (inputs[0].dtype(), inputs[0].layout().shape)
    };
    if inputs.iter().any(differs) {
        return Ok(false);
    }
    let bytes = |view: &View| (view.layout().shape.elements() * view.dtype().size()) as u64;
    observe::count(Counter::Reduced, || inputs.iter().map(bytes).sum());
    {
        let _reduce = observe::span(Phase::Reduce).named("reduce over replicas");
        let planned = Planned::new(op, inputs, first.output.reborrow())?;
        reduce_over_replicas(Instructions::chosen(), &mut [planned]);
    }
    let _copy = observe::span(Phase::Copy);
    let whole = first.output.reading();
    for other in others {
        observe::count(Counter::Copied, || bytes(&whole));
        layouts::copy(Instructions::chosen(), &whole, &mut other.output)?;
    }
    Ok(true)
}

/// Reductions that are carried out together, as one piece of work for the workers. Those over axes
/// are done at once, one by one.
#[derive(Default)]
pub struct ReductionBatch {
    planned: Vec<Planned<'static>>,
    /// What the planned reductions read and write.
    tensors: Vec<Tensor>,
}

impl ReductionBatch {
    /// As [`reduce`], except that the result is not written before [`ReductionBatch::run`]. `output` may
    /// share no memory with anything else in the batch.
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
        let device = output.as_ref().map_or(destination, TensorMut::device);
        if !device.is_host_memory() && !reduced.contains(&true) {
            return reduce_on_gpu(op, components, (dtype, shape, device), output);
        }
        let components = &*in_host_memory(components)?;
        let views = components.iter().map(Tensor::reading).collect::<Result<Vec<View>>>()?;
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
        // SAFETY: the views are used when the batch runs, by when it still has the tensors. Who has
        // it run guarantees that the result is its alone, which is a fresh one, or was this
        // call's.
        let planned = unsafe {
            let output = result.assume_exclusive().into_view()?.held();
            Planned::new(op, views.into_iter().map(|view| view.held()).collect(), output)?
        };
        self.planned.push(planned);
        self.tensors.extend(components.iter().chain([&result]).cloned());
        Ok(result)
    }

    /// Carries out what was planned.
    ///
    /// # Safety
    /// Nobody reads or writes the results before this returns, and nobody writes the components.
    pub unsafe fn run(mut self) {
        let _reduce = observe::span(Phase::Reduce).named("reduce over replicas");
        reduce_over_replicas(Instructions::chosen(), &mut self.planned);
    }
}

/// The components, those of GPUs as copies in host memory.
fn in_host_memory(components: &[Tensor]) -> Result<Cow<'_, [Tensor]>> {
    if components.iter().all(|component| component.device().is_host_memory()) {
        return Ok(Cow::Borrowed(components));
    }
    components.iter().map(Tensor::on_host).collect()
}

/// Reduces over replicas only, to a result on a GPU.
fn reduce_on_gpu(
    op: ReduceOp,
    components: &[Tensor],
    (dtype, shape, device): (DType, Shape, DeviceId),
    output: Option<TensorMut>,
) -> Result<Tensor> {
    let output = match output {
        Some(output) => output.done(),
        None => Tensor::uninitialized(dtype, shape, device)?,
    };
    let Some(gpu) = output.gpu()? else {
        return Err(Error::Internal(format!("a reduction on {device}, which is no GPU")));
    };
    let here: Vec<Tensor> = components
        .iter()
        .map(|component| match component.device() == device {
            true => Ok(component.clone()),
            false => component.copied_to(device),
        })
        .collect::<Result<_>>()?;
    let inputs: Vec<GpuPlace> = here.iter().map(Tensor::place).collect();
    let place = output.place();
    // SAFETY: inputs and output are those of tensors, whose memory is freed on the stream. Nobody else
    // has the output: it was just made, or the right to write it was given.
    on_gpu(gpu, |launcher| unsafe {
        launcher.reduce_over_replicas(&[GpuReduction { op, inputs: &inputs, output: place }])
    })?;
    Ok(output)
}

/// The axes as a mask, after a check that all components have as many dimensions.
fn reduced_axes(components: &[Tensor], axes: &[i64]) -> Result<AxisMask> {
    let first = components[0].shape();
    if components.iter().any(|component| component.shape().rank() != first.rank()) {
        return Err(Error::invalid(
            "value",
            format!(
                "the ranks of the replicas differ: {}; reductions need as many dimensions on each \
                 replica: reshape before",
                shapes(components)
            ),
        ));
    }
    let mut reduced = [false; MAX_RANK];
    for &axis in axes {
        let counted = first.axis(axis)?;
        if std::mem::replace(&mut reduced[counted], true) {
            return Err(Error::invalid("axes", format!("{axes:?} names axis {counted} twice")));
        }
    }
    Ok(reduced)
}

/// The shape of the result: the dimensions that are not reduced, in which all components agree.
fn reduced_shape(components: &[Tensor], reduced: &AxisMask, takes_axes: bool) -> Result<Shape> {
    let first = components[0].shape();
    let differing = (0..first.rank()).find(|&axis| {
        !reduced[axis] && components.iter().any(|other| other.shape()[axis] != first[axis])
    });
    if let Some(axis) = differing {
        let mut message = format!("the shapes of the replicas differ: {}", shapes(components));
        if reduced.contains(&true) {
            message += &format!(
                "; they may differ along reduced axes only; to reduce dimension {axis} too, add \
                 {axis} to axes"
            );
        } else if !takes_axes {
            message += "; reducing over replicas needs equal shapes: give it tensors of one shape, or \
                        reduce them on each replica first";
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
