//! The signal of Ctrl-C.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use crate::interrupts::INTERRUPTS;

/// The number of watches, and what the program does with the signal when there is none.
static WATCHES: Mutex<(usize, Option<libc::sigaction>)> = Mutex::new((0, None));

/// Notes the signal. It may interrupt any function, so it does nothing else.
extern "C" fn note(_signal: libc::c_int) {
    INTERRUPTS.fetch_add(1, Ordering::Relaxed);
}

/// Begins to watch: the first watch replaces what the program does with the signal.
pub fn begin() -> io::Result<()> {
    let mut watches = WATCHES.lock().unwrap_or_else(PoisonError::into_inner);
    if watches.0 == 0 {
        let mut before = MaybeUninit::zeroed();
        // SAFETY: all zeros is a value of the struct, of numbers and an optional function.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_sigaction = note as *const () as usize;
        // A second signal ends the process, also if the step does not end. Calls of the system
        // that the signal interrupts are made again.
        action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
        // SAFETY: both structs live during the call, and the function may interrupt any other.
        if unsafe { libc::sigaction(libc::SIGINT, &raw const action, before.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has filled it.
        watches.1 = Some(unsafe { before.assume_init() });
    }
    watches.0 += 1;
    Ok(())
}

/// Ends a watch. With the last one, the program's own treatment of the signal is back.
pub fn end() {
    let mut watches = WATCHES.lock().unwrap_or_else(PoisonError::into_inner);
    watches.0 -= 1;
    if watches.0 == 0
        && let Some(before) = watches.1.take()
    {
        // SAFETY: the struct is what the system gave, and lives during the call.
        unsafe { libc::sigaction(libc::SIGINT, &raw const before, ptr::null_mut()) };
    }
}
