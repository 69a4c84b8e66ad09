//! Allocations and what is known of addresses.

use std::ffi::{c_int, c_uint, c_void};

use super::{In, Out, api};
use crate::pointer::Attribute;

/// Leaves an attribute of a pointer, which has 4 or 8 bytes.
fn put_attribute(data: *mut c_void, (value, bytes): Attribute) -> crate::codes::Outcome {
    // Both views of the caller's memory are as wide as the attribute that it asked for.
    if bytes == 4 {
        Out::at(data.cast::<u32>()).put(value as u32)
    } else {
        Out::at(data.cast::<u64>()).put(value)
    }
}

api! {
    fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) |session| {
        let (left, all) = session.memory_info()?;
        free.put(left)?;
        total.put(all)
    };
    fn cuMemAlloc_v2(address: Out<u64>, bytes: usize) |session| {
        session.allocate(bytes).and_then(|at| address.put(at))
    };
    fn cuMemFree_v2(address: u64) |session| session.free(address);
    fn cuMemHostAlloc(address: Out<*mut c_void>, bytes: usize, flags: c_uint) |session| {
        session.allocate_host(bytes, flags).and_then(|at| address.put(at))
    };
    fn cuMemAllocHost_v2(address: Out<*mut c_void>, bytes: usize) |session| {
        session.allocate_host(bytes, 0).and_then(|at| address.put(at))
    };
    fn cuMemFreeHost(address: *mut c_void) |session| session.free_host(address);
    fn cuMemHostRegister_v2(address: *mut c_void, bytes: usize, flags: c_uint) |session| {
        session.register_host(address, bytes, flags)
    };
    fn cuMemHostUnregister(address: *mut c_void) |session| session.unregister_host(address);
    fn cuMemHostGetDevicePointer_v2(device: Out<u64>, host: *mut c_void, _flags: c_uint) |session| {
        session.host_device_pointer(host).and_then(|at| device.put(at))
    };
    fn cuMemHostGetFlags(flags: Out<c_uint>, host: *mut c_void) |session| {
        session.host_flags(host).and_then(|value| flags.put(value))
    };
    fn cuMemGetAddressRange_v2(start: Out<u64>, bytes: Out<usize>, address: u64) |session| {
        let (first, size) = session.address_range(address)?;
        start.put_if_wanted(first)?;
        bytes.put_if_wanted(size)
    };
    fn cuPointerGetAttribute(data: *mut c_void, attribute: c_uint, address: u64) |session| {
        session.pointer_attribute(attribute, address).and_then(|found| put_attribute(data, found))
    };
    fn cuPointerGetAttributes(
        count: c_uint,
        attributes: In<c_uint>,
        data: In<*mut c_void>,
        address: u64,
    ) |session| {
        (0..count as usize).try_for_each(|index| {
            let found = session.pointer_attribute_or_none(attributes.get(index)?, address)?;
            put_attribute(data.get(index)?, found)
        })
    };
    fn cuPointerSetAttribute(_data: *const c_void, attribute: c_int, address: u64) |session| {
        session.pointer_attribute(attribute as u32, address).map(drop)
    };
}
