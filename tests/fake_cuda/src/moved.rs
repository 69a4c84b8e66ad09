//! How many bytes copies have moved, and over what.

use crate::driver::Driver;
use crate::operation::{Destination, Source};
use crate::region::Place;

/// Sums over all copies that have run.
#[derive(Clone, Copy, Default)]
pub struct Moved {
    /// From the host to a device.
    pub to_device: u64,
    /// From a device to the host.
    pub to_host: u64,
    /// Of both, from or to memory that the program has registered.
    pub registered: u64,
    /// From one device to another.
    pub between: u64,
    /// Within a device.
    pub within: u64,
}

impl Moved {
    /// One of the sums, by its name.
    pub fn named(&self, name: &str) -> u64 {
        match name {
            "to device" => self.to_device,
            "to host" => self.to_host,
            "registered" => self.registered,
            "between devices" => self.between,
            "within a device" => self.within,
            _ => 0,
        }
    }
}

impl Driver {
    /// Counts a copy that has run.
    pub fn count_moved(&mut self, from: &Source, to: &Destination, bytes: u64) {
        let device = |address: u64| {
            self.memory
                .holding(address)
                .and_then(|region| region.device())
        };
        let source = match from {
            Source::Staged(_) => None,
            Source::Address(address) => device(*address),
        };
        let target = match to {
            Destination::Pageable(_) => None,
            Destination::Address(address) => device(*address),
        };
        let host = match (from, to) {
            (Source::Address(from), _) if source.is_none() => Some(*from),
            (_, Destination::Address(to)) if target.is_none() => Some(*to),
            _ => None,
        };
        let region = host.and_then(|address| self.memory.holding(address));
        if region.is_some_and(|region| matches!(region.place, Place::Registered)) {
            self.moved.registered += bytes;
        }
        let sum = match (source, target) {
            (None, Some(_)) => &mut self.moved.to_device,
            (Some(_), None) => &mut self.moved.to_host,
            (Some(source), Some(target)) if source != target => &mut self.moved.between,
            (Some(_), Some(_)) => &mut self.moved.within,
            (None, None) => return,
        };
        *sum += bytes;
    }
}
