//! Tests in the child of a fork.

use std::time::{Duration, Instant};

/// Whether `body` says yes in a child of this process. A child that hangs is ended and says no.
pub fn in_child(body: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs the body, which uses the library alone, and leaves without the harness.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no process");
    if child == 0 {
        let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(false);
        // SAFETY: ends the child.
        unsafe { libc::_exit(if said { 42 } else { 1 }) };
    }
    let begun = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: the child is ours, and the output a variable.
        if unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == child {
            return libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 42;
        }
        if begun.elapsed() > Duration::from_secs(120) {
            // SAFETY: the child is ours.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, &raw mut status, 0);
            }
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
