//! Concatenation of the replicas' components.

#![expect(unsafe_code, reason = "a result that nobody else has yet is written")]

use crate::collectives::components::{bytes_of, check_output, common_dtype, shapes};
use crate::{Shape, Tensor, TensorMut};
use umbo_base::error::Result;
use umbo_base::observe::{self, Counter, Phase};
use umbo_device::DeviceId;
use umbo_kernels::copy::concatenate::concatenate;
use umbo_kernels::instruction_set::Instructions;
use umbo_kernels::view::View;

/// Concatenates `components` along `axis` in replica order. Negative values count from the back.
/// The components agree in dtype, rank and all other dimensions. Any dtype is allowed, and so are
/// parts of size 0. The result is `output` if it is given. It must not share memory with a
/// component. Without it the result is a fresh tensor on `destination`.
///
/// Fails with INVALID_ARGUMENT, naming the shapes of all replicas, for components that do not fit
/// each other, for scalars, and for an output that does not fit; with OUT_OF_RANGE for an axis that
/// does not exist; with RESOURCE_EXHAUSTED if there is no memory for the result.
pub fn gather(
    components: &[Tensor],
    axis: i64,
    destination: DeviceId,
    output: Option<TensorMut>,
) -> Result<Tensor> {
    let _gather = observe::span(Phase::Reduce).named("gather");
    let dtype = common_dtype(components, "gathering")?;
    observe::count(Counter::Reduced, || bytes_of(components));
    let shape = gathered_shape(components, axis)?;
    let axis = shape.axis(axis)?;
    let Some(mut output) = output else {
        let fresh = Tensor::uninitialized(dtype, shape, destination)?;
        // SAFETY: nobody else has the fresh tensor before it is returned.
        write(components, axis, &mut unsafe { fresh.assume_exclusive() })?;
        return Ok(fresh);
    };
    check_output(&output, dtype, shape, components)?;
    write(components, axis, &mut output)?;
    Ok(output.done())
}

fn write(components: &[Tensor], axis: usize, to: &mut TensorMut) -> Result<()> {
    let dense =
        |tensor: &Tensor| tensor.layout().is_contiguous() && tensor.device().is_host_memory();
    if to.device().is_host_memory() && to.layout().is_contiguous() && components.iter().all(dense) {
        let parts: Vec<View> = components
            .iter()
            .map(Tensor::reading)
            .collect::<Result<_>>()?;
        return concatenate(Instructions::chosen(), &parts, axis, &mut to.writing()?);
    }
    let mut start = 0;
    for component in components {
        to.copy_part_from(axis, start, component)?;
        start += component.shape()[axis];
    }
    Ok(())
}

/// The only axis along which the components' shapes differ, if there is exactly one.
fn only_difference(components: &[Tensor]) -> Option<usize> {
    let first = components[0].shape();
    let mut differing = (0..first.rank()).filter(|&axis| {
        components
            .iter()
            .any(|part| part.shape()[axis] != first[axis])
    });
    let only = differing.next();
    only.filter(|_| differing.next().is_none())
}

fn gathered_shape(components: &[Tensor], axis: i64) -> Result<Shape> {
    let first = components[0].shape();
    let differ = |property: &str| {
        invalid!(
            "value",
            "{property} of the replicas differ: {}",
            shapes(components)
        )
    };
    if components
        .iter()
        .any(|component| component.shape().rank() != first.rank())
    {
        return Err(differ("the ranks"));
    }
    if first.rank() == 0 {
        return Err(invalid!(
            "value",
            "scalars cannot be gathered; reshape them to [1] on each replica first"
        ));
    }
    let axis = first.axis(axis)?;
    let mut size = 0usize;
    for component in components {
        let shape = component.shape();
        if shape.with_size(axis, 0) != first.with_size(axis, 0) {
            let axes = format!("dimensions other than {axis}, the gathered one,");
            return Err(match only_difference(components) {
                Some(right) => invalid!(
                    "value",
                    "{axes} of the replicas differ: {}; they can be gathered along axis {right}",
                    shapes(components)
                ),
                None => differ(&axes),
            });
        }
        size = size
            .checked_add(shape[axis])
            .ok_or_else(|| invalid!("value", "the gathered dimension is too large"))?;
    }
    let mut sizes = first.with_size(axis, 0).to_vec();
    sizes[axis] = size;
    Shape::new(&sizes)
}
