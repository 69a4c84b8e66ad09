//! The list of hazard records, and how a use is published and waited for. Nothing here is global,
//! so that it can be model-checked (`tests/models`); [`hazard`](crate::machinery::hazard) gives
//! threads their records.

use std::ptr;

use crossbeam_utils::CachePadded;

use super::sync::{
    AtomicBool, AtomicPtr, AtomicU32, Ordering, PLACES, SPINS, spin_loop, yield_now,
};

/// Names no slot.
const NONE: u32 = u32::MAX;

/// The slots that one thread is using now.
pub struct HazardRecord {
    places: [AtomicU32; PLACES],
    taken: AtomicBool,
    /// Set before the record is published, constant afterwards.
    next: AtomicPtr<CachePadded<HazardRecord>>,
}

impl HazardRecord {
    /// Says in a place of this record, which is the calling thread's, that `slot` is about to be
    /// used. The caller has yet to check that the slot still holds what it wants.
    pub fn publish(&self, place: usize, slot: u32) {
        self.places[place].store(slot, Ordering::SeqCst);
    }

    /// Ends the use that was published in a place.
    pub fn withdraw(&self, place: usize) {
        self.places[place].store(NONE, Ordering::Release);
    }

    /// Gives the record to whichever thread needs one next.
    pub fn give_back(&self) {
        self.taken.store(false, Ordering::Release);
    }
}

/// All records there ever were: they are reused, never freed.
pub struct Records {
    /// The newest one.
    pub head: AtomicPtr<CachePadded<HazardRecord>>,
}

impl Records {
    /// All records, newest first.
    pub fn iter(&self) -> impl Iterator<Item = &'static HazardRecord> + use<> {
        let mut next = self.head.load(Ordering::SeqCst);
        std::iter::from_fn(move || {
            // SAFETY: a non-null pointer in the list came from `Box::leak` in `take` and is never
            // freed; the record was written before the pointer was published with release.
            let record: &'static CachePadded<HazardRecord> = unsafe { next.as_ref() }?;
            next = record.next.load(Ordering::Acquire);
            Some(&**record)
        })
    }

    /// A record for the calling thread alone: one that another thread gave back, or a new one.
    pub fn take(&self) -> &'static HazardRecord {
        let free = self.iter().find(|record| {
            let swap =
                record
                    .taken
                    .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
            swap.is_ok()
        });
        if let Some(record) = free {
            return record;
        }
        let record: &'static CachePadded<HazardRecord> =
            Box::leak(Box::new(CachePadded::new(HazardRecord {
                places: std::array::from_fn(|_| AtomicU32::new(NONE)),
                taken: AtomicBool::new(true),
                next: AtomicPtr::new(ptr::null_mut()),
            })));
        let pointer = ptr::from_ref(record).cast_mut();
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            record.next.store(head, Ordering::Relaxed);
            // Sequentially consistent like the publication of a slot that follows it: a release
            // that is ordered after that publication finds the record in the list.
            let swap =
                self.head
                    .compare_exchange_weak(head, pointer, Ordering::SeqCst, Ordering::Relaxed);
            match swap {
                Ok(_) => return record,
                Err(newer) => head = newer,
            }
        }
    }

    /// Returns when no thread uses `slot` any more. The caller has made sure, with a sequentially
    /// consistent write, that no new use can begin.
    pub fn wait_until_unused(&self, slot: u32) {
        for record in self.iter() {
            for place in &record.places {
                let mut looks = 0;
                while place.load(Ordering::SeqCst) == slot {
                    looks += 1;
                    if looks < SPINS {
                        spin_loop();
                    } else {
                        yield_now();
                    }
                }
            }
        }
    }

    /// Whether some record names the slot.
    #[cfg(all(test, not(loom)))]
    pub fn names(&self, slot: u32) -> bool {
        self.iter().any(|record| {
            record
                .places
                .iter()
                .any(|place| place.load(Ordering::SeqCst) == slot)
        })
    }
}
