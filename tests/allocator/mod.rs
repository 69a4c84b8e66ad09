//! What the library's allocator is asked for: counts of each thread and of the process, and requests
//! that are refused. Counting begins with the first call of any function here.

#![allow(dead_code, reason = "each test needs some of it")]

use std::alloc::Layout;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Smaller allocations are never refused: they are boxes and texts, which no test that refuses
/// means. Memory whose size a caller decides is larger in these tests.
const SMALLEST_REFUSED: usize = 300;

static OF_PROCESS: AtomicUsize = AtomicUsize::new(0);
static OF_LATER_THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OF_THREAD: Cell<usize> = const { Cell::new(0) };
    /// Whether this is the process's first thread; 0 until it is known, 1 for yes.
    static FIRST: Cell<u8> = const { Cell::new(0) };
    /// How many more allocations that may be refused succeed before one is.
    static UNTIL_REFUSAL: Cell<usize> = const { Cell::new(usize::MAX) };
}

fn is_first_thread() -> bool {
    if FIRST.get() == 0 {
        // SAFETY: both only ask the system for a number.
        let first = unsafe { libc::gettid() == libc::getpid() };
        FIRST.set(if first { 1 } else { 2 });
    }
    FIRST.get() == 1
}

/// Whether a request is to be served.
fn seen(layout: Layout) -> bool {
    OF_THREAD.set(OF_THREAD.get() + 1);
    OF_PROCESS.fetch_add(1, Ordering::Relaxed);
    if !is_first_thread() {
        OF_LATER_THREADS.fetch_add(1, Ordering::Relaxed);
    }
    if layout.size() < SMALLEST_REFUSED {
        return true;
    }
    let left = UNTIL_REFUSAL.get();
    if left < usize::MAX {
        // After the refusal there is no other one.
        UNTIL_REFUSAL.set(left.wrapping_sub(1));
    }
    left > 0
}

/// How often this thread has allocated.
pub fn of_this_thread() -> usize {
    umbo::memory::observe(seen);
    OF_THREAD.get()
}

/// How often all threads have.
pub fn of_all_threads() -> usize {
    umbo::memory::observe(seen);
    OF_PROCESS.load(Ordering::SeqCst)
}

/// How often all threads have but for the process's first, which is the test harness's.
pub fn of_later_threads() -> usize {
    umbo::memory::observe(seen);
    OF_LATER_THREADS.load(Ordering::SeqCst)
}

/// Runs `work` and refuses its `number`-th allocation, counted from 0, of those that may be.
/// Returns also how many more would have had to come; `usize::MAX` if it was refused.
pub fn refusing<T>(number: usize, work: impl FnOnce() -> T) -> (T, usize) {
    umbo::memory::observe(seen);
    UNTIL_REFUSAL.set(number);
    let result = work();
    (result, UNTIL_REFUSAL.replace(usize::MAX))
}
