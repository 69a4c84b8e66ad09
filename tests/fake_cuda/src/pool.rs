//! Memory pools, from which allocations on streams come. Each device has one, whose number is the
//! device's, and programs make others.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_uint};
use std::sync::Arc;

use crate::codes::{Code, Outcome};
use crate::driver::Driver;
use crate::handle::{self, Kind, Raw};
use crate::operation::{Stamp, Work};
use crate::session::Session;

/// A pool of one device.
#[derive(Default)]
pub struct Pool {
    device: u32,
    /// Other devices that may use its memory.
    access: BTreeSet<u32>,
}

/// `CUmemLocation`: a kind, of which only devices are known, and a number.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Location {
    kind: c_uint,
    id: c_int,
}

/// `CUmemAccessDesc`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Access {
    location: Location,
    flags: c_uint,
}

/// `CUmemPoolProps`, as far as it matters.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Properties {
    allocations: c_uint,
    handles: c_uint,
    location: Location,
}

/// `CU_MEM_LOCATION_TYPE_DEVICE`.
const DEVICE: c_uint = 1;
/// `CU_MEM_ALLOCATION_TYPE_PINNED`, the only one there is.
const PINNED: c_uint = 1;

/// What a device may do with a pool's memory.
const NO_ACCESS: u32 = 0;
const READ_AND_WRITE: u32 = 3;

/// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD` and `CU_MEMPOOL_ATTR_USED_MEM_CURRENT`.
const THRESHOLD: u32 = 4;
const USED: u32 = 7;

impl Pool {
    /// The first one of a device.
    pub fn of(device: u32) -> Pool {
        Pool {
            device,
            ..Pool::default()
        }
    }
}

impl Driver {
    /// The device that is located.
    fn located(&self, location: Location) -> Outcome<u32> {
        if location.kind == DEVICE {
            self.device(location.id)
        } else {
            Err(Code::INVALID_VALUE)
        }
    }

    /// Makes another pool of a device.
    pub fn make_pool(&mut self, given: Properties) -> Outcome<Raw> {
        if (given.allocations, given.handles) != (PINNED, 0) {
            return Err(Code::INVALID_VALUE);
        }
        let device = self.located(given.location)?;
        self.pools.push(Pool::of(device));
        Ok(handle::make(Kind::Pool, self.pools.len() as u32 - 1))
    }

    pub fn pool_of(&self, device: i32) -> Outcome<Raw> {
        Ok(handle::make(Kind::Pool, self.device(device)?))
    }

    /// The number of a pool.
    pub fn pool(&self, raw: Raw) -> Outcome<u32> {
        let id = handle::number(Kind::Pool, raw).map_err(|_| Code::INVALID_VALUE)?;
        if (id as usize) < self.pools.len() {
            Ok(id)
        } else {
            Err(Code::INVALID_VALUE)
        }
    }

    pub fn pool_attribute(&self, raw: Raw, attribute: u32) -> Outcome<u64> {
        let id = self.pool(raw)?;
        if attribute != USED {
            return Err(Code::INVALID_VALUE);
        }
        let of_pool = self.memory.live().filter(|region| region.pool == Some(id));
        Ok(of_pool.map(|region| region.bytes).sum())
    }

    /// What a pool keeps of its memory makes no difference here.
    pub fn set_pool_attribute(&self, raw: Raw, attribute: u32) -> Outcome {
        self.pool(raw)?;
        if attribute == THRESHOLD {
            Ok(())
        } else {
            Err(Code::INVALID_VALUE)
        }
    }

    /// Says what a device may do with a pool's memory.
    pub fn set_pool_access(&mut self, raw: Raw, given: Access) -> Outcome {
        let id = self.pool(raw)?;
        let device = self.located(given.location)?;
        let pool = &mut self.pools[id as usize];
        match given.flags {
            READ_AND_WRITE => drop(pool.access.insert(device)),
            NO_ACCESS if device != pool.device => drop(pool.access.remove(&device)),
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }

    pub fn pool_access(&self, raw: Raw, location: Location) -> Outcome<u32> {
        let id = self.pool(raw)?;
        let device = self.located(location)?;
        let granted = self.is_open(id, device);
        Ok(if granted { READ_AND_WRITE } else { NO_ACCESS })
    }

    /// Whether a device may use the memory of a pool.
    pub fn is_open(&self, pool: u32, device: u32) -> bool {
        let pool = &self.pools[pool as usize];
        pool.device == device || pool.access.contains(&device)
    }

    /// Runs a free that was put on a stream.
    pub fn run_free(&mut self, stamp: &Arc<Stamp>, at: u64) -> Outcome {
        let bytes = self.memory.starting_at(at).map_or(1, |region| region.bytes);
        self.touch(stamp, at, bytes, true)?;
        self.memory.release(at, stamp.describe().into());
        Ok(())
    }
}

impl Session<'_> {
    /// Memory for a stream: there from this place in the stream on.
    pub fn allocate_on_stream(&mut self, bytes: usize, stream: Raw) -> Outcome<u64> {
        let stream = self.stream(stream)?;
        let context = self.streams.get(stream).map_or(0, |stream| stream.context);
        self.allocate_of(context, bytes, stream)
    }

    /// The same of a pool of the stream's device.
    pub fn allocate_from(&mut self, bytes: usize, pool: Raw, stream: Raw) -> Outcome<u64> {
        let id = self.pool(pool)?;
        let stream = self.stream(stream)?;
        let context = self.streams.get(stream).map_or(0, |stream| stream.context);
        if self.pools[id as usize].device != context {
            let text =
                format!("allocation: the pool is not of device {context}, whose stream is given");
            return Err(self.misuse(Code::INVALID_VALUE, &text));
        }
        self.allocate_of(id, bytes, stream)
    }

    fn allocate_of(&mut self, id: u32, bytes: usize, stream: u32) -> Outcome<u64> {
        let context = self.pools[id as usize].device;
        let at = self.allocate_in(context, bytes as u64)?;
        let stamp = self.enqueue(stream, "allocation", Work::Nothing)?;
        let region = self
            .memory
            .starting_at(at)
            .expect("it was allocated just now");
        region.history.access(0..bytes as u64, true, &stamp);
        region.pool = Some(id);
        Ok(at)
    }

    pub fn free_on_stream(&mut self, at: u64, stream: Raw) -> Outcome {
        let stream = self.stream(stream)?;
        if at == 0 {
            return Ok(());
        }
        self.check_allocation("free on a stream", at)?;
        self.enqueue(stream, "free", Work::Free { at }).map(drop)
    }
}
