//! Hazard records: how a lookup keeps a slot's object alive without writing to memory that other
//! threads write.
//!
//! Each thread owns a cache-padded record with a few places. A lookup writes the slot's number
//! into a place of its own record, then checks that the handle still counts, then uses the
//! object. Whoever releases the last handle first makes the check fail, then waits until no
//! record names the slot, then takes the object out. All four accesses are sequentially
//! consistent, so that at least one of the two sees the other: either the lookup's check fails or
//! the release waits for it.

use std::cell::Cell;
use std::hint;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use crossbeam_utils::CachePadded;

use crate::executor::fork::{self, Repair};
use crate::executor::thread;

/// How many slots a thread can use at the same time before it needs a further record.
const PLACES: usize = 6;

/// Names no slot.
const NONE: u32 = u32::MAX;

/// How often a release looks before it yields the processor.
const SPINS: u32 = 64;

/// The slots that one thread is using now.
struct Record {
    places: [AtomicU32; PLACES],
    taken: AtomicBool,
    /// Set before the record is published, constant afterwards.
    next: AtomicPtr<CachePadded<Record>>,
}

/// All records there ever were: they are reused, never freed.
static RECORDS: AtomicPtr<CachePadded<Record>> = AtomicPtr::new(ptr::null_mut());

/// A thread's own record and how many of its places are in use.
struct Current {
    record: Cell<Option<&'static Record>>,
    depth: Cell<usize>,
}

/// Gives the thread's record back when the thread ends.
struct Ownership;

impl Drop for Ownership {
    fn drop(&mut self) {
        // `CURRENT` needs no drop, so that it can be used until the thread's very end.
        if let Some(record) = CURRENT.with(|current| current.record.take()) {
            record.taken.store(false, Ordering::Release);
        }
    }
}

thread_local! {
    static CURRENT: Current = const { Current { record: Cell::new(None), depth: Cell::new(0) } };
    static OWNERSHIP: Ownership = const { Ownership };
}

/// A published intention to use a slot; dropping it ends the use.
pub(super) struct Hazard {
    place: &'static AtomicU32,
    /// The record that was taken for this use alone, if the thread's own has no free place or is
    /// gone because the thread is ending.
    extra: Option<&'static Record>,
}

impl Hazard {
    /// Says that this thread is about to use `slot`. The caller has yet to check that the slot
    /// still holds what it wants.
    pub(super) fn publish(slot: u32) -> Hazard {
        let hazard = CURRENT.with(|current| match current.record.get() {
            Some(record) if current.depth.get() < PLACES => {
                let depth = current.depth.get();
                current.depth.set(depth + 1);
                Hazard { place: &record.places[depth], extra: None }
            }
            _ => Hazard::elsewhere(current),
        });
        hazard.place.store(slot, Ordering::SeqCst);
        hazard
    }

    #[cold]
    fn elsewhere(current: &Current) -> Hazard {
        let record = take_record();
        let first = current.record.get().is_none();
        if first && !thread::is_ending() && OWNERSHIP.try_with(|_| ()).is_ok() {
            current.record.set(Some(record));
            current.depth.set(1);
            Hazard { place: &record.places[0], extra: None }
        } else {
            Hazard { place: &record.places[0], extra: Some(record) }
        }
    }
}

impl Drop for Hazard {
    fn drop(&mut self) {
        self.place.store(NONE, Ordering::Release);
        match self.extra {
            // Uses end in the reverse order of their beginning, so this was the last place.
            None => CURRENT.with(|current| current.depth.set(current.depth.get() - 1)),
            Some(record) => record.taken.store(false, Ordering::Release),
        }
    }
}

/// All records, newest first.
fn records() -> impl Iterator<Item = &'static Record> {
    let mut next = RECORDS.load(Ordering::SeqCst);
    std::iter::from_fn(move || {
        // SAFETY: a non-null pointer in the list came from `Box::into_raw` in `take_record` and is
        // never freed; the record was written before the pointer was published with release.
        let record: &'static CachePadded<Record> = unsafe { next.as_ref() }?;
        next = record.next.load(Ordering::Acquire);
        Some(&**record)
    })
}

/// A record for the calling thread alone: one that another thread gave back, or a new one.
fn take_record() -> &'static Record {
    let free = records().find(|record| {
        let swap = record.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        swap.is_ok()
    });
    if let Some(record) = free {
        return record;
    }
    fork::in_each_child(Repair::Hazards, forget_others);
    let record: &'static CachePadded<Record> = Box::leak(Box::new(CachePadded::new(Record {
        places: [const { AtomicU32::new(NONE) }; PLACES],
        taken: AtomicBool::new(true),
        next: AtomicPtr::new(ptr::null_mut()),
    })));
    let pointer = ptr::from_ref(record).cast_mut();
    let mut head = RECORDS.load(Ordering::Relaxed);
    loop {
        record.next.store(head, Ordering::Relaxed);
        // Sequentially consistent like the publication of a slot that follows it: a release that
        // is ordered after that publication finds the record in the list.
        let swap =
            RECORDS.compare_exchange_weak(head, pointer, Ordering::SeqCst, Ordering::Relaxed);
        match swap {
            Ok(_) => return record,
            Err(newer) => head = newer,
        }
    }
}

/// In the child of a fork: what other threads were looking at, nobody looks at. The thread that forked
/// was looking at nothing, since no use of a slot runs the caller's code.
fn forget_others() {
    let own = CURRENT.with(|current| current.record.get()).map(ptr::from_ref);
    for record in records() {
        for place in &record.places {
            place.store(NONE, Ordering::SeqCst);
        }
        record.taken.store(own == Some(ptr::from_ref(record)), Ordering::Release);
    }
}

/// Returns when no thread uses `slot` any more. The caller has made sure, with a sequentially
/// consistent write, that no new use can begin.
pub(super) fn wait_until_unused(slot: u32) {
    for record in records() {
        for place in &record.places {
            let mut looks = 0;
            while place.load(Ordering::SeqCst) == slot {
                looks += 1;
                if looks < SPINS {
                    hint::spin_loop();
                } else {
                    std::thread::yield_now();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn is_named(slot: u32) -> bool {
        records()
            .any(|record| record.places.iter().any(|place| place.load(Ordering::SeqCst) == slot))
    }

    #[test]
    fn uses_nest_past_the_places_of_a_record() {
        fn nest(depth: u32) {
            if depth < 3 * PLACES as u32 {
                let slot = u32::MAX - 1 - depth;
                let hazard = Hazard::publish(slot);
                assert!(is_named(slot));
                nest(depth + 1);
                assert!(is_named(slot));
                drop(hazard);
                assert!(!is_named(slot));
            }
        }
        nest(0);
    }

    #[test]
    fn a_release_waits_for_the_use_to_end() {
        const SLOT: u32 = u32::MAX - 1000;
        let hazard = Hazard::publish(SLOT);
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                wait_until_unused(SLOT);
                assert!(ended.load(Ordering::SeqCst));
            });
            thread::yield_now();
            ended.store(true, Ordering::SeqCst);
            drop(hazard);
        });
    }

    #[test]
    fn a_thread_that_ends_gives_its_record_back() {
        let count = || records().count();
        let run = || thread::spawn(|| drop(Hazard::publish(7))).join().unwrap();
        run();
        let before = count();
        for _ in 0..64 {
            run();
        }
        // Other tests run at the same time and may need a record of their own, but not 64.
        assert!(count() < before + 64);
    }
}
