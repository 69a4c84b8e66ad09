//! What the driver tells about an address.

use crate::codes::{Code, Outcome};
use crate::driver::Driver;
use crate::handle::{self, Kind};
use crate::region::Place;

const CONTEXT: u32 = 1;
const MEMORY_TYPE: u32 = 2;
const DEVICE_POINTER: u32 = 3;
const HOST_POINTER: u32 = 4;
const SYNC_MEMORY_OPERATIONS: u32 = 6;
const BUFFER_ID: u32 = 7;
const IS_MANAGED: u32 = 8;
const DEVICE_ORDINAL: u32 = 9;
const RANGE_START: u32 = 11;
const RANGE_SIZE: u32 = 12;
const MAPPED: u32 = 13;

const MEMORY_TYPE_HOST: u64 = 1;
const MEMORY_TYPE_DEVICE: u64 = 2;

/// A value and how many of its low bytes the attribute has.
pub type Attribute = (u64, usize);

impl Driver {
    pub fn pointer_attribute(&self, attribute: u32, address: u64) -> Outcome<Attribute> {
        let region = self.memory.holding(address).ok_or(Code::INVALID_VALUE)?;
        let device = region.device();
        Ok(match attribute {
            CONTEXT => (handle::make(Kind::Context, region.context) as u64, 8),
            MEMORY_TYPE if device.is_some() => (MEMORY_TYPE_DEVICE, 4),
            MEMORY_TYPE => (MEMORY_TYPE_HOST, 4),
            DEVICE_POINTER => (address, 8),
            HOST_POINTER if device.is_none() => (address, 8),
            SYNC_MEMORY_OPERATIONS => (0, 4),
            BUFFER_ID => (region.id, 8),
            IS_MANAGED => (0, 4),
            DEVICE_ORDINAL => (u64::from(region.context), 4),
            RANGE_START => (region.start, 8),
            RANGE_SIZE => (region.bytes, 8),
            MAPPED => (u64::from(!matches!(region.place, Place::Registered)), 4),
            _ => return Err(Code::INVALID_VALUE),
        })
    }

    /// As `pointer_attribute`, but an address that the driver does not know has values too.
    pub fn pointer_attribute_or_none(&self, attribute: u32, address: u64) -> Outcome<Attribute> {
        match self.pointer_attribute(attribute, address) {
            Ok(found) => Ok(found),
            Err(_) => match attribute {
                DEVICE_ORDINAL => Ok((-2i32 as u32 as u64, 4)),
                MEMORY_TYPE | SYNC_MEMORY_OPERATIONS | IS_MANAGED | MAPPED => Ok((0, 4)),
                CONTEXT | DEVICE_POINTER | HOST_POINTER | BUFFER_ID | RANGE_START | RANGE_SIZE => {
                    Ok((0, 8))
                }
                _ => Err(Code::INVALID_VALUE),
            },
        }
    }

    /// First address and size of the allocation that holds an address.
    pub fn address_range(&self, address: u64) -> Outcome<(u64, usize)> {
        let region = self.memory.holding(address).ok_or(Code::NOT_FOUND)?;
        Ok((region.start, region.bytes as usize))
    }
}
