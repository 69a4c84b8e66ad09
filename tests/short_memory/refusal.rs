//! Requests for memory that are refused, of all threads of the process.

use std::alloc::Layout;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Requests for less are not refused.
static SMALLEST: AtomicUsize = AtomicUsize::new(0);

/// How many more requests are served; `usize::MAX` for all.
static LEFT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Whether a test runs on the first thread of the process, which else is the harness's: what that asks for
/// is none of the library's.
static IS_ON_FIRST: AtomicBool = AtomicBool::new(false);

fn is_first_thread() -> bool {
    // SAFETY: both only ask the system for a number.
    unsafe { libc::gettid() == libc::getpid() }
}

fn seen(layout: Layout) -> bool {
    let is_short = LEFT.load(Ordering::Relaxed) != usize::MAX;
    if is_short && !IS_ON_FIRST.load(Ordering::Relaxed) && is_first_thread() {
        return true;
    }
    let counted = |left: usize| (left != usize::MAX).then(|| left.saturating_sub(1));
    let before = match layout.size() < SMALLEST.load(Ordering::Relaxed) {
        true => LEFT.load(Ordering::Relaxed).max(1),
        false => LEFT
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, counted)
            .unwrap_or_else(|all| all),
    };
    before > 0
}

/// Has so many more requests be served.
pub fn serve(requests: usize) {
    LEFT.store(requests, Ordering::Relaxed);
}

/// Whether some requests are refused.
pub fn is_short() -> bool {
    LEFT.load(Ordering::Relaxed) != usize::MAX
}

/// One test after the other: they share their memory, of which requests for less than `smallest` bytes are
/// always served.
pub fn alone(smallest: usize) -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    umbo::memory::observe(seen);
    IS_ON_FIRST.store(is_first_thread(), Ordering::Relaxed);
    SMALLEST.store(smallest, Ordering::Relaxed);
    serve(usize::MAX);
    turn
}
