//! The system's allocator, which counts each thread's allocations and can refuse one of them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;

struct Watched;

/// Smaller allocations are never refused: they are boxes and texts, whose failure ends any Rust
/// program. Memory whose size a caller decides is larger in these tests.
const SMALLEST_REFUSED: usize = 300;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    /// How many more allocations that may be refused succeed before one is.
    static UNTIL_REFUSAL: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// How often this thread has allocated.
pub fn allocations() -> usize {
    ALLOCATIONS.get()
}

/// Runs `work` and refuses its `number`-th allocation, counted from 0, of those that may be.
/// Returns also how many more would have had to come; `usize::MAX` if it was refused.
pub fn refusing<T>(number: usize, work: impl FnOnce() -> T) -> (T, usize) {
    UNTIL_REFUSAL.set(number);
    let result = work();
    (result, UNTIL_REFUSAL.replace(usize::MAX))
}

fn is_refused(layout: Layout) -> bool {
    // A thread that is ending may allocate when its counters are gone.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
    if layout.size() < SMALLEST_REFUSED {
        return false;
    }
    let left = UNTIL_REFUSAL.try_with(Cell::get).unwrap_or(usize::MAX);
    if left < usize::MAX {
        // After the refusal there is no other one.
        let _ = UNTIL_REFUSAL.try_with(|until| until.set(left.wrapping_sub(1)));
    }
    left == 0
}

// SAFETY: what is not refused is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_refused(layout) {
            return ptr::null_mut();
        }
        // SAFETY: the caller's promises are the system allocator's conditions.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_refused(layout) {
            return ptr::null_mut();
        }
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above; `memory` came from `alloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;
