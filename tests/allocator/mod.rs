//! The allocator of a test binary: it counts requests, of each thread and of the process, and
//! refuses some.

#![allow(dead_code, reason = "each test needs some of it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Requests for less are never refused: they are the library's own small records. What has a size
/// that the caller decides is at least as large in tests that refuse.
pub const LARGE: usize = 4096;

static OF_PROCESS: AtomicUsize = AtomicUsize::new(0);

/// How many more large requests of the process are served; `usize::MAX` for all.
static LEFT: AtomicUsize = AtomicUsize::new(usize::MAX);

thread_local! {
    static OF_THREAD: Cell<usize> = const { Cell::new(0) };
    /// How many more large requests of this thread succeed before one is refused.
    static UNTIL_REFUSAL: Cell<usize> = const { Cell::new(usize::MAX) };
}

struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

// SAFETY: what is served is the system's, with the same layouts.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match is_served(layout.size()) {
            // SAFETY: the caller's promise.
            true => unsafe { System.alloc(layout) },
            false => std::ptr::null_mut(),
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match is_served(layout.size()) {
            // SAFETY: the caller's promise.
            true => unsafe { System.alloc_zeroed(layout) },
            false => std::ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match is_served(size) {
            // SAFETY: the caller's promise.
            true => unsafe { System.realloc(memory, layout, size) },
            false => std::ptr::null_mut(),
        }
    }
}

/// Counts a request. Whether it is to be served.
fn is_served(bytes: usize) -> bool {
    OF_THREAD.set(OF_THREAD.get() + 1);
    if !is_of_the_harness() {
        OF_PROCESS.fetch_add(1, Ordering::Relaxed);
    }
    bytes < LARGE || (is_served_to_thread() && is_served_to_process())
}

/// Whether this is the process's first thread. The harness starts a thread for the test and waits
/// on this one, with memory of its own, which it requests at a time of its own choice.
fn is_of_the_harness() -> bool {
    thread_local!(static IS_FIRST: Cell<Option<bool>> = const { Cell::new(None) });
    IS_FIRST.get().unwrap_or_else(|| {
        #[cfg(target_os = "linux")]
        // SAFETY: neither function takes anything.
        let is_first = unsafe { libc::gettid() == libc::getpid() };
        #[cfg(not(target_os = "linux"))]
        // SAFETY: as above.
        let is_first = unsafe { libc::pthread_main_np() } == 1;
        IS_FIRST.set(Some(is_first));
        is_first
    })
}

fn is_served_to_thread() -> bool {
    let left = UNTIL_REFUSAL.get();
    if left < usize::MAX {
        // After the refusal there is no other one.
        UNTIL_REFUSAL.set(left.wrapping_sub(1));
    }
    left > 0
}

fn is_served_to_process() -> bool {
    let counted = |left: usize| (left != usize::MAX).then(|| left.saturating_sub(1));
    let before = LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, counted);
    before.unwrap_or_else(|all| all) > 0
}

/// How often this thread has allocated.
pub fn of_this_thread() -> usize {
    OF_THREAD.get()
}

/// How often all threads have but the harness's.
pub fn of_all_threads() -> usize {
    assert!(
        !is_of_the_harness(),
        "a test that counts has a thread of its own"
    );
    OF_PROCESS.load(Ordering::SeqCst)
}

/// Runs `work` and refuses the `number`-th large request of this thread, counted from 0.
/// Returns also how many more would have had to come; `usize::MAX` if it was refused.
pub fn refusing<T>(number: usize, work: impl FnOnce() -> T) -> (T, usize) {
    UNTIL_REFUSAL.set(number);
    let result = work();
    (result, UNTIL_REFUSAL.replace(usize::MAX))
}

/// Runs a part of such work to which nothing is refused.
pub fn never_refusing<T>(work: impl FnOnce() -> T) -> T {
    let left = UNTIL_REFUSAL.replace(usize::MAX);
    let result = work();
    UNTIL_REFUSAL.set(left);
    result
}

/// Has so many more large requests of all threads be served.
pub fn serve(requests: usize) {
    LEFT.store(requests, Ordering::Relaxed);
}

/// Whether large requests are refused sooner or later.
pub fn is_short() -> bool {
    LEFT.load(Ordering::Relaxed) != usize::MAX
}
