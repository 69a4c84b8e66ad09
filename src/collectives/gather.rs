//! Concatenation of the replicas' components.

use crate::collectives::{check_output, common_dtype, shapes};
use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::kernels::copy::concatenate::concatenate;
use crate::kernels::instruction_set::Instructions;
use crate::kernels::view::View;
use crate::tensor::{Shape, Tensor};

/// Concatenates `components` along `axis` (negative values count from the back), in replica
/// order. They agree in dtype, rank and all other dimensions; any dtype will do, and parts of
/// size 0 are fine. The result is `output` if one is given, which must not share memory with a
/// component, else a fresh tensor on `destination`.
///
/// Fails with INVALID_ARGUMENT, naming the shapes of all replicas, for components that do not fit
/// together, for scalars, and for an output that does not fit; with OUT_OF_RANGE for an axis that
/// is not there; with RESOURCE_EXHAUSTED if there is no memory for the result.
pub fn gather(
    components: &[Tensor],
    axis: i64,
    destination: DeviceId,
    output: Option<&Tensor>,
) -> Result<Tensor> {
    let dtype = common_dtype(components, "gathering")?;
    let shape = gathered_shape(components, axis)?;
    let axis = shape.axis(axis)?;
    let result = match output {
        Some(output) => {
            check_output(output, dtype, shape, components)?;
            output.clone()
        }
        None => Tensor::uninitialized(dtype, shape, destination)?,
    };
    let dense = |tensor: &Tensor| tensor.layout().is_contiguous();
    if dense(&result) && components.iter().all(dense) {
        let parts: Vec<View> = components.iter().map(Tensor::reading).collect::<Result<_>>()?;
        concatenate(Instructions::chosen(), &parts, axis, &result.writing()?)?;
        return Ok(result);
    }
    let mut start = 0;
    for component in components {
        let stop = start + component.shape()[axis];
        result.slice(axis, start, stop, 1)?.copy_from(component)?;
        start = stop;
    }
    Ok(result)
}

/// The one axis along which the components' shapes differ, if there is one.
fn only_difference(components: &[Tensor]) -> Option<usize> {
    let first = components[0].shape();
    let mut differing = (0..first.rank())
        .filter(|&axis| components.iter().any(|part| part.shape()[axis] != first[axis]));
    let only = differing.next();
    only.filter(|_| differing.next().is_none())
}

fn gathered_shape(components: &[Tensor], axis: i64) -> Result<Shape> {
    let first = components[0].shape();
    let differ = |what: &str| {
        Error::invalid("value", format!("{what} of the replicas differ: {}", shapes(components)))
    };
    if components.iter().any(|component| component.shape().rank() != first.rank()) {
        return Err(differ("the ranks"));
    }
    if first.rank() == 0 {
        return Err(Error::invalid(
            "value",
            "scalars cannot be gathered; reshape them to [1] on each replica first",
        ));
    }
    let axis = first.axis(axis)?;
    let mut size = 0usize;
    for component in components {
        let shape = component.shape();
        if shape.with_size(axis, 0) != first.with_size(axis, 0) {
            let axes = format!("dimensions other than {axis}, the gathered one,");
            return Err(match only_difference(components) {
                Some(right) => Error::invalid(
                    "value",
                    format!(
                        "{axes} of the replicas differ: {}; they can be gathered along axis {right}",
                        shapes(components)
                    ),
                ),
                None => differ(&axes),
            });
        }
        size = size
            .checked_add(shape[axis])
            .ok_or_else(|| Error::invalid("value", "the gathered dimension is too large"))?;
    }
    let mut sizes = first.with_size(axis, 0).to_vec();
    sizes[axis] = size;
    Shape::new(&sizes)
}
