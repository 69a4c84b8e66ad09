//! Memory pools, from which allocations on streams come. Each device has one, whose number is the device's,
//! and programs make others.

use std::collections::BTreeSet;
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
    /// It was destroyed; memory of it that is left stays.
    destroyed: bool,
    /// Switches 1 to 3: which ways of using memory again are allowed.
    reuse: [Option<i32>; 3],
    threshold: u64,
    high: u64,
    /// Other devices that may use its memory.
    access: BTreeSet<u32>,
}

/// What a device may do with a pool's memory.
const NO_ACCESS: u32 = 0;
const READ_AND_WRITE: u32 = 3;

const REUSE_LAST: u32 = 3;
const THRESHOLD: u32 = 4;
const RESERVED: u32 = 5;
const RESERVED_HIGH: u32 = 6;
const USED: u32 = 7;
const USED_HIGH: u32 = 8;

/// The value of an attribute: most have 64 bits, the switches 32.
pub enum Attribute {
    Switch(i32),
    Bytes(u64),
}

/// Whether an attribute is a switch.
pub fn is_switch(attribute: u32) -> bool {
    (1..=REUSE_LAST).contains(&attribute)
}

impl Pool {
    /// The first one of a device.
    pub fn of(device: u32) -> Pool {
        Pool { device, ..Pool::default() }
    }
}

impl Driver {
    /// Makes another pool of a device.
    pub fn make_pool(&mut self, device: i32) -> Outcome<Raw> {
        let device = self.device(device)?;
        self.pools.push(Pool::of(device));
        Ok(handle::make(Kind::Pool, self.pools.len() as u32 - 1))
    }

    pub fn destroy_pool(&mut self, raw: Raw) -> Outcome {
        let id = self.any_pool(raw)?;
        if (id as usize) < self.settings.devices {
            return Err(Code::INVALID_VALUE);
        }
        self.pools[id as usize].destroyed = true;
        Ok(())
    }

    /// How many bytes are allocated of a pool.
    fn allocated(&self, id: u32) -> u64 {
        let of_pool = self.memory.live().filter(|region| region.pool == Some(id));
        of_pool.map(|region| region.bytes).sum()
    }

    /// The number of a pool.
    fn any_pool(&self, raw: Raw) -> Outcome<u32> {
        let id = handle::number(Kind::Pool, raw).map_err(|_| Code::INVALID_VALUE)?;
        match self.pools.get(id as usize) {
            Some(pool) if !pool.destroyed => Ok(id),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    pub fn pool_of(&self, device: i32) -> Outcome<Raw> {
        Ok(handle::make(Kind::Pool, self.device(device)?))
    }

    /// The number of a pool's device.
    pub fn pool(&self, raw: Raw) -> Outcome<u32> {
        self.any_pool(raw).map(|id| self.pools[id as usize].device)
    }

    pub fn set_pool(&self, device: i32, raw: Raw) -> Outcome {
        if self.any_pool(raw)? == self.device(device)? { Ok(()) } else { Err(Code::NOT_SUPPORTED) }
    }

    pub fn pool_attribute(&self, raw: Raw, attribute: u32) -> Outcome<Attribute> {
        let id = self.any_pool(raw)?;
        let pool = &self.pools[id as usize];
        let used = match (id as usize) < self.settings.devices {
            true => self.memory.used(id as usize),
            false => self.allocated(id),
        };
        Ok(match attribute {
            1..=REUSE_LAST => Attribute::Switch(pool.reuse[attribute as usize - 1].unwrap_or(1)),
            THRESHOLD => Attribute::Bytes(pool.threshold),
            RESERVED | USED => Attribute::Bytes(used),
            RESERVED_HIGH | USED_HIGH => Attribute::Bytes(pool.high.max(used)),
            _ => return Err(Code::INVALID_VALUE),
        })
    }

    pub fn set_pool_attribute(&mut self, raw: Raw, attribute: u32, value: u64) -> Outcome {
        let id = self.any_pool(raw)?;
        let pool = &mut self.pools[id as usize];
        match attribute {
            1..=REUSE_LAST => pool.reuse[attribute as usize - 1] = Some(value as i32),
            THRESHOLD => pool.threshold = value,
            RESERVED_HIGH | USED_HIGH if value == 0 => pool.high = 0,
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }

    /// Says what a device may do with a pool's memory. Enabling peer access does not.
    pub fn set_pool_access(&mut self, raw: Raw, device: i32, access: u32) -> Outcome {
        let owner = self.pool(raw)?;
        let device = self.device(device)?;
        match access {
            READ_AND_WRITE if device == owner => {}
            READ_AND_WRITE if !self.settings.peer => return Err(Code::PEER_ACCESS_UNSUPPORTED),
            READ_AND_WRITE => drop(self.pools[owner as usize].access.insert(device)),
            NO_ACCESS if device != owner => drop(self.pools[owner as usize].access.remove(&device)),
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }

    pub fn pool_access(&self, raw: Raw, device: i32) -> Outcome<u32> {
        let owner = self.pool(raw)?;
        let device = self.device(device)?;
        let granted = device == owner || self.pools[owner as usize].access.contains(&device);
        Ok(if granted { READ_AND_WRITE } else { NO_ACCESS })
    }

    /// The devices whose pools a device may use, beside its own.
    pub fn pools_open_to(&self, device: u32) -> Vec<usize> {
        let open = |owner: &usize| self.pools[*owner].access.contains(&device);
        (0..self.settings.devices).filter(open).collect()
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
        let id = self.any_pool(pool)?;
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
        let region = self.memory.starting_at(at).expect("it was allocated just now");
        region.history.access(0..bytes as u64, true, &stamp);
        region.pool = Some(id);
        let used = self.memory.used(context as usize);
        let pool = &mut self.pools[id as usize];
        pool.high = pool.high.max(used);
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
