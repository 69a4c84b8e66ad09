//! Steps that are cancelled.

use std::sync::Arc;

use super::cancellation::{Cancellation, Listener};
use super::crew::{Crew, Step};
use super::explore::{Body, explore, long};
use crate::sync::{AtomicBool, Ordering};
use crate::wait::Spin;

/// A step that is cancelled at some time: all of it is committed or one replica learns that it
/// was the last to come back; a record whose step came through serves the next one.
fn cancel(replicas: usize, merge_calls: usize) -> Vec<Body> {
    let crew = Crew::new(replicas);
    let mut threads = crew.threads(0..replicas, move |crew| {
        if crew.run(
            Step {
                number: 1,
                merge_calls,
            },
            false,
        ) {
            assert!(crew.run(
                Step {
                    number: 2,
                    merge_calls: 0
                },
                false
            ));
            assert!(!crew.rendezvous.is_abandoned());
            assert_eq!(crew.last(), 0);
        } else {
            crew.drained
                .wait_until(Spin::NEVER, None, || crew.last() == 1);
        }
    });
    threads.push(Box::new(move || {
        crew.cancelled.store(1, Ordering::Relaxed);
        crew.rendezvous.wake_coordinator();
    }));
    threads
}

/// The same with a step that its replicas have begun, and without another one: so much less to
/// order that two preemptions can be tried with two replicas.
fn cancel_begun(replicas: usize, merge_calls: usize) -> Vec<Body> {
    let crew = Crew::new(replicas);
    let step = Step {
        number: 1,
        merge_calls,
    };
    crew.rendezvous.open();
    let replica = |replica: usize| -> Body {
        let crew = Arc::clone(&crew);
        Box::new(move || crew.execute(replica, step, false))
    };
    let mut threads: Vec<Body> = (0..replicas).map(replica).collect();
    let caller = Arc::clone(&crew);
    threads.push(Box::new(move || {
        if caller.attend(step) {
            assert_eq!(caller.last(), 0);
        } else {
            caller
                .drained
                .wait_until(Spin::NEVER, None, || caller.last() == 1);
        }
    }));
    threads.push(Box::new(move || {
        crew.cancelled.store(1, Ordering::Relaxed);
        crew.rendezvous.wake_coordinator();
    }));
    threads
}

#[test]
fn a_step_is_committed_or_given_up_but_never_both() {
    explore(long(2), || cancel(1, 0));
    explore(1, || cancel(2, 0));
    explore(long(2), || cancel_begun(2, 0));
}

#[test]
fn a_cancelled_step_releases_replicas_that_wait() {
    explore(long(2), || cancel(1, 1));
    explore(1, || cancel(2, 1));
}

/// As `cancel_begun`, cancelled by a replica before it comes to the merge call or when it is back:
/// a thread less, so that two preemptions can be tried where replicas wait.
fn cancel_by_replica(before: bool) -> Vec<Body> {
    let crew = Crew::new(2);
    let step = Step {
        number: 1,
        merge_calls: 1,
    };
    crew.rendezvous.open();
    let first = Arc::clone(&crew);
    let second = Arc::clone(&crew);
    let caller = crew;
    let cancel = |crew: &Crew| {
        crew.cancelled.store(1, Ordering::Relaxed);
        crew.rendezvous.wake_coordinator();
    };
    vec![
        Box::new(move || first.execute(0, step, false)),
        Box::new(move || {
            if before {
                cancel(&second);
            }
            second.execute(1, step, false);
            if !before {
                cancel(&second);
            }
        }),
        Box::new(move || {
            if caller.attend(step) {
                assert_eq!(caller.last(), 0);
            } else {
                caller
                    .drained
                    .wait_until(Spin::NEVER, None, || caller.last() == 1);
            }
        }),
    ]
}

#[test]
fn replicas_that_wait_are_released_by_one_that_cancels() {
    explore(long(2), || cancel_by_replica(true));
    explore(long(2), || cancel_by_replica(false));
}

/// A token that is cancelled at any time reaches the step that listens, and not the next one, which
/// uses the same record.
#[test]
fn a_token_reaches_its_own_step_alone() {
    struct Record(AtomicBool);
    impl Listener for Record {
        fn wake(&self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    explore(3, || {
        let token = Cancellation::new();
        let cancels = token.clone();
        vec![
            Box::new(move || cancels.cancel()),
            Box::new(move || {
                let record = Arc::new(Record(AtomicBool::new(false)));
                let listening = token.listen(Arc::clone(&record) as _);
                if token.is_cancelled() {
                    drop(listening);
                    assert!(record.0.load(Ordering::Relaxed));
                } else {
                    drop(listening);
                }
                record.0.store(false, Ordering::Relaxed);
                loom::thread::yield_now();
                assert!(!record.0.load(Ordering::Relaxed));
            }),
        ]
    });
}
