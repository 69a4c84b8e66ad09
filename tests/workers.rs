//! What the worker set promises about a whole process: no allocation in the steady state. A test binary of its own, for its allocator and its threads.

mod allocator;

use std::sync::atomic::{AtomicUsize, Ordering};

use umbo::executor::workers;

/// Enters the set with work for four workers. Returns how many took part.
fn enter() -> usize {
    let calls = AtomicUsize::new(0);
    workers::for_each_range(4 << 10, 1 << 10, &|_| {
        calls.fetch_add(1, Ordering::Relaxed);
    });
    calls.into_inner()
}

#[test]
fn entering_allocates_nothing() {
    workers::set_count(4).unwrap();
    // So that they take part whether they have parked or not.
    workers::fix_costs(Some(workers::Costs::NONE));
    // Threads are made, and set themselves up.
    for _ in 0..100 {
        assert_eq!(enter(), 4);
    }
    let before = allocator::of_all_threads();
    let took_part: usize = (0..1000).map(|_| enter()).sum();
    assert_eq!(took_part, 4000);
    assert_eq!(allocator::of_all_threads(), before);
}
