//! Arrays that are copied when the dataset is made.

use crate::device::DeviceId;
use crate::error::Result;
use crate::input::dataset::Dataset;
use crate::strategy::Strategy;
use crate::strategy::context::require_cross_replica_of;
use crate::tensor::{Tensor, TensorMut};
use crate::values::Value;

/// The slices of arrays along dimension 0, as [`Dataset::from_tensor_slices`] makes them, of copies
/// in host memory: the arrays may be changed or freed afterwards. The dataset is an ordinary one,
/// to be batched and then distributed.
///
/// FAILED_PRECONDITION inside of a replica's callback and in the scope of another strategy.
/// INVALID_ARGUMENT: a scalar, dimensions 0 that differ, per-replica values, variables, no array.
/// RESOURCE_EXHAUSTED: no memory for the copies.
pub fn make_numpy_dataset(strategy: &Strategy, arrays: &Value) -> Result<Dataset> {
    require_cross_replica_of(strategy.id())?;
    // Checked before anything is copied.
    Dataset::from_tensor_slices(arrays)?;
    let copies = arrays.map_leaves(&mut |leaf| match leaf {
        Value::Tensor(array) => {
            let (dtype, shape) = (array.dtype(), array.shape());
            let copy = |to: &mut TensorMut| to.copy_from(array);
            Tensor::made(dtype, shape, DeviceId::HOST, copy).map(Value::Tensor)
        }
        other => Ok(other.clone()),
    })?;
    Dataset::from_tensor_slices(&copies)
}
