//! What the devices are.

use crate::codes::{Code, Outcome};
use crate::driver::Driver;

/// Limits of launches.
pub const THREADS_PER_BLOCK: u32 = 1024;
pub const GRID: [u32; 3] = [0x7fff_ffff, 0xffff, 0xffff];
pub const SHARED_PER_BLOCK: u32 = 48 << 10;

const CAPABILITY_MAJOR: u32 = 75;
const CAPABILITY_MINOR: u32 = 76;
const MEMORY_POOLS_SUPPORTED: u32 = 115;

impl Driver {
    /// The number of a device.
    pub fn device(&self, device: i32) -> Outcome<u32> {
        match u32::try_from(device) {
            Ok(id) if (id as usize) < self.contexts.len() => Ok(id),
            _ => Err(Code::INVALID_DEVICE),
        }
    }

    pub fn device_attribute(&self, attribute: u32, device: i32) -> Outcome<i32> {
        self.device(device)?;
        match attribute {
            CAPABILITY_MAJOR => Ok(self.settings.capability.0),
            CAPABILITY_MINOR => Ok(self.settings.capability.1),
            MEMORY_POOLS_SUPPORTED => Ok(1),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}
