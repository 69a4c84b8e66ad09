//! Hazard records and a slot of the handle table under loom. The records are the library's own
//! source, compiled a second time over loom's atomics; of the table it is the one word on which
//! lookup and release meet, with the orders that `handle` gives its accesses.
//!
//! loom takes sequentially consistent accesses for acquire and release ones, but knows fences. So
//! each such access has a fence on the side that counts: before a load, after a store.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;

use self::records::Records;
use self::sync::{AtomicPtr, AtomicU32, Ordering};

#[path = "../../../../src/machinery/records.rs"]
mod records;

mod sync {
    pub use loom::hint::spin_loop;
    use loom::sync::atomic as loom_atomic;
    pub use loom::sync::atomic::Ordering;
    use loom::sync::atomic::fence;
    pub use loom::thread::yield_now;

    /// One place is enough for what the model does.
    pub const PLACES: usize = 1;
    pub const SPINS: u32 = 1;

    fn before(order: Ordering) {
        if order == Ordering::SeqCst {
            fence(Ordering::SeqCst);
        }
    }

    macro_rules! atomic {
        ($name:ident $(<$parameter:ident>)?, $value:ty) => {
            /// loom's, with sequentially consistent accesses.
            #[derive(Debug)]
            pub struct $name $(<$parameter>)? (loom_atomic::$name $(<$parameter>)?);

            impl $(<$parameter>)? $name $(<$parameter>)? {
                pub fn new(value: $value) -> Self {
                    Self(loom_atomic::$name::new(value))
                }

                #[allow(dead_code, reason = "not all are used of each type")]
                pub fn load(&self, order: Ordering) -> $value {
                    before(order);
                    self.0.load(order)
                }

                #[allow(dead_code, reason = "not all are used of each type")]
                pub fn store(&self, value: $value, order: Ordering) {
                    self.0.store(value, order);
                    before(order);
                }

                #[allow(dead_code, reason = "not all are used of each type")]
                pub fn compare_exchange(
                    &self,
                    old: $value,
                    new: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    before(success);
                    let result = self.0.compare_exchange(old, new, success, failure);
                    before(success);
                    result
                }

                #[allow(dead_code, reason = "not all are used of each type")]
                pub fn compare_exchange_weak(
                    &self,
                    old: $value,
                    new: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    self.compare_exchange(old, new, success, failure)
                }
            }
        };
    }

    atomic!(AtomicU32, u32);
    atomic!(AtomicBool, bool);
    atomic!(AtomicPtr<T>, *mut T);
}

const SLOT: u32 = 5;
/// The low byte of a state counts references, the rest is the generation.
const GENERATION: u32 = 1 << 8;

/// A slot of the table: a word that tells whether handles to it count, and an object.
struct Slot {
    records: Records,
    state: AtomicU32,
    object: UnsafeCell<u32>,
}

// SAFETY: that the object is not used by two threads in ways that exclude each other is what the
// model is about, and loom tells if it is.
unsafe impl Sync for Slot {}

impl Slot {
    fn new(object: u32) -> Arc<Slot> {
        Arc::new(Slot {
            records: Records {
                head: AtomicPtr::new(std::ptr::null_mut()),
            },
            state: AtomicU32::new(1),
            object: UnsafeCell::new(object),
        })
    }

    fn counts(state: u32, generation: u32) -> bool {
        state / GENERATION == generation && !state.is_multiple_of(GENERATION)
    }

    /// What `handle::borrow` does.
    fn look(&self, generation: u32) -> Option<u32> {
        let record = self.records.take();
        record.publish(0, SLOT);
        let object = Slot::counts(self.state.load(Ordering::SeqCst), generation)
            // SAFETY: loom tells if anybody writes the object at the same time.
            .then(|| self.object.with(|object| unsafe { *object }));
        record.withdraw(0);
        record.give_back();
        object
    }

    /// What `handle::change_references` does; whether the handle counted.
    fn change(&self, generation: u32, by: i32) -> bool {
        let mut state = self.state.load(Ordering::SeqCst);
        loop {
            if !Slot::counts(state, generation) {
                return false;
            }
            let references = (state % GENERATION).wrapping_add_signed(by);
            let next = if references == 0 {
                (generation + 1) * GENERATION
            } else {
                generation * GENERATION + references
            };
            let swap = self
                .state
                .compare_exchange(state, next, Ordering::SeqCst, Ordering::SeqCst);
            match swap {
                Ok(_) if references == 0 => {
                    self.records.wait_until_unused(SLOT);
                    // SAFETY: loom tells if anybody looks at the object at the same time.
                    self.object.with_mut(|object| unsafe { *object = 0 });
                    return true;
                }
                Ok(_) => return true,
                Err(newer) => state = newer,
            }
        }
    }

    /// What `handle::occupy` does with a slot that was vacated once.
    fn occupy(&self, object: u32) {
        // SAFETY: loom tells if anybody looks at the object at the same time.
        self.object.with_mut(|place| unsafe { *place = object });
        self.state.store(GENERATION + 1, Ordering::SeqCst);
    }
}

/// Runs the threads in every order with at most two preemptions.
fn explore(model: impl Fn() -> Vec<Box<dyn FnOnce() + Send>> + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(move || {
        let threads: Vec<_> = model().into_iter().map(thread::spawn).collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_release_waits_for_lookups_and_later_ones_find_nothing() {
    explore(|| {
        let slot = Slot::new(7);
        let looker = || -> Box<dyn FnOnce() + Send> {
            let slot = Arc::clone(&slot);
            Box::new(move || {
                if let Some(object) = slot.look(0) {
                    assert_eq!(object, 7);
                }
            })
        };
        let first = looker();
        let second = looker();
        let releaser = Arc::clone(&slot);
        vec![
            first,
            second,
            Box::new(move || {
                assert!(releaser.change(0, -1));
                assert_eq!(releaser.look(0), None);
            }),
        ]
    });
}

#[test]
fn a_slot_that_is_used_again_shows_only_its_new_object_to_new_handles() {
    explore(|| {
        let slot = Slot::new(7);
        let stale = Arc::clone(&slot);
        let user = Arc::clone(&slot);
        vec![
            Box::new(move || {
                // Whichever of the objects it is, it is the one of the handle.
                if let Some(object) = stale.look(0) {
                    assert_eq!(object, 7);
                }
                if let Some(object) = stale.look(1) {
                    assert_eq!(object, 9);
                }
            }),
            Box::new(move || {
                assert!(user.change(0, -1));
                user.occupy(9);
                assert!(!user.change(0, -1));
            }),
        ]
    });
}

#[test]
fn of_two_releases_the_last_one_takes_the_object() {
    explore(|| {
        let slot = Slot::new(7);
        assert!(slot.change(0, 1));
        (0..2)
            .map(|_| -> Box<dyn FnOnce() + Send> {
                let slot = Arc::clone(&slot);
                Box::new(move || {
                    assert_eq!(slot.look(0), Some(7));
                    assert!(slot.change(0, -1));
                })
            })
            .collect()
    });
}
