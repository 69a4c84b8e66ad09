//! Messages for a pipe that nobody reads any more.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use umbo_core::observe::log::{self, Level};

/// A pipe: the end to read from, and the end to write to.
fn pipe() -> [OwnedFd; 2] {
    let mut ends = [0; 2];
    // SAFETY: there is room for two descriptors, which nobody else has.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        ends.map(|end| OwnedFd::from_raw_fd(end))
    }
}

/// Whether SIGPIPE is blocked on this thread, and whether it waits to be taken.
fn signal() -> [bool; 2] {
    let [mut blocked, mut pending] = [const { MaybeUninit::zeroed() }; 2];
    // SAFETY: the sets have memory and are initialised.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), blocked.as_mut_ptr());
        libc::sigpending(pending.as_mut_ptr());
        [blocked, pending].map(|set| libc::sigismember(set.as_ptr(), libc::SIGPIPE) == 1)
    }
}

/// Blocks the signal on this thread.
fn block() {
    let mut pipe = MaybeUninit::zeroed();
    // SAFETY: the set has memory and is initialised.
    unsafe {
        libc::sigaddset(pipe.as_mut_ptr(), libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, pipe.as_ptr(), ptr::null_mut());
    }
}

#[test]
fn broken_pipes_raise_no_signal() {
    let true = crate::is_alone(broken_pipes_raise_no_signal) else {
        return;
    };
    // SAFETY: the signal ends the process, as it does in C.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let [reader, writer] = pipe();
    drop(reader);
    // SAFETY: both descriptors are this process's.
    let stream = unsafe { libc::dup2(writer.as_raw_fd(), libc::STDERR_FILENO) };
    assert_eq!(stream, libc::STDERR_FILENO);
    log::log_anyway(Level::Warning, "nobody reads this");
    assert_eq!(signal(), [false, false]);
    // What the program has blocked stays so, and a signal of its own stays there.
    block();
    log::log_anyway(Level::Warning, "nor this");
    assert_eq!(signal(), [true, false]);
    // SAFETY: the signal is blocked on this thread, to which it goes.
    unsafe { libc::raise(libc::SIGPIPE) };
    log::log_anyway(Level::Warning, "nor this one");
    assert_eq!(signal(), [true, true]);
}
