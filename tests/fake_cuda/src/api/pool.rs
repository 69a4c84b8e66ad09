//! Memory pools.

use std::ffi::{c_int, c_uint, c_void};

use super::{In, Out, api};
use crate::codes::{Code, Outcome};
use crate::handle::Raw;
use crate::pool::{Attribute, is_switch};

/// `CUmemLocation`: a kind, of which only devices are known, and a number.
#[derive(Clone, Copy)]
#[repr(C)]
struct Location {
    kind: c_uint,
    id: c_int,
}

/// `CUmemAccessDesc`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Access {
    location: Location,
    flags: c_uint,
}

/// `CUmemPoolProps`, as far as it matters.
#[derive(Clone, Copy)]
#[repr(C)]
struct Properties {
    allocations: c_uint,
    handles: c_uint,
    location: Location,
}

const DEVICE: c_uint = 1;

/// `CU_MEM_ALLOCATION_TYPE_PINNED`, the only one there is.
const PINNED: c_uint = 1;

fn device(location: Location) -> Outcome<c_int> {
    if location.kind == DEVICE { Ok(location.id) } else { Err(Code::INVALID_VALUE) }
}

api! {
    fn cuMemAllocAsync(address: Out<u64>, bytes: usize, stream: Raw) |session| {
        session.allocate_on_stream(bytes, stream).and_then(|at| address.put(at))
    };
    fn cuMemFreeAsync(address: u64, stream: Raw) |session| session.free_on_stream(address, stream);
    fn cuMemAllocFromPoolAsync(address: Out<u64>, bytes: usize, pool: Raw, stream: Raw) |session| {
        session.allocate_from(bytes, pool, stream).and_then(|at| address.put(at))
    };
    fn cuMemPoolCreate(pool: Out<Raw>, properties: In<Properties>) |session| {
        let given = properties.get(0)?;
        if (given.allocations, given.handles) != (PINNED, 0) {
            return Err(Code::INVALID_VALUE);
        }
        session.make_pool(device(given.location)?).and_then(|raw| pool.put(raw))
    };
    fn cuMemPoolDestroy(pool: Raw) |session| session.destroy_pool(pool);
    fn cuDeviceGetDefaultMemPool(pool: Out<Raw>, device: c_int) |session| {
        session.pool_of(device).and_then(|raw| pool.put(raw))
    };
    fn cuDeviceGetMemPool(pool: Out<Raw>, device: c_int) |session| {
        session.pool_of(device).and_then(|raw| pool.put(raw))
    };
    fn cuDeviceSetMemPool(device: c_int, pool: Raw) |session| session.set_pool(device, pool);
    fn cuMemPoolGetAttribute(pool: Raw, attribute: c_uint, value: *mut c_void) |session| {
        match session.pool_attribute(pool, attribute)? {
            Attribute::Switch(switch) => Out::at(value.cast()).put(switch),
            Attribute::Bytes(bytes) => Out::at(value.cast()).put(bytes),
        }
    };
    fn cuMemPoolSetAttribute(pool: Raw, attribute: c_uint, value: *mut c_void) |session| {
        let given = if is_switch(attribute) {
            In::at(value.cast::<i32>()).get(0)? as u64
        } else {
            In::at(value.cast::<u64>()).get(0)?
        };
        session.set_pool_attribute(pool, attribute, given)
    };
    fn cuMemPoolTrimTo(pool: Raw, _keep: usize) |session| session.pool(pool).map(drop);
    fn cuMemPoolSetAccess(pool: Raw, list: In<Access>, count: usize) |session| {
        (0..count).try_for_each(|index| {
            let access = list.get(index)?;
            session.set_pool_access(pool, device(access.location)?, access.flags)
        })
    };
    fn cuMemPoolGetAccess(flags: Out<c_uint>, pool: Raw, location: In<Location>) |session| {
        let found = session.pool_access(pool, device(location.get(0)?)?)?;
        flags.put(found)
    };
}
