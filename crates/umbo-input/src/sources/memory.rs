//! Memory that datasets only read: mapped files, and arrays that their owners lend.

#![expect(unsafe_code, reason = "mapped files")]

use std::fs::File;
use std::sync::Arc;

use memmap2::Mmap;

use umbo_base::error::Result;
use umbo_device::DeviceId;
use umbo_tensor::Tensor;
use umbo_tensor::storage::Storage;
use umbo_tensor::values::Value;

/// Maps a file into memory for reading.
pub(crate) fn map(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the map is private and read-only. The documentation of every reader requires that
    // nobody shortens or rewrites the file while it is mapped, as with any program that maps
    // its data. Nothing else in memory depends on these bytes.
    unsafe { Mmap::map(file) }
}

/// A read-only storage over a mapped file, which stays mapped as long as the storage lives.
pub(crate) fn mapped_storage(map: Mmap) -> Storage {
    let (data, bytes) = (map.as_ptr().cast_mut(), map.len());
    // SAFETY: the map owns these bytes, which a file initialises, and does not move them when it is
    // itself moved into the box. It is dropped with the storage. The storage is declared
    // read-only.
    unsafe { Storage::foreign(data, bytes, DeviceId::HOST, true, Box::new(map)) }
}

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
