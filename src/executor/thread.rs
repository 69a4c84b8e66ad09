//! How every thread of the library is started: by the standard library, and
//!
//! - with a stack of the size that [`ThreadOptions`] says;
//! - with all signals blocked but those that the thread causes itself, and the profiling one: the
//!   program's handlers run on the program's threads;
//! - without a binding to processors that the library has made for its starter.

use std::borrow::Cow;
use std::cell::Cell;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::os::unix::thread::JoinHandleExt;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::affinity::{self, CpuSet};
use super::fork;
use crate::error::{Error, Result};
pub use crate::observe::clock::thread_name as current_name;

/// The smallest stack that a thread gets which is to have the process's.
const LEAST_STACK_BYTES: usize = 2 << 20;

/// The largest stack that a thread gets which is to have the process's.
const MOST_STACK_BYTES: usize = 1 << 30;

/// The stack of threads where that of the process has no limit.
const USUAL_STACK_BYTES: usize = 8 << 20;

/// What a thread is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Runs the callbacks of one replica.
    Replica,
    /// Does a share of central work.
    Worker,
    /// Calls a dataset's functions, several at a time.
    Pool,
    /// Makes elements ahead of their consumer.
    Prefetch,
    /// Shares heavy computations that wait for nobody.
    Compute,
    /// Writes checkpoints while training goes on.
    Checkpoint,
}

/// How many threads of each purpose are alive.
static ALIVE: [AtomicUsize; 6] = [const { AtomicUsize::new(0) }; 6];

/// How many threads of this purpose are alive in this process.
pub fn alive(purpose: Purpose) -> usize {
    ALIVE[purpose as usize].load(Ordering::Acquire)
}

/// Counts a thread as long as it lives.
struct Alive(Purpose);

impl Alive {
    fn new(purpose: Purpose) -> Alive {
        ALIVE[purpose as usize].fetch_add(1, Ordering::AcqRel);
        Alive(purpose)
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        ALIVE[self.0 as usize].fetch_sub(1, Ordering::AcqRel);
    }
}

/// How a thread is started.
#[derive(Clone, Debug)]
pub struct ThreadOptions {
    /// What debuggers and the system call it: the first 15 bytes count.
    pub name: Cow<'static, str>,
    /// What it is for.
    pub purpose: Purpose,
    /// The size of its stack.
    pub stack_bytes: usize,
    /// Whether it may run where its starter may. If not, it runs on all processors of the process. A
    /// binding that the library has made is never inherited.
    pub inherit_processors: bool,
}

impl ThreadOptions {
    /// A thread with the stack of the process that may run on all of its processors.
    pub fn new(name: impl Into<Cow<'static, str>>, purpose: Purpose) -> ThreadOptions {
        ThreadOptions {
            name: name.into(),
            purpose,
            stack_bytes: process_stack_bytes(),
            inherit_processors: false,
        }
    }
}

/// How large the stack of the process's first thread may grow, but at least 2 MiB and at most 1 GiB; 8 MiB
/// where it has no limit.
pub fn process_stack_bytes() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limits have a place.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limit) } != 0;
    if failed || limit.rlim_cur == libc::RLIM_INFINITY {
        return USUAL_STACK_BYTES;
    }
    let bytes = usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX);
    bytes.clamp(LEAST_STACK_BYTES, MOST_STACK_BYTES)
}

thread_local! {
    /// Whether the library has bound this thread to some processors.
    static BOUND: Cell<bool> = const { Cell::new(false) };
}

/// Binds the calling thread, one of the library's, to these processors. Threads that the library
/// starts from here are not bound with it. Errors as for [`affinity::bind_current_thread`].
pub fn bind(processors: &CpuSet) -> Result<()> {
    affinity::bind_current_thread(processors)?;
    BOUND.set(true);
    Ok(())
}

/// A thread that is known to the libraries which keep something of each thread.
struct Known;

impl Known {
    fn new() -> Known {
        drop(thread::current());
        let lock = Mutex::new(());
        // A wait that is over when it begins.
        Condvar::new().wait_until(&mut lock.lock(), Instant::now());
        Known
    }
}

impl Drop for Known {
    // Only so that the thread's end is noticed.
    fn drop(&mut self) {}
}

/// Has the standard library and parking_lot make what they keep of each thread, for the calling one, so
/// that waiting at a lock or parking allocates nothing later. A thread of the library's does it when it
/// starts and one of the program's when it first calls; further calls cost a look.
///
/// FAILED_PRECONDITION if the thread is about to end and has given all of that up.
#[inline]
pub fn init_thread() -> Result<()> {
    thread_local! {
        static KNOWN: Known = Known::new();
    }
    KNOWN.try_with(|_| ()).map_err(|_| ending())
}

/// The error of what a thread that is about to end cannot do.
#[cold]
pub fn ending() -> Error {
    Error::precondition(
        "called when this thread has all but ended (in a destructor of thread-specific data, or on the way \
         out of the process), where it can only release handles; call it before, or on another thread",
    )
}

/// A thread that was started. Dropping it leaves the thread to itself.
#[derive(Debug)]
pub struct Handle(JoinHandle<()>);

/// A thread whose body has panicked.
#[derive(Debug, PartialEq, Eq)]
pub struct Panicked;

impl Handle {
    /// Whether this is the calling thread.
    pub fn is_current(&self) -> bool {
        // SAFETY: a thread asks for its own number.
        self.0.as_pthread_t() as usize == unsafe { libc::pthread_self() } as usize
    }

    /// Waits until the thread has ended. On the thread itself, which cannot wait for its own end, it is left
    /// to itself instead.
    pub fn join(self) -> std::result::Result<(), Panicked> {
        if self.is_current() { Ok(()) } else { self.0.join().map_err(|_| Panicked) }
    }
}

/// Starts a thread that runs `body`. A panic of `body` ends the thread, and [`Handle::join`] says so.
///
/// RESOURCE_EXHAUSTED, with what the system says, if there can be no thread now; a later call may
/// succeed. FAILED_PRECONDITION as for [`init_thread`].
pub fn spawn(options: &ThreadOptions, body: impl FnOnce() + Send + 'static) -> Result<Handle> {
    init_thread()?;
    fork::note_use();
    let everywhere = !options.inherit_processors || BOUND.get();
    // Counted before it can end.
    let alive = Alive::new(options.purpose);
    let main = move || {
        let _alive = alive;
        if everywhere {
            // Where the system refuses, the thread runs where its starter does.
            let _ = affinity::bind_current_thread(affinity::process_processors());
        }
        // It has just begun.
        let _ = init_thread();
        body();
    };
    let builder = thread::Builder::new().name(options.name.to_string());
    let _masked = Masked::new();
    builder.stack_size(options.stack_bytes).spawn(main).map(Handle).map_err(|cause| {
        Error::ResourceExhausted(format!(
            "no thread '{}' with a stack of {} bytes: {cause}",
            options.name, options.stack_bytes
        ))
    })
}

/// Blocks signals on this thread, and so on the threads that it makes, until it is dropped.
struct Masked(libc::sigset_t);

impl Masked {
    fn new() -> Masked {
        /// Those that a thread causes itself, and the one by which profilers see it.
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
        let (mut blocked, mut before) = (MaybeUninit::uninit(), MaybeUninit::zeroed());
        // SAFETY: the sets have room, are initialised by the first call or are all zeros, and live
        // over the calls; all signals named exist.
        unsafe {
            libc::sigfillset(blocked.as_mut_ptr());
            for signal in OPEN {
                libc::sigdelset(blocked.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, blocked.as_ptr(), before.as_mut_ptr());
            Masked(before.assume_init())
        }
    }
}

impl Drop for Masked {
    fn drop(&mut self) {
        // SAFETY: the set is the one that this thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn started<R: Send + 'static>(
        options: &ThreadOptions,
        body: impl FnOnce() -> R + Send + 'static,
    ) -> R {
        let (sender, receiver) = mpsc::channel();
        let handle = spawn(options, move || sender.send(body()).unwrap()).unwrap();
        let result = receiver.recv().unwrap();
        handle.join().unwrap();
        result
    }

    fn options() -> ThreadOptions {
        ThreadOptions::new("umbo-a-name-that-is-too-long", Purpose::Pool)
    }

    #[test]
    fn stacks_are_as_large_as_asked_for() {
        fn fill(quarters: usize) -> usize {
            let locals = [1u8; 256 << 10];
            let below = if quarters > 1 { fill(quarters - 1) } else { 0 };
            below + usize::from(std::hint::black_box(&locals)[quarters])
        }
        assert_eq!(started(&ThreadOptions { stack_bytes: 11 << 20, ..options() }, || fill(40)), 40);
        assert_eq!(started(&options(), current_name), "umbo-a-name-tha");
        assert!((LEAST_STACK_BYTES..=MOST_STACK_BYTES).contains(&process_stack_bytes()));
    }

    #[test]
    fn a_thread_that_ends_is_refused_and_not_stopped() {
        struct AtEnd(mpsc::Sender<bool>);
        impl Drop for AtEnd {
            fn drop(&mut self) {
                self.0.send(init_thread().is_err()).unwrap();
            }
        }
        thread_local!(static LATE: Cell<Option<AtEnd>> = const { Cell::new(None) });
        let (sender, receiver) = mpsc::channel();
        // What was made first is destroyed last, when the thread has given up the rest.
        std::thread::spawn(move || {
            LATE.set(Some(AtEnd(sender)));
            init_thread().unwrap();
        });
        assert!(receiver.recv().unwrap());
    }

    #[test]
    fn signals_wait_for_the_program_and_faults_do_not() {
        let blocked = started(&options(), || {
            let mut set = MaybeUninit::zeroed();
            // SAFETY: the set has room and is initialised by the call.
            let set: libc::sigset_t = unsafe {
                libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), set.as_mut_ptr());
                set.assume_init()
            };
            // SAFETY: the set is initialised and the signals exist.
            [libc::SIGINT, libc::SIGTERM, libc::SIGCHLD, libc::SIGSEGV, libc::SIGPROF]
                .map(|signal| unsafe { libc::sigismember(&set, signal) })
        });
        assert_eq!(blocked, [1, 1, 1, 0, 0]);
    }

    #[test]
    fn a_panic_ends_the_thread_and_join_says_so() {
        let handle =
            spawn(&options(), || std::panic::resume_unwind(Box::new("no message"))).unwrap();
        assert_eq!(handle.join(), Err(Panicked));
    }

    #[test]
    fn the_librarys_binding_is_not_inherited() {
        let first: CpuSet = affinity::process_processors().processors().take(1).collect();
        let inner = started(&options(), move || {
            bind(&first).unwrap();
            let inherit = ThreadOptions { inherit_processors: true, ..options() };
            started(&inherit, || affinity::current_thread_processors().unwrap())
        });
        assert_eq!(inner, *affinity::process_processors());
    }

    #[test]
    fn impossible_stacks_are_refused_and_later_threads_start() {
        let error = spawn(&ThreadOptions { stack_bytes: 1 << 60, ..options() }, || ()).unwrap_err();
        assert_eq!(error.status(), crate::error::Status::ResourceExhausted, "{error}");
        started(&options(), || ());
    }
}
