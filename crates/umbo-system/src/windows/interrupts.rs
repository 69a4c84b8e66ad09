//! Ctrl-C at a console.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use windows_sys::Win32::Foundation::{FALSE, TRUE};
use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, CTRL_C_EVENT, SetConsoleCtrlHandler};
use windows_sys::core::BOOL;

use crate::interrupts::INTERRUPTS;

/// The number of watches.
static WATCHES: Mutex<usize> = Mutex::new(0);

/// Whether an interrupt was noted since the first watch began.
static NOTED: AtomicBool = AtomicBool::new(false);

/// Notes the interrupt, on a thread that the system makes for it. The program's own treatment, or
/// the end of the process, follows for a second one, also if the step does not end.
unsafe extern "system" fn note(event: u32) -> BOOL {
    if !matches!(event, CTRL_C_EVENT | CTRL_BREAK_EVENT) || NOTED.swap(true, Ordering::Relaxed) {
        return FALSE;
    }
    INTERRUPTS.fetch_add(1, Ordering::Relaxed);
    TRUE
}

/// Begins to watch: the first watch comes before what the program does about interrupts.
pub fn begin() -> io::Result<()> {
    let mut watches = WATCHES.lock().unwrap_or_else(PoisonError::into_inner);
    if *watches == 0 {
        NOTED.store(false, Ordering::Relaxed);
        // SAFETY: the function may be called on any thread at any time.
        if unsafe { SetConsoleCtrlHandler(Some(note), TRUE) } == FALSE {
            return Err(io::Error::last_os_error());
        }
    }
    *watches += 1;
    Ok(())
}

/// Ends a watch. With the last one, the program's own treatment is back.
pub fn end() {
    let mut watches = WATCHES.lock().unwrap_or_else(PoisonError::into_inner);
    *watches -= 1;
    if *watches == 0 {
        // SAFETY: the function is the one that was added.
        unsafe { SetConsoleCtrlHandler(Some(note), FALSE) };
    }
}
