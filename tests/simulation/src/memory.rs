//! The allocator of the simulator, which counts the bytes that each thread has. A rank is a thread,
//! so these are the rank's.

#![expect(unsafe_code, reason = "an allocator is asked for memory by layouts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
    /// Whether the simulator itself is at work, whose memory does not count.
    static IS_SIMULATOR: Cell<bool> = const { Cell::new(false) };
}

struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

// SAFETY: what is served is the system's, with the same layouts.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(memory, layout, size) }
    }
}

fn count(bytes: isize) {
    if !IS_SIMULATOR.get() {
        let held = HELD.get() + bytes;
        HELD.set(held);
        MOST.set(MOST.get().max(held));
    }
}

/// Runs a part of the simulator, whose memory is not the rank's.
pub fn uncounted<T>(work: impl FnOnce() -> T) -> T {
    let before = IS_SIMULATOR.replace(true);
    let result = work();
    IS_SIMULATOR.set(before);
    result
}

/// The most bytes that this thread has had at a time.
pub fn most() -> usize {
    usize::try_from(MOST.get()).unwrap_or(0)
}
