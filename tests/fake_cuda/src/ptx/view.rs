//! Global memory as a launch sees it.

use crate::codes::Code;
use crate::memory::Memory;
use crate::region::Tracking;
use crate::report::Mistake;

use super::shadow::{Identities, Kind};

/// Why a launch ends early.
#[derive(Debug)]
pub struct Fault {
    pub code: Code,
    pub mistake: Mistake,
    pub text: String,
}

/// A mistake that does not end the launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finding {
    Race,
    Uninitialised,
}

const PAGE: u64 = 4096;

/// One region that the launch has touched.
struct View {
    start: u64,
    bytes: u64,
    data: *mut u8,
    /// Null if all bytes count as written.
    initialised: *mut u64,
    writers: *mut u32,
    readers: *mut u32,
    /// A bit for each page that was touched.
    touched: Vec<u64>,
}

/// All regions that the launch has touched.
pub struct Views<'a> {
    memory: &'a mut Memory,
    /// The device that runs the launch.
    device: usize,
    /// The pools that it may use.
    pools: Vec<u32>,
    views: Vec<View>,
    /// For each access of the kernel the view that it used last.
    last: Vec<u32>,
}

/// Bytes of a region that a launch read or wrote.
pub struct Touched {
    pub region: u64,
    pub reads: Vec<std::ops::Range<u64>>,
    pub writes: Vec<std::ops::Range<u64>>,
}

impl<'a> Views<'a> {
    pub fn new(
        memory: &'a mut Memory,
        device: usize,
        pools: Vec<u32>,
        accesses: usize,
    ) -> Views<'a> {
        Views {
            memory,
            device,
            pools,
            views: vec![],
            last: vec![u32::MAX; accesses],
        }
    }

    fn find(&mut self, site: u32, address: u64, bytes: u64) -> Result<usize, Fault> {
        let inside =
            |view: &View| address >= view.start && address - view.start + bytes <= view.bytes;
        if let Some(at) = self.views.iter().position(inside) {
            self.last[site as usize] = at as u32;
            return Ok(at);
        }
        let illegal = |mistake, text| Fault {
            code: Code::ILLEGAL_ADDRESS,
            mistake,
            text,
        };
        let region = self
            .memory
            .find(address, bytes)
            .map_err(|bad| illegal(bad.mistake, bad.text))?;
        if let Some(owner) = region.device()
            && owner != self.device
            && !region.pool.is_some_and(|pool| self.pools.contains(&pool))
        {
            let text = format!(
                "device {} has no access to {}",
                self.device,
                region.describe()
            );
            return Err(illegal(Mistake::OutOfBounds, text));
        }
        let length = region.bytes as usize;
        let tracking = region.tracking.get_or_insert_with(|| Tracking {
            writers: vec![0; length],
            readers: vec![0; length],
        });
        let view = View {
            start: region.start,
            bytes: region.bytes,
            data: region.data,
            writers: tracking.writers.as_mut_ptr(),
            readers: tracking.readers.as_mut_ptr(),
            initialised: region
                .initialised
                .as_mut()
                .map_or(std::ptr::null_mut(), |bits| bits.words().as_mut_ptr()),
            touched: vec![0; (region.bytes.div_ceil(PAGE)).div_ceil(64) as usize],
        };
        self.views.push(view);
        let at = self.views.len() - 1;
        self.last[site as usize] = at as u32;
        Ok(at)
    }

    /// Checks and notes an access of `bytes` bytes, at most 16, at a multiple of them. Returns
    /// where they are, and what is wrong that does not end the launch.
    #[inline]
    pub fn access(
        &mut self,
        ids: &Identities,
        me: u32,
        site: u32,
        address: u64,
        bytes: u64,
        kind: Kind,
    ) -> Result<(*mut u8, Option<Finding>), Fault> {
        let mut at = self.last[site as usize] as usize;
        let hit = self.views.get(at).is_some_and(|view| {
            address >= view.start && address - view.start + bytes <= view.bytes
        });
        if !hit {
            at = self.find(site, address, bytes)?;
        }
        let view = &mut self.views[at];
        let offset = address - view.start;
        let page = offset / PAGE;
        view.touched[(page / 64) as usize] |= 1 << (page % 64);
        let mut finding = None;
        if !view.initialised.is_null() {
            let bits = ((1u64 << bytes) - 1) << (offset % 64);
            // SAFETY: the region has a bit for each byte, `offset` lies in it, and as regions with
            // such bits begin at multiples of 512 an aligned access has all its bits in one word.
            let word = unsafe { &mut *view.initialised.add((offset / 64) as usize) };
            if kind != Kind::Write && *word & bits != bits {
                finding = Some(Finding::Uninitialised);
            }
            if kind != Kind::Read {
                *word |= bits;
            }
        }
        // SAFETY: both have a number for each byte of the region, in which the access lies; no
        // other reference to them exists while the launch runs.
        let (writers, readers) = unsafe {
            (
                std::slice::from_raw_parts_mut(view.writers.add(offset as usize), bytes as usize),
                std::slice::from_raw_parts_mut(view.readers.add(offset as usize), bytes as usize),
            )
        };
        if ids.access(false, me, kind, writers, readers) {
            finding = Some(Finding::Race);
        }
        // SAFETY: the offset lies in the region.
        Ok((unsafe { view.data.add(offset as usize) }, finding))
    }

    /// What the launch read and wrote: identities from `first` on are its own.
    pub fn touched(self, first: u32) -> Vec<Touched> {
        self.views.iter().map(|view| view.summary(first)).collect()
    }
}

impl View {
    fn summary(&self, first: u32) -> Touched {
        let mut touched = Touched {
            region: self.start,
            reads: vec![],
            writes: vec![],
        };
        for page in 0..self.bytes.div_ceil(PAGE) {
            if self.touched[(page / 64) as usize] >> (page % 64) & 1 == 0 {
                continue;
            }
            let start = page * PAGE;
            let length = PAGE.min(self.bytes - start) as usize;
            for (numbers, runs) in [
                (self.readers, &mut touched.reads),
                (self.writers, &mut touched.writes),
            ] {
                // SAFETY: there is a number for each byte of the region; nothing changes them now.
                let numbers =
                    unsafe { std::slice::from_raw_parts(numbers.add(start as usize), length) };
                add_runs(numbers, start, first, runs);
            }
        }
        touched
    }
}

/// Adds the runs of numbers from `first` on.
fn add_runs(numbers: &[u32], start: u64, first: u32, runs: &mut Vec<std::ops::Range<u64>>) {
    for (at, number) in (start..).zip(numbers) {
        if *number < first {
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.end == at => run.end = at + 1,
            _ => runs.push(at..at + 1),
        }
    }
}
