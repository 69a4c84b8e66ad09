//! A thread that waits for a step helps with central work while it spins: each element is done
//! once, by whichever thread, failures come back, and a helper leaves when it has a step.

use std::panic;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use umbo_core::executor::affinity::process_processors;
use umbo_core::executor::thread::current_name;
use umbo_core::executor::wait::{Signal, Spin};
use umbo_core::executor::workers::*;
use umbo_core::strategy::{Options, Strategy};

const ELEMENTS: usize = 1 << 16;
/// The operation moves 4 MiB, which is 32 chunks for two threads.
const BYTES: usize = 64;
/// How often an operation is repeated until a helper takes part. On a busy machine it may not run.
const MOST: usize = 1_000_000;

/// Calls `operation` with the id of a thread that spins and helps, until it returns true.
fn until_helped(operation: impl Fn(ThreadId) -> bool) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let helper = scope.spawn(|| {
            let _helping = Helping::begin(1);
            let signal = Signal::new();
            // With this deadline it spins anew in place of parking.
            let past = Some(Instant::now());
            while !signal.wait_until(Spin::HELPING, past, || stop.load(Ordering::Relaxed)) {}
        });
        let id = helper.thread().id();
        let helped = (0..MOST).any(|_| {
            thread::yield_now();
            operation(id)
        });
        stop.store(true, Ordering::Relaxed);
        assert!(helped, "the thread that spins has never helped");
    });
}

/// Nobody is woken, so only threads that spin take part.
fn wake_nobody() {
    set_count(2).unwrap();
    fix_costs(Some(Costs {
        latency: Duration::from_secs(3600),
        wake: Duration::from_secs(3600),
    }));
}

#[test]
fn elements_are_done_once_whoever_does_them() {
    let true = crate::is_alone(elements_are_done_once_whoever_does_them) else {
        return;
    };
    wake_nobody();
    for_each_range(ELEMENTS, BYTES, &|_| {});
    while parked() != Some(1) {
        thread::yield_now();
    }
    let alone = entries();
    for_each_range(ELEMENTS, BYTES, &|_| {});
    assert_eq!(entries(), alone, "nobody helps");
    until_helped(|helper| {
        let done: Vec<AtomicU8> = (0..ELEMENTS).map(|_| AtomicU8::new(0)).collect();
        let helped = AtomicUsize::new(0);
        for_each_range(ELEMENTS, BYTES, &|range| {
            let is_helper = thread::current().id() == helper;
            helped.fetch_add(usize::from(is_helper), Ordering::Relaxed);
            for element in &done[range] {
                element.fetch_add(1, Ordering::Relaxed);
            }
        });
        assert!(done.iter().all(|done| done.load(Ordering::Relaxed) == 1));
        helped.into_inner() > 0
    });
    assert!(entries() > alone);
}

#[test]
fn failures_of_a_helper_come_back() {
    let true = crate::is_alone(failures_of_a_helper_come_back) else {
        return;
    };
    wake_nobody();
    until_helped(|helper| {
        let operation = || {
            for_each_range(ELEMENTS, BYTES, &|_| {
                assert!(thread::current().id() != helper, "the helper failed");
                thread::yield_now();
            });
        };
        let Err(payload) = panic::catch_unwind(operation) else {
            return false;
        };
        assert_eq!(payload.downcast_ref(), Some(&"the helper failed"));
        true
    });
}

/// The threads of replicas help after a step.
#[test]
fn replicas_help_between_steps() {
    let true = crate::is_alone(replicas_help_between_steps) else {
        return;
    };
    if process_processors().count() < 2 {
        // A replica that needs the caller's processor does not spin.
        return;
    }
    wake_nobody();
    let options = Options {
        cpu_replicas: 2,
        ..Options::default()
    };
    let strategy = Strategy::new(&options).unwrap();
    let helped = (0..MOST).any(|_| {
        strategy.run(&|_| Ok(None), None).unwrap();
        let helped = AtomicBool::new(false);
        for_each_range(ELEMENTS, BYTES, &|_| {
            if current_name() == "umbo-replica-1" {
                helped.store(true, Ordering::Relaxed);
            }
            thread::yield_now();
        });
        helped.into_inner()
    });
    assert!(helped, "the second replica's thread has never helped");
}

/// A helper that has something else to do takes no further chunk; the caller does the rest.
#[test]
fn a_helper_leaves_for_its_step() {
    let true = crate::is_alone(a_helper_leaves_for_its_step) else {
        return;
    };
    wake_nobody();
    let has_step = AtomicBool::new(false);
    let chunks = AtomicUsize::new(0);
    thread::scope(|scope| {
        let helper = scope.spawn(|| {
            let _helping = Helping::begin(1);
            let past = Some(Instant::now());
            let ready = || has_step.load(Ordering::Relaxed);
            while !Signal::new().wait_until(Spin::HELPING, past, ready) {}
        });
        let id = helper.thread().id();
        while chunks.load(Ordering::Relaxed) == 0 {
            let elements = AtomicUsize::new(0);
            for_each_range(ELEMENTS, BYTES, &|range| {
                if thread::current().id() == id {
                    chunks.fetch_add(1, Ordering::Relaxed);
                    has_step.store(true, Ordering::Relaxed);
                }
                elements.fetch_add(range.len(), Ordering::Relaxed);
            });
            assert_eq!(elements.into_inner(), ELEMENTS);
        }
    });
    assert_eq!(chunks.into_inner(), 1);
}
