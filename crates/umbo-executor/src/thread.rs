//! Starts every thread of the library, through the standard library, and
//!
//! - with a stack of the size in [`ThreadOptions`];
//! - with all signals blocked except those that the thread causes itself and the profiling signal,
//!   so that the program's handlers run on the program's threads;
//! - without a binding to processors that the library has made for the thread that starts it;
//! - in the floating-point mode of the library's code ([`floating_point`](super::floating_point)).

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::affinity::{self, CpuSet};
use super::floating_point::InheritedMode;
use super::fork;
use umbo_base::error::{Error, Result, Shortage};
use umbo_base::observe::own_threads::OwnThread;
pub use umbo_system::threads::name as current_name;
use umbo_system::threads::{self, BlockedSignals};

/// The smallest stack of a thread whose stack is to be as large as the process's.
const LEAST_STACK_BYTES: usize = 2 << 20;

/// The largest stack of a thread whose stack is to be as large as the process's.
const MOST_STACK_BYTES: usize = 1 << 30;

/// The stack of threads if that of the process has no limit.
const USUAL_STACK_BYTES: usize = 8 << 20;

/// The purpose of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Runs the callbacks of one replica.
    Replica,
    /// Does a share of central work.
    Worker,
    /// Calls a dataset's functions, several at the same time.
    Pool,
    /// Makes elements ahead of their consumer.
    Prefetch,
    /// Shares heavy computations that do not wait.
    Compute,
    /// Writes checkpoints while training continues.
    Checkpoint,
}

/// The number of threads of each purpose that are alive.
static ALIVE: [AtomicUsize; 6] = [const { AtomicUsize::new(0) }; 6];

/// The number of threads of this purpose that are alive in this process.
pub fn alive(purpose: Purpose) -> usize {
    ALIVE[purpose as usize].load(Ordering::Acquire)
}

/// Counts a thread as long as it is alive.
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

/// The options for starting a thread.
#[derive(Clone, Debug)]
pub struct ThreadOptions {
    /// The name in debuggers and in the system, which uses the first 15 bytes.
    pub name: Cow<'static, str>,
    /// The purpose of the thread.
    pub purpose: Purpose,
    /// The size of its stack.
    pub stack_bytes: usize,
    /// Whether it may run on the same processors as the thread that starts it. If not, it runs on
    /// all processors of the process. A binding that the library has made is never inherited.
    pub inherit_processors: bool,
}

impl ThreadOptions {
    /// A thread with a stack as large as the process's, which may run on all of the process's
    /// processors.
    pub fn new(name: impl Into<Cow<'static, str>>, purpose: Purpose) -> ThreadOptions {
        ThreadOptions {
            name: name.into(),
            purpose,
            stack_bytes: process_stack_bytes(),
            inherit_processors: false,
        }
    }
}

/// A number that no other thread has and that no thread has had. It is not 0.
pub fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    thread_local!(static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    NUMBER.with(|number| *number)
}

/// The largest size of the stack of the process's first thread, but at least 2 MiB and at most 1
/// GiB; 8 MiB if it has no limit.
pub fn process_stack_bytes() -> usize {
    threads::stack_limit().map_or(USUAL_STACK_BYTES, |bytes| {
        bytes.clamp(LEAST_STACK_BYTES, MOST_STACK_BYTES)
    })
}

thread_local! {
    /// Whether the library has bound this thread to some processors.
    static BOUND: Cell<bool> = const { Cell::new(false) };
}

/// Binds the calling thread, which belongs to the library, to these processors. Threads that the
/// library starts from here are not bound. Errors are those of [`affinity::bind_current_thread`].
pub fn bind(processors: &CpuSet) -> Result<()> {
    affinity::bind_current_thread(processors)?;
    BOUND.set(true);
    Ok(())
}

/// A thread for which the libraries that keep data of each thread have made theirs.
struct Known;

impl Known {
    fn new() -> Known {
        drop(thread::current());
        let lock = Mutex::new(());
        // This wait ends as soon as it begins.
        Condvar::new().wait_until(&mut lock.lock(), Instant::now());
        Known
    }
}

impl Drop for Known {
    // The function exists only so that the thread's end is noticed.
    fn drop(&mut self) {}
}

/// Makes the standard library and parking_lot allocate their data for the calling thread, so that
/// waiting at a lock or parking allocates nothing later. A thread of the library calls it when it
/// starts, and a thread of the program when it first calls the library. Further calls only check a
/// flag.
///
/// FAILED_PRECONDITION if the thread is about to end and has dropped this data.
#[inline]
pub fn init_thread() -> Result<()> {
    thread_local! {
        static KNOWN: Known = Known::new();
    }
    KNOWN.try_with(|_| ()).map_err(|_| ending())
}

/// The error for a call that a thread cannot make because it is about to end.
#[cold]
pub fn ending() -> Error {
    Error::precondition(
        "called when this thread has all but ended (in a destructor of thread-specific data, or \
         on the way out of the process), where it can only release handles; call it before, or on \
         another thread",
    )
}

/// A thread that was started. If the handle is dropped, the thread continues.
#[derive(Debug)]
pub struct Handle(JoinHandle<()>);

/// The error for a thread whose body has panicked.
#[derive(Debug, PartialEq, Eq)]
pub struct Panicked;

impl Handle {
    /// Whether this is the calling thread.
    pub fn is_current(&self) -> bool {
        threads::is_current(&self.0)
    }

    /// Waits until the thread has ended. The thread cannot wait for its own end, so on the thread
    /// itself this returns at once and the thread continues.
    pub fn join(self) -> std::result::Result<(), Panicked> {
        if self.is_current() {
            Ok(())
        } else {
            self.0.join().map_err(|_| Panicked)
        }
    }
}

/// Starts a thread that runs `body`. A panic of `body` ends the thread, and [`Handle::join`]
/// reports it.
///
/// RESOURCE_EXHAUSTED, with the system's message, if no thread can be started now; a later call may
/// succeed. FAILED_PRECONDITION as for [`init_thread`].
pub fn spawn(options: &ThreadOptions, body: impl FnOnce() + Send + 'static) -> Result<Handle> {
    init_thread()?;
    if !threads::EXIST {
        return Err(Error::Unimplemented(format!(
            "no thread '{}', since this system has none; use one replica, and what needs no thread \
             of its own: neither prefetch nor parallel calls nor saves in the background",
            options.name
        )));
    }
    fork::record_use();
    let everywhere = !options.inherit_processors || BOUND.get();
    // The thread is counted before it can end.
    let alive = Alive::new(options.purpose);
    let mode = InheritedMode::of_this_thread();
    let main = move || {
        let _alive = alive;
        let _own = OwnThread::note();
        if everywhere {
            // If the system refuses, the thread runs on the processors of the thread that started
            // it.
            let _ = affinity::bind_current_thread(affinity::process_processors());
        }
        // The thread has just begun, so this cannot fail.
        let _ = init_thread();
        mode.run(body);
    };
    let builder = thread::Builder::new().name(options.name.to_string());
    let _blocked = BlockedSignals::new();
    builder
        .stack_size(options.stack_bytes)
        .spawn(main)
        .map(Handle)
        .map_err(|cause| {
            Error::ResourceExhausted(Shortage::Thread {
                name: options.name.to_string(),
                stack_bytes: options.stack_bytes,
                cause,
            })
        })
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
        assert_eq!(
            started(
                &ThreadOptions {
                    stack_bytes: 11 << 20,
                    ..options()
                },
                || fill(40)
            ),
            40
        );
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
        // The data that was made first is destroyed last, when the thread has dropped the rest.
        std::thread::spawn(move || {
            LATE.set(Some(AtEnd(sender)));
            init_thread().unwrap();
        });
        assert!(receiver.recv().unwrap());
    }

    #[test]
    fn signals_wait_for_the_program_and_faults_do_not() {
        let status = || std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let status = started(&options(), status);
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        let mask = u64::from_str_radix(mask.unwrap().trim(), 16).unwrap();
        // SIGINT, SIGTERM and SIGCHLD; SIGSEGV and SIGPROF.
        let is_blocked = [2, 15, 17, 11, 27].map(|signal| mask >> (signal - 1) & 1 == 1);
        assert_eq!(is_blocked, [true, true, true, false, false]);
    }

    #[test]
    fn a_panic_ends_the_thread_and_join_says_so() {
        let handle = spawn(&options(), || {
            std::panic::resume_unwind(Box::new("no message"))
        })
        .unwrap();
        assert_eq!(handle.join(), Err(Panicked));
    }

    #[test]
    fn the_librarys_binding_is_not_inherited() {
        let first: CpuSet = affinity::process_processors()
            .processors()
            .take(1)
            .collect();
        let inner = started(&options(), move || {
            bind(&first).unwrap();
            let inherit = ThreadOptions {
                inherit_processors: true,
                ..options()
            };
            started(&inherit, || affinity::current_thread_processors().unwrap())
        });
        assert_eq!(inner, *affinity::process_processors());
    }

    #[test]
    fn impossible_stacks_are_refused_and_later_threads_start() {
        let error = spawn(
            &ThreadOptions {
                stack_bytes: 1 << 60,
                ..options()
            },
            || (),
        )
        .unwrap_err();
        assert_eq!(
            error.status(),
            umbo_base::error::Status::ResourceExhausted,
            "{error}"
        );
        started(&options(), || ());
    }
}
