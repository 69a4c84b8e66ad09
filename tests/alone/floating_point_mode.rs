//! Denormal numbers count in central work, whatever the calling thread does with them.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use umbo_core::executor::floating_point::in_library;
use umbo_core::executor::wait::{Signal, Spin};
use umbo_core::executor::workers;

/// Flush results that are denormal to zero, and take such operands for zero.
const FLUSH: u32 = 0x8040;

fn mode() -> u32 {
    let mut mode = 0u32;
    // SAFETY: every x86-64 processor has the register, and it is stored to a variable.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut mode) };
    mode
}

fn set_mode(mode: u32) {
    // SAFETY: the values are those of modes that the processor has, and what runs in them here is
    // compared as integers.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const mode) };
}

/// The bits of half of the smallest normal number.
fn half_of_the_smallest() -> u32 {
    (black_box(f32::MIN_POSITIVE) * black_box(0.5)).to_bits()
}

/// How many workers there were, and on how many of them a denormal number came out as one.
fn work() -> [u32; 2] {
    let [all, kept] = [const { AtomicUsize::new(0) }; 2];
    workers::for_each_byte_range(usize::MAX, 4 << 20, &|worker, _| {
        all.fetch_or(1 << worker, Ordering::Relaxed);
        kept.fetch_or(
            usize::from(half_of_the_smallest() == 1 << 22) << worker,
            Ordering::Relaxed,
        );
    });
    [all, kept].map(|workers| workers.into_inner().count_ones())
}

#[test]
fn denormal_numbers_count_on_every_thread() {
    let true = crate::is_alone(denormal_numbers_count_on_every_thread) else {
        return;
    };
    let before = mode();
    workers::fix_costs(Some(workers::Costs::NONE));
    // Every worker takes part.
    workers::set_stealing(false);
    for flushes_first in [false, true] {
        // Threads that are made now inherit the mode.
        set_mode(before | if flushes_first { FLUSH } else { 0 });
        for workers in [1, if flushes_first { 4 } else { 2 }] {
            workers::set_count(workers).unwrap();
            for mode_of_caller in [before, before | FLUSH] {
                set_mode(mode_of_caller);
                assert_eq!(half_of_the_smallest() == 0, mode_of_caller != before);
                assert_eq!(in_library(work), [workers as u32; 2]);
                assert_eq!(mode() & FLUSH, mode_of_caller & FLUSH);
            }
            set_mode(before | if flushes_first { FLUSH } else { 0 });
        }
    }
    set_mode(before);
}

/// How often work is shared until the thread that helps takes part. On a busy machine it may not
/// run.
const MOST: usize = 1_000_000;

#[test]
fn denormal_numbers_count_on_a_thread_that_helps() {
    let true = crate::is_alone(denormal_numbers_count_on_a_thread_that_helps) else {
        return;
    };
    let before = mode();
    workers::set_count(2).unwrap();
    // Nobody is woken, so only a thread that spins takes part.
    let never = Duration::from_secs(3600);
    workers::fix_costs(Some(workers::Costs {
        latency: never,
        wake: never,
    }));
    work();
    while workers::parked() != Some(1) {
        thread::yield_now();
    }
    let stop = AtomicBool::new(false);
    let shared = thread::scope(|scope| {
        scope.spawn(|| {
            set_mode(before | FLUSH);
            in_library(|| {
                let _helping = workers::Helping::begin(1);
                let signal = Signal::new();
                // With this deadline it spins anew in place of parking.
                let past = Some(Instant::now());
                while !signal.wait_until(Spin::HELPING, past, || stop.load(Ordering::Relaxed)) {}
            });
            assert_eq!(mode() & FLUSH, FLUSH);
        });
        let works = (0..MOST).map(|_| {
            thread::yield_now();
            in_library(work)
        });
        let shared = { works }.find(|[all, kept]| *all > 1 || kept != all);
        stop.store(true, Ordering::Relaxed);
        shared
    });
    assert_eq!(shared, Some([2; 2]));
}
