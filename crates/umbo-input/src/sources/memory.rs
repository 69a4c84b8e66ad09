//! Memory that datasets only read: arrays that their owners lend.

#![expect(unsafe_code, reason = "memory that several tensors share")]

use std::sync::Arc;

use umbo_base::error::Result;
use umbo_tensor::Tensor;
use umbo_tensor::storage::Storage;
use umbo_tensor::values::Value;

/// Returns the same elements in host memory, read-only: a batch that is a view of an array must not
/// allow changes of the array.
pub(crate) fn read_only(tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_read_only() && tensor.device().is_host_memory() {
        return Ok(tensor.clone());
    }
    let tensor = &tensor.on_host()?;
    let (storage, offset) = tensor.storage();
    let owner = Box::new(Arc::clone(storage));
    // SAFETY: the box keeps the storage, and with it these bytes, until the new storage is dropped.
    // The elements of a tensor that becomes a dataset are initialised. The storage is declared
    // read-only.
    let shared = unsafe {
        Storage::foreign(
            storage.address(),
            storage.bytes(),
            storage.device(),
            true,
            owner,
        )
    };
    Tensor::from_storage(Arc::new(shared), tensor.dtype(), *tensor.layout(), offset)
}

/// Applies [`read_only`] to each tensor of a nest.
pub(crate) fn read_only_value(value: &Value) -> Result<Value> {
    value.map_leaves(&mut |leaf| match leaf {
        Value::Tensor(tensor) => read_only(tensor).map(Value::Tensor),
        other => Ok(other.clone()),
    })
}
