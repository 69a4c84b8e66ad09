//! What the worker set promises: every element once, failures come back, and a steady state
//! allocates nothing. A worker that is slow is helped, and runs on a processor other than the
//! caller.

use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use umbo_core::executor::affinity::{bind_current_thread, current_processor, process_processors};
use umbo_core::executor::thread::current_name;
use umbo_core::executor::workers::*;

const LARGE: usize = 1 << 20;

fn sum_of_ranges(elements: usize) -> usize {
    let sum = AtomicUsize::new(0);
    for_each_range(elements, LARGE, &|range| {
        assert!(range.start.is_multiple_of(64));
        sum.fetch_add(range.sum(), Ordering::Relaxed);
    });
    sum.into_inner()
}

#[test]
fn ranges_cover_and_failures_come_back() {
    let true = crate::is_alone(ranges_cover_and_failures_come_back) else {
        return;
    };
    fix_costs(Some(Costs::NONE));
    assert!(
        [0, MAX_COUNT + 1]
            .into_iter()
            .all(|count| set_count(count).is_err())
    );
    for workers in [1, 2, 3, 8] {
        set_count(workers).unwrap();
        assert_eq!(count(), workers);
        for elements in [0, 1, 63, 64, 65, 1000, 4096] {
            assert_eq!(sum_of_ranges(elements), (0..elements).sum::<usize>());
        }
    }
    set_stealing(false);
    for_each_task(8, LARGE, &|range| {
        assert!(range == (0..1) || current_name() == format!("umbo-worker-{}", range.start));
        // Entering again is done alone, without waiting.
        assert_eq!(sum_of_ranges(1000), 499_500);
    });
    set_stealing(true);
    for failing in [0, 5] {
        let payload = panic::catch_unwind(|| {
            for_each_task(8, LARGE, &|range| {
                assert!(!range.contains(&failing), "share {failing}")
            });
        })
        .unwrap_err();
        assert_eq!(
            payload.downcast_ref::<String>(),
            Some(&format!("share {failing}"))
        );
    }
    // Several threads at once: whoever comes second works alone.
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..200).for_each(|_| assert_eq!(sum_of_ranges(1000), 499_500)));
        }
    });
}

/// How many of four workers take part.
fn enter() -> usize {
    let workers = AtomicUsize::new(0);
    for_each_byte_range(4, 4 << 20, &|worker, _| {
        workers.fetch_or(1 << worker, Ordering::Relaxed);
    });
    workers.into_inner().count_ones() as usize
}

#[test]
fn entering_allocates_nothing() {
    let true = crate::is_alone(entering_allocates_nothing) else {
        return;
    };
    set_count(4).unwrap();
    fix_costs(Some(Costs::NONE));
    // All four take part in each operation.
    set_stealing(false);
    // Threads are made, and set themselves up.
    (0..100).for_each(|_| assert_eq!(enter(), 4));
    let before = crate::allocator::of_all_threads();
    assert_eq!((0..1000).map(|_| enter()).sum::<usize>(), 4000);
    assert_eq!(crate::allocator::of_all_threads(), before);
}

#[test]
fn slow_workers_are_helped() {
    let true = crate::is_alone(slow_workers_are_helped) else {
        return;
    };
    set_count(2).unwrap();
    let processor = current_processor();
    let all = process_processors().count();
    bind_current_thread(&processor.into_iter().collect()).unwrap();
    let ranges = [const { Mutex::new(Vec::new()) }; 2];
    let begun = Instant::now();
    for_each_byte_range(2, 1 << 30, &|worker, range| {
        assert!(worker == 0 || all == 1 || current_processor() != processor);
        ranges[worker].lock().push((range.start, range.end));
        while ranges[1].lock().is_empty() && begun.elapsed() < Duration::from_secs(10) {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(50 * worker as u64));
    });
    let [own_ranges, other_ranges] = ranges.map(Mutex::into_inner);
    assert!(own_ranges.len() > 900 && !other_ranges.is_empty());
    let mut all = [vec![(0, 0)], own_ranges, other_ranges].concat();
    all.sort_unstable();
    assert!(all.windows(2).all(|pair| pair[0].1 == pair[1].0) && all.last().unwrap().1 == 1 << 30);
}
