//! What the devices are.

use crate::codes::{Code, Outcome};
use crate::driver::Driver;

/// Limits that launches are checked against too.
pub const THREADS_PER_BLOCK: u32 = 1024;
pub const BLOCK: [u32; 3] = [1024, 1024, 64];
pub const GRID: [u32; 3] = [0x7fff_ffff, 0xffff, 0xffff];
pub const SHARED_PER_BLOCK: u32 = 48 << 10;
pub const SHARED_PER_BLOCK_OPT_IN: u32 = 99 << 10;
pub const SHARED_PER_MULTIPROCESSOR: u32 = 100 << 10;
pub const SHARED_RESERVED: u32 = 1 << 10;
pub const WARP: u32 = 32;
pub const MULTIPROCESSORS: u32 = 8;
pub const THREADS_PER_MULTIPROCESSOR: u32 = 2048;
pub const BLOCKS_PER_MULTIPROCESSOR: u32 = 32;
pub const REGISTERS: u32 = 65536;

impl Driver {
    /// The number of a device.
    pub fn device(&self, device: i32) -> Outcome<u32> {
        match u32::try_from(device) {
            Ok(id) if (id as usize) < self.contexts.len() => Ok(id),
            _ => Err(Code::INVALID_DEVICE),
        }
    }

    pub fn device_name(&self, device: i32) -> Outcome<String> {
        Ok(format!("Fake CUDA device {}", self.device(device)?))
    }

    pub fn device_uuid(&self, device: i32) -> Outcome<[u8; 16]> {
        let mut uuid = *b"fake-cuda-dev-\0\0";
        uuid[14..].copy_from_slice(&(self.device(device)? as u16).to_be_bytes());
        Ok(uuid)
    }

    pub fn device_memory(&self, device: i32) -> Outcome<usize> {
        Ok(self.memory.total(self.device(device)? as usize) as usize)
    }

    pub fn can_access_peer(&self, device: i32, peer: i32) -> Outcome<bool> {
        let different = self.device(device)? != self.device(peer)?;
        Ok(different && self.settings.peer)
    }

    pub fn device_attribute(&self, attribute: u32, device: i32) -> Outcome<i32> {
        let id = self.device(device)?;
        let value = match attribute {
            1 => THREADS_PER_BLOCK,
            2..=4 => BLOCK[attribute as usize - 2],
            5..=7 => GRID[attribute as usize - 5],
            8 => SHARED_PER_BLOCK,
            9 => 65536,
            10 => WARP,
            11 => 0x7fff_ffff,
            12 | 82 => REGISTERS,
            13 | 36 => 1_000_000,
            14 => 512,
            15 | 19 | 31 | 41 | 78 | 91 | 95 | 115 => 1,
            16 => MULTIPROCESSORS,
            33 => id + 1,
            37 => 4096,
            38 => 4 << 20,
            39 => THREADS_PER_MULTIPROCESSOR,
            40 => 2,
            75 => self.settings.capability.0 as u32,
            76 => self.settings.capability.1 as u32,
            81 => SHARED_PER_MULTIPROCESSOR,
            97 => SHARED_PER_BLOCK_OPT_IN,
            106 => BLOCKS_PER_MULTIPROCESSOR,
            111 => SHARED_RESERVED,
            119 => 1,
            17..=150 => 0,
            _ => return Err(Code::INVALID_VALUE),
        };
        Ok(value as i32)
    }
}
