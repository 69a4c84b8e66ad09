//! How every thread of the library is started.
//!
//! The standard library decides neither the guard below a stack nor signals and cancellation, so
//! threads are made with the functions of POSIX that it uses itself. What all of them have in common:
//!
//! - A stack of the size that [`Options`] says, and below it [`GUARD_BYTES`] of address space that
//!   nobody may touch: one large array that does not fit ends the process and does not reach into
//!   what lies below.
//! - All signals are blocked but those that the thread causes itself, and the profiling one: the
//!   program's handlers run on the program's threads.
//! - They cannot be cancelled. Cancelling unwinds frames that must not be unwound.
//! - They inherit no binding to processors that the library has made.

use std::borrow::Cow;
use std::cell::Cell;
use std::ffi::{CString, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::affinity::{self, CpuSet};
use super::fork;
use super::stack::{Attributes, page_bytes};
pub use super::stack::{
    LEAST_STACK_BYTES, MOST_INHERITED_STACK_BYTES, current_stack_bytes, process_stack_bytes,
};
use crate::error::{Error, Result};
use crate::memory;

/// The address space below each stack that nobody may touch.
pub const GUARD_BYTES: usize = 16 << 20;

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

/// How a thread is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// What debuggers and the system call it: the first 15 bytes count.
    pub name: Cow<'static, str>,
    /// What it is for.
    pub purpose: Purpose,
    /// The size of its stack, the guard not included; see [`process_stack_bytes`] and
    /// [`current_stack_bytes`].
    pub stack_bytes: usize,
    /// Whether it may run where its starter may. If not, it runs on all processors of the process. A
    /// binding that the library has made is never inherited.
    pub inherit_processors: bool,
}

impl Options {
    /// A thread with the stack of the process that may run on all of its processors.
    pub fn new(name: impl Into<Cow<'static, str>>, purpose: Purpose) -> Options {
        Options {
            name: name.into(),
            purpose,
            stack_bytes: process_stack_bytes(),
            inherit_processors: false,
        }
    }
}

thread_local! {
    /// Whether the library has bound this thread to some processors.
    static BOUND: Cell<bool> = const { Cell::new(false) };
}

/// Notices that its thread ends.
struct Life;

impl Drop for Life {
    fn drop(&mut self) {}
}

thread_local! {
    static LIFE: Life = const { Life };
}

/// Whether the calling thread is about to end and has given up what it keeps for itself, without which
/// it can neither wait nor be in a context: it runs destructors of the program's thread-specific data.
/// Known of threads that have asked before, or looked at an object.
pub fn is_ending() -> bool {
    LIFE.try_with(|_| ()).is_err()
}

/// The error of what a thread that [`is_ending`] cannot do.
#[cold]
pub fn ending() -> Error {
    Error::precondition(
        "called from a destructor of thread-specific data, when this thread can no longer wait or be \
         in a context; call it before the thread ends, or on another thread",
    )
}

/// Binds the calling thread, one of the library's, to these processors. Threads that the library
/// starts from here are not bound with it. Errors as for [`affinity::bind_current_thread`].
pub fn bind(processors: &CpuSet) -> Result<()> {
    affinity::bind_current_thread(processors)?;
    BOUND.set(true);
    Ok(())
}

/// A thread that was started. Dropping it leaves the thread to itself.
#[derive(Debug)]
pub struct Handle {
    /// Until it is joined.
    thread: Option<libc::pthread_t>,
    panicked: Arc<AtomicBool>,
}

// SAFETY: the number of a thread may be used on any thread of the process.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// A thread whose body has panicked.
#[derive(Debug, PartialEq, Eq)]
pub struct Panicked;

impl Handle {
    /// Whether this is the calling thread.
    pub fn is_current(&self) -> bool {
        self.thread.is_some_and(|thread| {
            // SAFETY: comparing numbers of threads has no conditions.
            unsafe { libc::pthread_equal(thread, libc::pthread_self()) != 0 }
        })
    }

    /// Waits until the thread has ended. On the thread itself, which cannot wait for its own end, it is left
    /// to itself instead.
    pub fn join(mut self) -> std::result::Result<(), Panicked> {
        if self.is_current() {
            return Ok(());
        }
        if let Some(thread) = self.thread.take() {
            let _uncancelled = Uncancelled::new();
            // SAFETY: the thread is one of this process, was neither joined nor detached, and is
            // neither again.
            unsafe { libc::pthread_join(thread, ptr::null_mut()) };
        }
        if self.panicked.load(Ordering::Acquire) { Err(Panicked) } else { Ok(()) }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // SAFETY: the thread is of this process and was neither joined nor detached.
            unsafe { libc::pthread_detach(thread) };
        }
    }
}

/// Has the standard library and parking_lot make what they keep of each thread, for the calling one, so
/// that waiting at a lock or parking allocates nothing later. A thread of the library's does it when it
/// starts and one of the program's when it first calls; further calls cost a look.
pub fn init_thread() {
    thread_local! {
        static IS_DONE: Cell<bool> = const { Cell::new(false) };
    }
    if !IS_DONE.replace(true) {
        drop(std::thread::current());
        let lock = Mutex::new(());
        // A wait that is over when it begins.
        Condvar::new().wait_until(&mut lock.lock(), Instant::now());
    }
}

/// What a new thread is given.
struct Start {
    body: Box<dyn FnOnce() + Send>,
    name: CString,
    purpose: Purpose,
    everywhere: bool,
    panicked: Arc<AtomicBool>,
    prepared: Arc<Prepared>,
}

/// Whether a new thread had memory for what is kept of a thread, once it is known.
#[derive(Default)]
struct Prepared {
    state: Mutex<Option<bool>>,
    known: Condvar,
}

impl Prepared {
    fn tell(&self, prepared: bool) {
        *self.state.lock() = Some(prepared);
        self.known.notify_one();
    }

    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        self.known.wait_while(&mut state, |state| state.is_none());
        state.unwrap_or(false)
    }
}

/// Starts a thread that runs `body`. A panic of `body` ends the thread and is told by
/// [`Handle::join`].
///
/// RESOURCE_EXHAUSTED, with what the system says, if there can be no thread now; a later call may
/// succeed.
pub fn spawn(options: &Options, body: impl FnOnce() + Send + 'static) -> Result<Handle> {
    memory::ask_system()?;
    init_thread();
    let purpose = options.purpose;
    let panicked = Arc::new(AtomicBool::new(false));
    let prepared = Arc::new(Prepared::default());
    let start = Box::new(Start {
        body: Box::new(body),
        name: short_name(&options.name),
        purpose,
        everywhere: !options.inherit_processors || BOUND.get(),
        panicked: Arc::clone(&panicked),
        prepared: Arc::clone(&prepared),
    });
    fork::note_use();
    // Counted before it can end.
    ALIVE[purpose as usize].fetch_add(1, Ordering::AcqRel);
    let start = Box::into_raw(start);
    match create(options.stack_bytes, start) {
        Ok(thread) if prepared.wait() => Ok(Handle { thread: Some(thread), panicked }),
        Ok(thread) => {
            // SAFETY: the thread is ours, and it is about to end.
            unsafe { libc::pthread_join(thread, ptr::null_mut()) };
            Err(Error::ResourceExhausted(format!("memory for a thread '{}'", options.name)))
        }
        Err(cause) => {
            ALIVE[purpose as usize].fetch_sub(1, Ordering::AcqRel);
            // SAFETY: the thread that would have taken it over does not exist.
            drop(unsafe { Box::from_raw(start) });
            Err(Error::ResourceExhausted(format!(
                "no thread '{}' with a stack of {} bytes: {cause}",
                options.name, options.stack_bytes
            )))
        }
    }
}

/// Makes the thread, with everything in place before its first instruction.
fn create(stack_bytes: usize, start: *mut Start) -> io::Result<libc::pthread_t> {
    let check = |code: c_int| match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    };
    let mut attributes = Attributes::new()?;
    let page = page_bytes();
    let stack_bytes = stack_bytes.max(libc::PTHREAD_STACK_MIN).next_multiple_of(page);
    let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
    let _masked = Masked::new();
    // SAFETY: the attributes are initialised and live over the calls; the thread takes `start` over,
    // which is what `main` expects.
    unsafe {
        check(libc::pthread_attr_setstacksize(&mut attributes.0, stack_bytes))?;
        check(libc::pthread_attr_setguardsize(&mut attributes.0, GUARD_BYTES))?;
        check(libc::pthread_create(thread.as_mut_ptr(), &attributes.0, main, start.cast()))?;
        Ok(thread.assume_init())
    }
}

extern "C" fn main(start: *mut c_void) -> *mut c_void {
    // SAFETY: `spawn` gave this thread alone a `Start` that came out of a box.
    let Start { body, name, purpose, everywhere, panicked, prepared } =
        *unsafe { Box::from_raw(start.cast::<Start>()) };
    // SAFETY: the thread's own state is changed, with arguments that live over the calls.
    unsafe {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, ptr::null_mut());
        libc::pthread_setname_np(libc::pthread_self(), name.as_ptr());
    }
    if everywhere {
        // Where the system refuses, the thread runs where its starter does.
        let _ = affinity::bind_current_thread(affinity::process_processors());
    }
    // The first call allocates, and a thread that goes to sleep in a step must not. Without memory it
    // would end the process, so the thread ends instead.
    let has_memory = memory::ask_system().is_ok();
    if has_memory {
        init_thread();
        // And so that the thread's end is noticed.
        let _ = is_ending();
    }
    prepared.tell(has_memory);
    if !has_memory {
        drop(body);
    } else if panic::catch_unwind(AssertUnwindSafe(body)).is_err() {
        panicked.store(true, Ordering::Release);
    }
    ALIVE[purpose as usize].fetch_sub(1, Ordering::AcqRel);
    ptr::null_mut()
}

/// What the system calls the calling thread, of the library or not.
pub fn current_name() -> String {
    let mut name = [0u8; 16];
    // SAFETY: a thread asks for its own name, and there is room for the longest that there can be.
    unsafe { libc::pthread_getname_np(libc::pthread_self(), name.as_mut_ptr().cast(), name.len()) };
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

/// The system keeps 15 bytes of a name.
fn short_name(name: &str) -> CString {
    let mut end = name.len().min(15);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    CString::new(&name[..end]).unwrap_or_default()
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

/// The same number on glibc and on musl; the `libc` crate does not have it for Linux.
const PTHREAD_CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// While it lives, a request to cancel the calling thread waits.
#[derive(Debug)]
pub struct Uncancelled {
    before: c_int,
    /// It belongs to its thread.
    _thread: std::marker::PhantomData<*const ()>,
}

impl Uncancelled {
    /// Puts requests off from now on. Costs some nanoseconds; nests.
    pub fn new() -> Uncancelled {
        let mut before = 0;
        // SAFETY: the old state has a place.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut before) };
        Uncancelled { before, _thread: std::marker::PhantomData }
    }
}

impl Default for Uncancelled {
    fn default() -> Uncancelled {
        Uncancelled::new()
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: the state is one that the thread has had; nothing is asked back.
        unsafe { pthread_setcancelstate(self.before, ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::stack::current_attributes;
    use std::sync::mpsc;

    fn started<R: Send + 'static>(
        options: &Options,
        body: impl FnOnce() -> R + Send + 'static,
    ) -> R {
        let (sender, receiver) = mpsc::channel();
        let handle = spawn(options, move || sender.send(body()).unwrap()).unwrap();
        let result = receiver.recv().unwrap();
        handle.join().unwrap();
        result
    }

    fn options() -> Options {
        Options::new("umbo-a-name-that-is-too-long", Purpose::Pool)
    }

    #[test]
    fn stacks_are_as_large_as_asked_for_and_have_a_wide_guard() {
        for stack_bytes in [3 << 20, 11 << 20] {
            let (stack, guard) = started(&Options { stack_bytes, ..options() }, || {
                let attributes = current_attributes().unwrap();
                let (mut stack, mut guard) = (0, 0);
                // SAFETY: the attributes are initialised and the sizes have places.
                unsafe {
                    libc::pthread_attr_getstacksize(&attributes.0, &mut stack);
                    libc::pthread_attr_getguardsize(&attributes.0, &mut guard);
                }
                (stack, guard)
            });
            // Perhaps a larger one, which a thread before it has had.
            assert!(stack >= stack_bytes, "{stack}");
            assert_eq!(guard, GUARD_BYTES);
        }
    }

    #[test]
    fn threads_have_the_stack_of_their_starter() {
        let stack_bytes = 5 << 20;
        let seen = started(&Options { stack_bytes, ..options() }, current_stack_bytes);
        assert!(seen >= stack_bytes, "{seen}");
        let small = Options { stack_bytes: 256 << 10, ..options() };
        assert!(started(&small, current_stack_bytes) >= LEAST_STACK_BYTES);
        assert_eq!(started(&options(), current_name), "umbo-a-name-tha");
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
    fn a_panic_ends_the_thread_and_is_told() {
        let handle = spawn(&options(), || panic::resume_unwind(Box::new("no message"))).unwrap();
        assert_eq!(handle.join(), Err(Panicked));
    }

    #[test]
    fn the_librarys_binding_is_not_inherited() {
        let first: CpuSet = affinity::process_processors().processors().take(1).collect();
        let inner = started(&options(), move || {
            bind(&first).unwrap();
            let inherit = Options { inherit_processors: true, ..options() };
            started(&inherit, || affinity::current_thread_processors().unwrap())
        });
        assert_eq!(inner, *affinity::process_processors());
    }

    #[test]
    fn impossible_stacks_are_refused_and_later_threads_start() {
        let error = spawn(&Options { stack_bytes: 1 << 60, ..options() }, || ()).unwrap_err();
        assert_eq!(error.status(), crate::error::Status::ResourceExhausted, "{error}");
        started(&options(), || ());
    }
}
