//! Reductions and copies of indexed slices.

use umbo_base::error::{Error, Result};
use umbo_device::DeviceId;
use umbo_kernels::layout::Layout;
use umbo_tensor::collectives::{self, ReduceOp};
use umbo_tensor::values::indexed_slices::IndexedSlices;
use umbo_tensor::values::{PerReplica, Value};
use umbo_tensor::{Shape, Tensor};

/// Concatenates the indexed slices of all replicas, in replica order: that is their sum. MEAN
/// divides the values by the number of components as well, with the dtype of any MEAN.
///
/// Fails with INVALID_ARGUMENT if the dense shapes or the dtypes differ.
pub(crate) fn concatenate(
    op: ReduceOp,
    components: &[&IndexedSlices],
    destination: DeviceId,
) -> Result<IndexedSlices> {
    let shape = common_shape(components)?;
    let values: Vec<Tensor> = components
        .iter()
        .map(|slices| slices.values().clone())
        .collect();
    let indices: Vec<Tensor> = components
        .iter()
        .map(|slices| slices.indices().clone())
        .collect();
    let mut values = collectives::gather(&values, 0, destination, None)?;
    if op == ReduceOp::Mean {
        // The mean of the values and of as many zeros as there are other components: it is rounded
        // once, and has the dtype of every mean.
        let mut parts = vec![zeros_like(&values)?; components.len()];
        parts[0] = values;
        values = collectives::reduce(op, &parts, None, destination, None)?;
    }
    let indices = collectives::gather(&indices, 0, destination, None)?;
    IndexedSlices::new(values, indices, shape)
}

/// A tensor of zeros, with a stride of 0: all share one element.
fn zeros_like(tensor: &Tensor) -> Result<Tensor> {
    let zero = Tensor::zeros(tensor.dtype(), Shape::scalar(), tensor.device())?;
    let shape = tensor.shape();
    let layout = Layout::strided(shape, &vec![0; shape.rank()])?;
    Tensor::from_storage(zero.storage().0.clone(), tensor.dtype(), layout, 0)
}

fn common_shape(components: &[&IndexedSlices]) -> Result<Shape> {
    let first = components
        .first()
        .ok_or_else(|| Error::Internal("no slices to concatenate".into()))?;
    if components
        .iter()
        .any(|slices| slices.dense_shape() != first.dense_shape())
    {
        let shapes = components.iter().enumerate();
        let shapes: Vec<String> = shapes
            .map(|(replica, slices)| format!("replica {replica} {}", slices.dense_shape()))
            .collect();
        return Err(invalid!(
            "value",
            "the dense shapes of the replicas' indexed slices differ: {}",
            shapes.join(", ")
        ));
    }
    Ok(first.dense_shape())
}

/// The components if all of them are indexed slices.
pub(crate) fn all_slices(components: &[Value]) -> Option<Vec<&IndexedSlices>> {
    components
        .iter()
        .map(|component| match component {
            Value::IndexedSlices(slices) => Some(&**slices),
            _ => None,
        })
        .collect()
}

/// The components as dense tensors: indexed slices are added up, tensors stay as they are.
pub(crate) fn dense_components(value: &PerReplica) -> Result<Vec<Tensor>> {
    if value.is_dense() {
        return Ok(value.components().to_vec());
    }
    value
        .values()
        .iter()
        .map(|component| match component {
            Value::IndexedSlices(slices) => slices.to_dense(DeviceId::HOST),
            other => other.tensor_of(0).cloned(),
        })
        .collect()
}

/// A copy of indexed slices in memory of `device`.
pub(crate) fn copy_to(slices: &IndexedSlices, device: DeviceId) -> Result<Value> {
    Value::indexed_slices(
        collectives::copy_to(slices.values(), device)?,
        collectives::copy_to(slices.indices(), device)?,
        slices.dense_shape(),
    )
}
