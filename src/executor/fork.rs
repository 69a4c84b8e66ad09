//! Whether this process is the child of one that has used the library, where nothing of it works.
//!
//! Only the thread that forked exists in such a child. What other threads were to do is never done there,
//! and a lock that one of them held is never freed. So the border asks [`check`] before all else, and
//! nothing behind it knows of forks.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};
use crate::observe::trace;

/// Whether forks are noticed.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// Whether this process was forked from one that had used the library.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// The library is in use from now on: something was made that a child could not use.
#[inline]
pub fn note_use() {
    if !WATCHED.load(Ordering::Relaxed) {
        watch();
    }
}

#[cold]
fn watch() {
    extern "C" fn in_child() {
        IS_CHILD.store(true, Ordering::Relaxed);
        // Else the child would write the rest of its parent's trace, too.
        trace::abandon();
    }
    // SAFETY: the handler only stores to memory, which it may do at any moment. Several threads may come
    // here at once; the handler that is noted several times does the same each time. Without memory to note
    // it forks stay unnoticed.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    WATCHED.store(true, Ordering::Relaxed);
}

/// Whether this is the child of a process that had used the library.
#[inline]
pub fn is_child() -> bool {
    IS_CHILD.load(Ordering::Relaxed)
}

/// FAILED_PRECONDITION in the child of a process that had used the library. Costs one load.
#[inline]
pub fn check() -> Result<()> {
    if is_child() { Err(refusal()) } else { Ok(()) }
}

#[cold]
fn refusal() -> Error {
    Error::precondition(
        "this process was forked from one that had used the library, and nothing of it works here; use \
         exec, or fork before the first use",
    )
}
