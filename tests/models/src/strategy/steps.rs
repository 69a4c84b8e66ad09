//! Steps that come through, one after the other, and what takes part in one.

use std::sync::Arc;

use super::crew::{Crew, Step};
use super::explore::{Body, explore, long};
use crate::sync::{AtomicBool, AtomicUsize, Mutex, Ordering};

#[test]
fn two_replicas_meet_in_merge_calls_of_step_after_step() {
    explore(long(3), || {
        Crew::new(2).threads(1..2, |crew| {
            for number in 1..=2 {
                assert!(crew.run(
                    Step {
                        number,
                        merge_calls: 3 - number
                    },
                    true
                ));
            }
        })
    });
}

#[test]
fn a_coordinator_that_only_watches_serves_and_commits() {
    explore(long(2), || {
        Crew::new(2).threads(0..2, |crew| {
            assert!(crew.run(
                Step {
                    number: 1,
                    merge_calls: 1
                },
                false
            ));
            assert!(crew.run(
                Step {
                    number: 2,
                    merge_calls: 0
                },
                false
            ));
        })
    });
}

/// Replicas that write to something which takes part in their step, while the step is given up.
/// What `Strategy::join_step` and `Strategy::roll_back` do: who sees that it takes part may write,
/// and then the outcome knows of it.
#[test]
fn who_writes_is_known_to_the_outcome() {
    struct Shared {
        /// Whether the step is open, and whether its outcome knows the participant.
        transaction: Mutex<(bool, bool)>,
        takes_part: AtomicBool,
        wrote: AtomicUsize,
        known: AtomicBool,
    }
    explore(2, || {
        let shared = Arc::new(Shared {
            transaction: Mutex::new((true, false)),
            takes_part: AtomicBool::new(false),
            wrote: AtomicUsize::new(0),
            known: AtomicBool::new(false),
        });
        let replica = || -> Body {
            let shared = Arc::clone(&shared);
            Box::new(move || {
                if !shared.takes_part.load(Ordering::Acquire) {
                    let mut transaction = shared.transaction.lock();
                    if !transaction.0 {
                        return;
                    }
                    shared.takes_part.store(true, Ordering::Release);
                    transaction.1 = true;
                }
                shared.wrote.fetch_add(1, Ordering::AcqRel);
                // Whatever the outcome was meanwhile, it knows, or will know.
                let transaction = shared.transaction.lock();
                assert!(transaction.1 || shared.known.load(Ordering::Relaxed));
            })
        };
        let outcome = {
            let shared = Arc::clone(&shared);
            Box::new(move || {
                let mut transaction = shared.transaction.lock();
                shared.known.store(transaction.1, Ordering::Relaxed);
                *transaction = (false, false);
            })
        };
        vec![replica(), replica(), outcome]
    });
}
