//! Memory of a device.

use crate::backend::{Address, Backend};
use umbo_base::error::Result;

/// Memory of a device. When it is dropped, it is freed once the device's queue has come past
/// everything that was queued before.
#[derive(Debug)]
pub struct DeviceMemory {
    backend: &'static dyn Backend,
    address: Address,
    bytes: usize,
}

impl DeviceMemory {
    /// `bytes` bytes with arbitrary contents. Fails as [`Backend::allocate`] does.
    pub fn new(backend: &'static dyn Backend, bytes: usize) -> Result<DeviceMemory> {
        let address = backend.allocate(bytes)?;
        Ok(DeviceMemory {
            backend,
            address,
            bytes,
        })
    }

    /// The device's address of the first byte.
    pub fn address(&self) -> Address {
        self.address
    }

    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The device to which the memory belongs.
    pub fn backend(&self) -> &'static dyn Backend {
        self.backend
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: it was allocated by this device with this length, and is freed only here.
        unsafe { self.backend.free(self.address, self.bytes) };
    }
}
