//! Memory that datasets read and never write: mapped files, and arrays lent by their owners.

#![expect(unsafe_code, reason = "mapped files")]

use std::fs::File;
use std::sync::Arc;

use memmap2::Mmap;

use crate::device::DeviceId;
use crate::error::Result;
use crate::tensor::Tensor;
use crate::tensor::storage::Storage;
use crate::values::Value;

/// Maps a file into memory for reading.
pub(super) fn map(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the map is private and read-only. That nobody shortens or rewrites the file while
    // it is mapped is the agreement that the documentation of every reader states, as with any
    // program that maps its data; nothing in memory other than these bytes depends on them.
    unsafe { Mmap::map(file) }
}

/// A read-only storage over a mapped file, which stays mapped as long as the storage lives.
pub(super) fn mapped_storage(map: Mmap) -> Storage {
    let (data, bytes) = (map.as_ptr().cast_mut(), map.len());
    // SAFETY: the map owns these bytes, which a file initialises, and does not move them when it
    // is itself moved into the box; it is dropped with the storage. Read-only is said.
    unsafe { Storage::foreign(data, bytes, DeviceId::HOST, true, Box::new(map)) }
}

/// The same elements in host memory, not to be written: a batch that is a view of an array must not be a way to
/// change the array.
pub(super) fn read_only(tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_read_only() && tensor.device().is_host_memory() {
        return Ok(tensor.clone());
    }
    let tensor = &tensor.on_host()?;
    let (storage, offset) = tensor.storage();
    let owner = Box::new(Arc::clone(storage));
    // SAFETY: the box keeps the storage, and with it these bytes, until the new storage is
    // dropped; a tensor that becomes a dataset has its elements set. Read-only is said.
    let shared = unsafe {
        Storage::foreign(storage.address(), storage.bytes(), storage.device(), true, owner)
    };
    Tensor::from_storage(Arc::new(shared), tensor.dtype(), *tensor.layout(), offset)
}

/// As [`read_only`], for each tensor of a nest.
pub(super) fn read_only_value(value: &Value) -> Result<Value> {
    value.map_leaves(&mut |leaf| match leaf {
        Value::Tensor(tensor) => read_only(tensor).map(Value::Tensor),
        other => Ok(other.clone()),
    })
}
