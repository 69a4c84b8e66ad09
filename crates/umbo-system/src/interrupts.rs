//! The user's wish that the process ends: Ctrl-C.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::platform::interrupts as system;

/// How many interrupts have come while somebody watched.
pub(crate) static INTERRUPTS: AtomicU64 = AtomicU64::new(0);

/// As long as one exists, an interrupt (Ctrl-C, SIGINT) does not end the process, and is only
/// noted. A second one ends it, as by default. When the last one is dropped, the program's own
/// treatment is back.
#[derive(Debug)]
pub struct InterruptWatch {
    /// The interrupts before it began.
    before: u64,
}

impl InterruptWatch {
    /// Begins to watch.
    pub fn begin() -> io::Result<InterruptWatch> {
        system::begin()?;
        Ok(InterruptWatch {
            before: INTERRUPTS.load(Ordering::Relaxed),
        })
    }

    /// Whether an interrupt has come since this began.
    pub fn has_come(&self) -> bool {
        INTERRUPTS.load(Ordering::Relaxed) != self.before
    }
}

impl Drop for InterruptWatch {
    fn drop(&mut self) {
        system::end();
    }
}
