//! Page-locked memory that a copy reads or writes later: the host must leave it alone until it
//! knows that the copy is finished.

use std::sync::Arc;

use crate::clock::Clock;
use crate::operation::Stamp;
use crate::report::{Mistake, Reports};

struct Watch {
    address: u64,
    /// What must be there: what was there when the copy was put on its stream, or what it wrote.
    bytes: Vec<u8>,
    stamp: Arc<Stamp>,
    copied: bool,
}

/// All sources and targets that are not yet free to be changed.
#[derive(Default)]
pub struct Watches(Vec<Watch>);

impl Watch {
    fn now(&self) -> &[u8] {
        // SAFETY: the range was page-locked memory when the watch was set, and watches of memory
        // that is freed are removed before. A program that writes at the same time is the
        // mistake looked for; what is then read does not matter.
        unsafe { std::slice::from_raw_parts(self.address as usize as *const u8, self.bytes.len()) }
    }

    fn check(&self, reports: &mut Reports) -> bool {
        let changed = self
            .now()
            .iter()
            .zip(&self.bytes)
            .position(|(now, then)| now != then);
        if let Some(offset) = changed {
            let text = format!(
                "the host changed byte {offset} of the {} bytes at {:#x} before it could know \
                 that {} was over",
                self.bytes.len(),
                self.address,
                self.stamp.describe()
            );
            reports.add(Mistake::PinnedChanged, &text);
        }
        changed.is_some()
    }

    fn overlaps(&self, address: u64, bytes: u64) -> bool {
        self.address < address + bytes && address < self.address + self.bytes.len() as u64
    }
}

impl Watches {
    /// Watches the source or the target of a copy that was just put on its stream.
    pub fn add(&mut self, address: u64, bytes: u64, stamp: &Arc<Stamp>) {
        let mut watch = Watch {
            address,
            bytes: vec![0; bytes as usize],
            stamp: Arc::clone(stamp),
            copied: false,
        };
        watch.bytes = watch.now().to_vec();
        self.0.push(watch);
    }

    /// The copy runs now.
    pub fn check(&mut self, stamp: &Arc<Stamp>, reports: &mut Reports) {
        self.0
            .retain(|watch| !Arc::ptr_eq(&watch.stamp, stamp) || !watch.check(reports));
    }

    /// The copy has run.
    pub fn copied(&mut self, stamp: &Arc<Stamp>) {
        for watch in self
            .0
            .iter_mut()
            .filter(|watch| Arc::ptr_eq(&watch.stamp, stamp))
        {
            watch.copied = true;
        }
    }

    /// A device wrote the range: no longer what it was, and rightly so.
    pub fn device_wrote(&mut self, address: u64, bytes: u64) {
        self.0.retain_mut(|watch| {
            if watch.overlaps(address, bytes) {
                watch.bytes = watch.now().to_vec();
                return !watch.copied;
            }
            true
        });
    }

    /// The program learns what is finished: those copies' sources are free.
    pub fn settle(&mut self, known: &Clock, reports: &mut Reports) {
        self.0.retain(|watch| {
            let over = watch.copied && watch.stamp.is_known_to(known);
            if over {
                watch.check(reports);
            }
            !over
        });
    }

    /// A function of the program ran on a stream and may have filled what later copies read.
    pub fn refresh_after(&mut self, function: &Arc<Stamp>) {
        for watch in &mut self.0 {
            if !watch.copied && watch.stamp.knows(function) {
                watch.bytes = watch.now().to_vec();
            }
        }
    }

    /// The memory goes away.
    pub fn forget(&mut self, address: u64, bytes: u64) {
        self.0.retain(|watch| !watch.overlaps(address, bytes));
    }
}
