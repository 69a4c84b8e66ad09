//! Accesses of copies, fills and frees to memory, checked against everything known of it.

use std::ops::Range;
use std::sync::Arc;

use crate::codes::{Code, Outcome};
use crate::driver::Driver;
use crate::history::Conflict;
use crate::memory::BadAddress;
use crate::operation::Stamp;
use crate::region::Region;
use crate::report::Mistake;

/// The text of a race.
pub fn race(now: &Stamp, write: bool, region: &Region, conflict: &Conflict) -> String {
    let verb = |wrote: bool| if wrote { "writes" } else { "reads" };
    let Range { start, end } = conflict.bytes;
    format!(
        "{} {} bytes {start} to {end} of {}, which {} {}, and nothing orders the two",
        now.describe(),
        verb(write),
        region.describe(),
        conflict.earlier.describe(),
        verb(conflict.earlier_wrote),
    )
}

impl Driver {
    /// Reports a bad address.
    pub fn bad_address(&mut self, who: &str, bad: &BadAddress) {
        self.reports
            .add(bad.mistake, &format!("{who}: {}", bad.text));
    }

    /// Checks when a call is made that a range is memory which devices can use.
    pub fn check_range(&mut self, who: &str, address: u64, bytes: u64) -> Outcome {
        if bytes == 0 {
            return Ok(());
        }
        match self.memory.find(address, bytes) {
            Ok(_) => Ok(()),
            Err(bad) => {
                self.bad_address(who, &bad);
                Err(Code::INVALID_VALUE)
            }
        }
    }

    /// An operation reads or writes a whole range now. Returns where the bytes are; a race is
    /// reported and execution continues, a bad address is an error of the context.
    pub fn touch(
        &mut self,
        stamp: &Arc<Stamp>,
        address: u64,
        bytes: u64,
        write: bool,
    ) -> Outcome<*mut u8> {
        let region = match self.memory.find(address, bytes) {
            Ok(region) => region,
            Err(bad) => {
                self.bad_address(&stamp.describe(), &bad);
                return Err(Code::ILLEGAL_ADDRESS);
            }
        };
        let offsets = region.offsets(address, bytes);
        let conflict = region.history.access(offsets, write, stamp);
        let data = region.at(address);
        if let Some(conflict) = conflict {
            let text = race(stamp, write, region, &conflict);
            self.reports.add(Mistake::Race, &text);
        }
        Ok(data)
    }

    /// Bytes of a range that nothing wrote, as the first of their offsets.
    pub fn first_uninitialised(&mut self, address: u64, bytes: u64) -> Option<u64> {
        let region = self.memory.find(address, bytes).ok()?;
        let offsets = region.offsets(address, bytes);
        region.initialised.as_ref()?.first_missing(offsets)
    }

    /// Notes that all bytes of a range are written.
    pub fn wrote(&mut self, address: u64, bytes: u64) {
        let Ok(region) = self.memory.find(address, bytes) else {
            return;
        };
        let offsets = region.offsets(address, bytes);
        match region.initialised.as_mut() {
            Some(initialised) => initialised.set(offsets, true),
            None => self.watches.device_wrote(address, bytes),
        }
    }

    /// Notes for each byte of a copy's target whether its source was written.
    pub fn wrote_copy(&mut self, from: u64, to: u64, bytes: u64) {
        let mut holes = vec![];
        if let Ok(region) = self.memory.find(from, bytes) {
            let Range { mut start, end } = region.offsets(from, bytes);
            let base = start;
            if let Some(initialised) = &region.initialised {
                while let Some(hole) = initialised.first_missing(start..end) {
                    let stop = (hole..end).find(|at| initialised.has(*at)).unwrap_or(end);
                    holes.push(hole - base..stop - base);
                    start = stop;
                }
            }
        }
        self.wrote(to, bytes);
        if let Ok(region) = self.memory.find(to, bytes) {
            let base = region.offsets(to, bytes).start;
            if let Some(initialised) = region.initialised.as_mut() {
                for hole in holes {
                    initialised.set(base + hole.start..base + hole.end, false);
                }
            }
        }
    }
}
