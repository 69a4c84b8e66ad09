//! Detects whether this process is the child of one that has used the library. In such a child the
//! library does not work.
//!
//! Only the thread that forked exists in such a child. Work of other threads is never done there,
//! and a lock that one of them held is never released. So the C layer calls [`check`] first, and no
//! other code handles forks.

use std::sync::atomic::{AtomicBool, Ordering};

use umbo_base::error::{Error, Result};
use umbo_base::observe::trace;
use umbo_system::process;

/// Whether forks are detected.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// Whether this process was forked from one that had used the library.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Notes that the library is in use: something was made that a child could not use.
#[inline]
pub fn record_use() {
    if !WATCHED.load(Ordering::Relaxed) {
        watch();
    }
}

#[cold]
fn watch() {
    extern "C" fn in_child() {
        IS_CHILD.store(true, Ordering::Relaxed);
        // Without this, the child would continue to write the trace of its parent.
        trace::abandon();
    }
    // Several threads may come here at once; a handler that is registered several times does the
    // same each time.
    process::in_forked_child(in_child);
    WATCHED.store(true, Ordering::Relaxed);
}

/// Whether this process is the child of one that had used the library.
#[inline]
pub fn is_child() -> bool {
    IS_CHILD.load(Ordering::Relaxed)
}

/// Returns FAILED_PRECONDITION in the child of a process that had used the library. It costs one
/// load.
#[inline]
pub fn check() -> Result<()> {
    if is_child() { Err(refusal()) } else { Ok(()) }
}

#[cold]
fn refusal() -> Error {
    Error::precondition(
        "this process was forked from one that had used the library, and nothing of it works \
         here; use exec, or fork before the first use",
    )
}
