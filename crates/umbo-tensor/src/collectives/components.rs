//! Common properties of the components of one leaf.

use crate::{DType, Shape, Tensor, TensorMut};
use umbo_base::error::Result;

/// The number of bytes the elements of all `components` have.
pub(super) fn bytes_of(components: &[Tensor]) -> u64 {
    components
        .iter()
        .map(|component| component.bytes() as u64)
        .sum()
}

/// The dtype that all components have.
pub(super) fn common_dtype(components: &[Tensor], doing: &str) -> Result<DType> {
    let first = components
        .first()
        .ok_or_else(|| invalid!("value", "it has no components; one per replica is expected"))?;
    if components
        .iter()
        .any(|component| component.dtype() != first.dtype())
    {
        return Err(invalid!(
            "value",
            "the dtypes of the replicas differ: {}; {doing} needs one dtype",
            per_replica(components, |component| component.dtype().to_string())
        ));
    }
    Ok(first.dtype())
}

/// A property of each replica, for messages: `replica 0 [4, 2], replica 1 [3, 2]`.
fn per_replica(components: &[Tensor], property: impl Fn(&Tensor) -> String) -> String {
    let texts = components.iter().enumerate();
    let texts: Vec<_> = texts
        .map(|(id, component)| format!("replica {id} {}", property(component)))
        .collect();
    texts.join(", ")
}

pub(super) fn shapes(components: &[Tensor]) -> String {
    per_replica(components, |component| component.shape().to_string())
}

/// Checks a tensor that the caller passed to receive a result.
pub(super) fn check_output(
    output: &TensorMut,
    dtype: DType,
    shape: Shape,
    components: &[Tensor],
) -> Result<()> {
    if output.dtype() != dtype || output.shape() != shape {
        return Err(invalid!(
            "output",
            "{} of shape {}; the result is {dtype} of shape {shape}",
            output.dtype(),
            output.shape()
        ));
    }
    if let Some(replica) = components
        .iter()
        .position(|component| output.overlaps(component))
    {
        return Err(invalid!(
            "output",
            "it shares memory with the component of replica {replica}; give a tensor of its own"
        ));
    }
    Ok(())
}
