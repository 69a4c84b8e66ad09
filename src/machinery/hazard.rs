//! Hazard records: how a lookup keeps a slot's object alive without writing to memory that other
//! threads write.
//!
//! Each thread owns a cache-padded record with a few places. A lookup writes the slot's number
//! into a place of its own record, then checks that the handle still counts, then uses the
//! object. The release of the last handle first makes the check fail, then waits until no
//! record names the slot, then takes the object out. All four accesses are sequentially
//! consistent, so that at least one of the two sees the other: either the lookup's check fails or
//! the release waits for it.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::ptr;

use super::records::{HazardRecord, Records};
use super::sync::{AtomicPtr, PLACES};

static RECORDS: Records = Records {
    head: AtomicPtr::new(ptr::null_mut()),
};

/// A thread's own record and how many of its places are in use.
struct CurrentHazard {
    record: Cell<Option<&'static HazardRecord>>,
    depth: Cell<usize>,
    /// The functions that are called when none is in use any more.
    postponed: RefCell<Vec<Box<dyn FnOnce()>>>,
}

/// Gives the thread's record back when the thread ends.
struct Ownership;

impl Drop for Ownership {
    fn drop(&mut self) {
        // `CURRENT` needs no drop, so that it can be used until the thread's very end.
        if let Some(record) = CURRENT.with(|current| current.record.take()) {
            record.give_back();
        }
    }
}

thread_local! {
    static CURRENT: ManuallyDrop<CurrentHazard> = const {
        ManuallyDrop::new(CurrentHazard {
            record: Cell::new(None),
            depth: Cell::new(0),
            postponed: RefCell::new(Vec::new()),
        })
    };
    static OWNERSHIP: Ownership = const { Ownership };
}

/// A published intention to use a slot; dropping it ends the use.
pub(crate) struct Hazard {
    record: &'static HazardRecord,
    place: usize,
    /// The record was taken for this use alone: the thread's own has no free place, or is gone
    /// because the thread is ending.
    is_extra: bool,
}

impl Hazard {
    /// Says that this thread is about to use `slot`. The caller has yet to check that the slot
    /// still holds what it wants.
    pub(crate) fn publish(slot: u32) -> Hazard {
        let hazard = CURRENT.with(|current| match current.record.get() {
            Some(record) if current.depth.get() < PLACES => {
                let place = current.depth.get();
                current.depth.set(place + 1);
                Hazard {
                    record,
                    place,
                    is_extra: false,
                }
            }
            _ => Hazard::on_new_record(current),
        });
        hazard.record.publish(hazard.place, slot);
        hazard
    }

    #[cold]
    fn on_new_record(current: &CurrentHazard) -> Hazard {
        let record = RECORDS.take();
        let first = current.record.get().is_none();
        if first && OWNERSHIP.try_with(|_| ()).is_ok() {
            current.record.set(Some(record));
            current.depth.set(1);
            Hazard {
                record,
                place: 0,
                is_extra: false,
            }
        } else {
            Hazard {
                record,
                place: 0,
                is_extra: true,
            }
        }
    }
}

impl Drop for Hazard {
    fn drop(&mut self) {
        self.record.withdraw(self.place);
        if self.is_extra {
            self.record.give_back();
        } else {
            // Uses end in the reverse order of their beginning, so this was the last place.
            CURRENT.with(|current| {
                current.depth.set(current.depth.get() - 1);
                current.call_postponed();
            });
        }
    }
}

impl CurrentHazard {
    fn call_postponed(&self) {
        while self.depth.get() == 0 && !self.postponed.borrow().is_empty() {
            // The list goes with its memory: a thread that ends does not drop what is here.
            for call in self.postponed.take() {
                call();
            }
        }
    }
}

/// Makes `call`, which runs code of the program's: at once, or, if this thread uses slots, when it
/// does not any more. That code may release the very handles that are used, and a release waits for
/// the end of their use.
pub(crate) fn call_when_unused(call: impl FnOnce() + 'static) {
    CURRENT.with(|current| match current.depth.get() {
        0 => call(),
        _ => current.postponed.borrow_mut().push(Box::new(call)),
    });
}

/// Returns when no thread uses `slot` any more. The caller has made sure, with a sequentially
/// consistent write, that no new use can begin.
pub(crate) fn wait_until_unused(slot: u32) {
    RECORDS.wait_until_unused(slot);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::rc::Rc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    fn is_named(slot: u32) -> bool {
        RECORDS.names(slot)
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
    fn a_call_waits_for_the_outermost_use_to_end() {
        let calls = Rc::new(Cell::new(0));
        let add = |calls: &Rc<Cell<i32>>| {
            let calls = Rc::clone(calls);
            move || calls.set(calls.get() + 1)
        };
        let outer = Hazard::publish(u32::MAX - 2000);
        let inner = Hazard::publish(u32::MAX - 2001);
        call_when_unused(add(&calls));
        drop(inner);
        call_when_unused(add(&calls));
        assert_eq!(calls.get(), 0);
        drop(outer);
        assert_eq!(calls.get(), 2);
        call_when_unused(add(&calls));
        assert_eq!(calls.get(), 3);
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
        let count = || RECORDS.iter().count();
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
