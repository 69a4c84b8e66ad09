//! Threads, as the C library knows them.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::os::unix::thread::{JoinHandleExt, RawPthread};
use std::ptr;
use std::thread::JoinHandle;

/// The system's name of the calling thread, of at most 15 bytes on Linux and 63 on macOS.
pub fn name() -> String {
    let mut name = [0u8; 64];
    // SAFETY: a thread reads its own name, and the buffer is large enough for the longest name.
    unsafe { libc::pthread_getname_np(libc::pthread_self(), name.as_mut_ptr().cast(), name.len()) };
    let end = name
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

/// Whether this is the calling thread. It uses no data of the thread, so that a thread that has all
/// but ended may ask, too.
pub fn is_current<T>(thread: &JoinHandle<T>) -> bool {
    // SAFETY: the call only returns the thread's own id.
    let current: RawPthread = unsafe { libc::pthread_self() } as _;
    thread.as_pthread_t() == current
}

/// The largest size in bytes of the stack of the process's first thread. None if there is no limit,
/// or the system does not report it.
pub fn stack_limit() -> Option<usize> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: there is memory for the limits.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limit) } != 0;
    if failed || limit.rlim_cur == libc::RLIM_INFINITY {
        return None;
    }
    Some(usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX))
}

/// Blocks signals on the calling thread, and so on the threads that it makes, until this is
/// dropped there. Signals that a thread causes itself, and the one that profilers use, stay open.
pub struct BlockedSignals {
    before: libc::sigset_t,
}

impl BlockedSignals {
    /// Blocks the signals.
    #[expect(
        clippy::new_without_default,
        reason = "it changes the thread, and is not a value"
    )]
    pub fn new() -> BlockedSignals {
        /// The signals that a thread causes itself, and the one that profilers use.
        const OPEN: [c_int; 8] = [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGFPE,
            libc::SIGILL,
            libc::SIGTRAP,
            libc::SIGSYS,
            libc::SIGABRT,
            libc::SIGPROF,
        ];
        let mut blocked = MaybeUninit::uninit();
        let mut before = MaybeUninit::zeroed();
        // SAFETY: the sets have memory, are initialised by the first call or are all zeros, and
        // live during the calls; all signals named exist.
        let before = unsafe {
            libc::sigfillset(blocked.as_mut_ptr());
            for signal in OPEN {
                libc::sigdelset(blocked.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, blocked.as_ptr(), before.as_mut_ptr());
            before.assume_init()
        };
        BlockedSignals { before }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the set is the one that this thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, ptr::null_mut()) };
    }
}
