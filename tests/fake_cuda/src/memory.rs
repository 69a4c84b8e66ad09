//! All memory that devices can use, found by address.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::address_space::AddressSpace;
use crate::bits::Bits;
use crate::codes::{Code, Outcome};
use crate::history::History;
use crate::region::{Place, Region};
use crate::report::Mistake;

/// Why an address cannot be used.
#[derive(Debug)]
pub struct BadAddress {
    pub mistake: Mistake,
    pub text: String,
}

impl fmt::Display for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The memory of all devices and the page-locked memory of the host.
pub struct Memory {
    space: AddressSpace,
    /// By first address. Freed ones stay, so that their use is found out.
    regions: BTreeMap<u64, Region>,
    used: Vec<u64>,
    limits: Vec<u64>,
}

impl Memory {
    pub fn new(limits: Vec<u64>) -> Memory {
        Memory {
            space: AddressSpace::reserve(),
            regions: BTreeMap::new(),
            used: vec![0; limits.len()],
            limits,
        }
    }

    pub fn total(&self, device: usize) -> u64 {
        self.limits[device]
    }

    pub fn free_bytes(&self, device: usize) -> u64 {
        self.limits[device].saturating_sub(self.used[device])
    }

    fn insert(&mut self, start: u64, bytes: u64, place: Place, data: *mut u8, context: u32) {
        let initialised = match place {
            Place::Device { .. } => Some(Bits::new(bytes)),
            Place::Locked | Place::Registered => None,
        };
        let history = History::default();
        let region = Region {
            start,
            bytes,
            place,
            data,
            pool: None,
            context,
            initialised,
            history,
            tracking: None,
            freed: None,
        };
        self.regions.insert(start, region);
    }

    /// Device memory. Its bytes are there, but count as unwritten.
    pub fn allocate(&mut self, device: usize, bytes: u64, context: u32) -> Outcome<u64> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        if bytes > self.free_bytes(device) {
            return Err(Code::OUT_OF_MEMORY);
        }
        let size = usize::try_from(bytes).map_err(|_| Code::OUT_OF_MEMORY)?;
        // Too little memory of the host is an error of the call, too.
        Vec::<u8>::new()
            .try_reserve_exact(size)
            .map_err(|_| Code::OUT_OF_MEMORY)?;
        let start = self.space.take(bytes)?;
        // Zeroed memory is taken from the system only when it is touched.
        let mut storage = vec![0u8; size];
        let data = storage.as_mut_ptr();
        self.used[device] += bytes;
        let place = Place::Device {
            ordinal: device,
            _bytes: storage,
        };
        self.insert(start, bytes, place, data, context);
        Ok(start)
    }

    /// Makes host memory known. Freed regions that lay there before are forgotten.
    pub fn add_host(&mut self, start: u64, bytes: u64, place: Place, context: u32) {
        let gone: Vec<u64> = self
            .regions
            .range(..start + bytes)
            .rev()
            .take_while(|(_, region)| region.device().is_none())
            .filter(|(_, region)| region.end() > start)
            .map(|(at, _)| *at)
            .collect();
        for at in gone {
            self.regions.remove(&at);
        }
        self.insert(start, bytes, place, start as usize as *mut u8, context);
    }

    /// Marks a region as freed and gives its bytes back.
    pub fn release(&mut self, start: u64, by: Arc<str>) {
        if let Some(region) = self.regions.get_mut(&start) {
            region.freed = Some(by);
            region.history = History::default();
            region.initialised = None;
            region.tracking = None;
            region.data = std::ptr::null_mut();
            if let Place::Device { ordinal, _bytes } = &mut region.place {
                self.used[*ordinal] -= region.bytes;
                *_bytes = Vec::new();
            }
        }
    }

    /// The region, alive or freed, that starts at an address.
    pub fn starting_at(&mut self, start: u64) -> Option<&mut Region> {
        self.regions.get_mut(&start)
    }

    /// The live region that holds an address.
    pub fn holding(&self, address: u64) -> Option<&Region> {
        let (_, region) = self.regions.range(..=address).next_back()?;
        (region.freed.is_none() && address < region.end()).then_some(region)
    }

    /// Forgets which threads touched what; identities can then start anew.
    pub fn forget_threads(&mut self) {
        for region in self.regions.values_mut() {
            region.tracking = None;
        }
    }

    /// Live regions.
    pub fn live(&self) -> impl Iterator<Item = &Region> {
        self.regions
            .values()
            .filter(|region| region.freed.is_none())
    }

    /// Whether an address is one that only devices have.
    pub fn is_device_address(&self, address: u64) -> bool {
        self.space.contains(address)
    }

    /// The page-locked host memory that holds the whole range, alive.
    pub fn page_locked(&self, start: u64, bytes: u64) -> Option<&Region> {
        let region = self.holding(start)?;
        (region.device().is_none() && start + bytes <= region.end()).then_some(region)
    }

    /// The live region that holds the whole range.
    pub fn find(&mut self, address: u64, bytes: u64) -> Result<&mut Region, BadAddress> {
        let bad = |mistake, text| Err(BadAddress { mistake, text });
        let Some((_, region)) = self.regions.range_mut(..=address).next_back() else {
            return bad(
                Mistake::OutOfBounds,
                format!("{address:#x} is no device memory"),
            );
        };
        let end = address.checked_add(bytes);
        if address >= region.end() || end.is_none_or(|end| end > region.end()) {
            let text = if address < region.end() + GAP_SHOWN {
                let past = (address - region.start).saturating_add(bytes) - region.bytes;
                format!(
                    "{bytes} bytes at {address:#x} end {past} bytes past the end of {}",
                    region.describe()
                )
            } else {
                format!("{bytes} bytes at {address:#x} lie in no allocation")
            };
            return bad(Mistake::OutOfBounds, text);
        }
        if let Some(by) = &region.freed {
            let text = format!(
                "{bytes} bytes at {address:#x} lie in {}, which {by} freed",
                region.describe()
            );
            return bad(Mistake::UseAfterFree, text);
        }
        Ok(region)
    }
}

/// An access no farther than this past an allocation is told with its name.
const GAP_SHOWN: u64 = 4096;
