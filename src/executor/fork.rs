//! What becomes of the library in the child of a fork.
//!
//! Only the thread that forked exists in the child. Two things follow, and each has its remedy here.
//!
//! What other threads were to do is never done. So whatever needs threads remembers in which process
//! it was made, in an [`Origin`], and asks it before it waits for any of them.
//!
//! A lock that another thread held at the moment of the fork is held for ever. The locks of the whole
//! process are therefore of the type [`Leaf`]: a fork waits until it holds all of them itself, so that
//! in the child as in the parent nobody else does, and what they guard is whole. They are leaves:
//! whoever holds one takes no other, runs no code of the caller and waits for nothing. A fork knows
//! those that were ever locked; one that is locked for the first time waits until no fork is going on.
//! Locks that belong to an object are not taken by forks: the object's origin is asked before they are, or
//! they are an [`ObjectLock`](super::object_lock::ObjectLock).

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use super::affinity;
use crate::error::{Error, Result};
use crate::observe;

/// How many forks lie between this process and the one that loaded the library.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Whether forks are noticed yet.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// The process in which something was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin(u64);

impl Origin {
    /// This process.
    pub fn here() -> Origin {
        watch();
        Origin(FORKS.load(Ordering::Relaxed))
    }

    /// Whether this is still the same process. Costs one load.
    #[inline]
    pub fn is_here(self) -> bool {
        self.0 == FORKS.load(Ordering::Relaxed)
    }

    /// FAILED_PRECONDITION in the child of a fork that happened since. `what` names the thing, and
    /// begins the message.
    #[inline]
    pub fn check(self, what: &str) -> Result<()> {
        if self.is_here() { Ok(()) } else { Err(gone(what)) }
    }
}

#[cold]
fn gone(what: &str) -> Error {
    Error::precondition(format!(
        "{what} was made before this process was forked, and the threads that it needs are those of \
         the parent; make a new one in this process, or fork before making one"
    ))
}

/// How many forks lie between this process and the one that loaded the library, for what is kept once
/// for each of them.
pub(crate) fn generation() -> u64 {
    watch();
    FORKS.load(Ordering::Relaxed)
}

/// Has forks noticed from now on. Whoever makes or locks something that a fork would break calls it
/// first. It waits for nobody: who is about to do the same may be missing in a child.
fn watch() {
    if WATCHED.load(Ordering::Acquire) {
        return;
    }
    // Not for the first time in a child, where whoever was about to read them may be missing.
    affinity::process_processors();
    register();
    WATCHED.store(true, Ordering::Release);
}

/// Has the handlers called at each fork. Threads that come here at once all do so, and forks call the
/// handlers once for each of them, which [`Forking`] counts.
fn register() {
    // SAFETY: the handlers may run at any fork from now on. In the parent they take and free locks
    // that no other thread keeps for long; in the child they store to memory and free those locks,
    // which needs no other thread. If there is no memory to note them, forks stay unnoticed, as they
    // would be without the library.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
}

extern "C" fn before_fork() {
    if FORKING.begin() {
        for leaf in LEAVES.iter().filter_map(OnceLock::get) {
            leaf.hold();
        }
    }
}

extern "C" fn in_parent() {
    if FORKING.is_last() {
        over();
    }
}

extern "C" fn in_child() {
    if !FORKING.is_last() {
        return;
    }
    FORKS.fetch_add(1, Ordering::Relaxed);
    super::thread::forget_all();
    FORKING.with_watch(observe::Pause::in_child);
    over();
    for repair in REPAIRS.iter().filter_map(OnceLock::get) {
        repair();
    }
}

/// Frees what the fork has held.
fn over() {
    for leaf in LEAVES.iter().filter_map(OnceLock::get) {
        leaf.let_go();
    }
    FORKING.end();
}

/// The fork that is going on. Systems differ in whether two threads may be between the handlers of their
/// forks at the same time; here they take turns. Whoever makes a leaf or a repair known has the turn
/// meanwhile.
static FORKING: Forking = Forking {
    turn: Mutex::new(()),
    thread: AtomicUsize::new(NOBODY),
    held: UnsafeCell::new(HeldByFork { turn: None, watch: None, handlers: 0 }),
};

struct Forking {
    turn: Mutex<()>,
    /// The thread that forks, or [`NOBODY`].
    thread: AtomicUsize,
    held: UnsafeCell<HeldByFork>,
}

/// What the thread that forks has, beside the leaves.
struct HeldByFork {
    turn: Option<MutexGuard<'static, ()>>,
    /// The log and the trace, which stand below this module.
    watch: Option<observe::Pause>,
    /// How many handlers were called before the fork, less those that were called after it.
    handlers: usize,
}

/// No thread is there.
const NOBODY: usize = 0;

// SAFETY: `held` is touched only by the thread that has the turn, while it has it.
unsafe impl Sync for Forking {}

impl Forking {
    /// Waits until no other thread forks, and keeps others from it.
    fn turn(&'static self) -> MutexGuard<'static, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A handler is called before the fork. Returns whether it is the first one.
    fn begin(&'static self) -> bool {
        // SAFETY: it only answers, which is no thread's 0, and the same in the child.
        let own = unsafe { libc::pthread_self() } as usize;
        // Only this thread stores its own number, and takes it away again.
        let is_first = self.thread.load(Ordering::Relaxed) != own;
        let turn = is_first.then(|| self.turn());
        // SAFETY: this thread has had the turn before, or has it now.
        let held = unsafe { &mut *self.held.get() };
        held.handlers += 1;
        if is_first {
            self.thread.store(own, Ordering::Relaxed);
            held.turn = turn;
            held.watch = Some(observe::pause());
        }
        is_first
    }

    /// A handler is called after the fork. Returns whether it is the last one.
    fn is_last(&'static self) -> bool {
        // SAFETY: the handlers of one fork are called on one thread, which has had the turn since the
        // first one.
        let held = unsafe { &mut *self.held.get() };
        held.handlers -= 1;
        held.handlers == 0
    }

    fn with_watch(&'static self, change: impl FnOnce(&mut observe::Pause)) {
        // SAFETY: as above.
        let held = unsafe { &mut *self.held.get() };
        if let Some(watch) = &mut held.watch {
            change(watch);
        }
    }

    /// Lets others fork.
    fn end(&'static self) {
        // SAFETY: as above; nothing of it is used once the turn is free.
        let HeldByFork { turn, watch, .. } = unsafe { &mut *self.held.get() };
        drop(watch.take());
        self.thread.store(NOBODY, Ordering::Relaxed);
        let turn = turn.take();
        drop(turn);
    }
}

/// What is done in each child, by what it mends.
static REPAIRS: [OnceLock<fn()>; 1] = [const { OnceLock::new() }; 1];

/// What threads that do not exist in a child have left there to be mended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// What they were looking at.
    Hazards,
}

/// Has `repair` called in each child from now on, on its only thread, before the fork returns there.
/// It waits for nothing and allocates nothing.
pub fn in_each_child(what: Repair, repair: fn()) {
    watch();
    let place = &REPAIRS[what as usize];
    if place.get().is_none() {
        let _no_fork = FORKING.turn();
        let _ = place.set(repair);
    }
}

/// Which locks there are, one [`Leaf`] each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guards {
    /// The free places of the handle table.
    Handles,
    /// Names of devices that are kept for C.
    DeviceNames,
    /// The devices.
    Devices,
    /// The GPUs that were opened.
    Gpus,
    /// All strategies.
    Strategies,
    /// The communicators that strategies use.
    Communicators,
    /// What is known of passes that have begun, where they are checked.
    FirstBatches,
    /// What a test makes up.
    #[cfg(test)]
    Invention,
    /// What a test makes up that locks it amid a fork.
    #[cfg(test)]
    LateInvention,
}

/// The leaves that were ever locked, by what they guard.
static LEAVES: [OnceLock<&'static (dyn Held + Sync)>; 9] = [const { OnceLock::new() }; 9];

/// A lock that a fork takes.
trait Held {
    /// Waits for the lock and keeps it.
    fn hold(&'static self);
    /// Frees it again.
    fn let_go(&'static self);
}

/// A lock of the whole process that nobody else holds in the child of a fork. Whoever holds it locks
/// nothing else, runs no code of the caller and waits for nothing.
///
/// It is the standard library's lock: one word, which the child's copy of its holder can free, where
/// others queue in tables that the whole process shares.
pub struct Leaf<T: 'static> {
    guards: Guards,
    value: Mutex<T>,
    /// What the thread that forks holds while it does.
    held: UnsafeCell<Option<MutexGuard<'static, T>>>,
    known: AtomicBool,
}

// SAFETY: `held` is touched only by the fork handlers, by the one thread that has the turn to fork.
// Whatever it holds gives access to no `T`.
unsafe impl<T: Send> Sync for Leaf<T> {}

impl<T> fmt::Debug for Leaf<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Leaf").field("guards", &self.guards).finish_non_exhaustive()
    }
}

impl<T: Send> Leaf<T> {
    /// A lock that nobody holds.
    pub const fn new(guards: Guards, value: T) -> Leaf<T> {
        Leaf {
            guards,
            value: Mutex::new(value),
            held: UnsafeCell::new(None),
            known: AtomicBool::new(false),
        }
    }

    /// Waits for the lock.
    pub fn lock(&'static self) -> LeafGuard<T> {
        self.make_known();
        let guard = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        LeafGuard { guard }
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&'static self) -> Option<LeafGuard<T>> {
        self.make_known();
        match self.value.try_lock() {
            Ok(guard) => Some(LeafGuard { guard }),
            Err(TryLockError::Poisoned(poisoned)) => {
                Some(LeafGuard { guard: poisoned.into_inner() })
            }
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn make_known(&'static self) {
        if !self.known.load(Ordering::Relaxed) {
            watch();
            // A fork that has begun would not know of it, and its child might find it locked.
            let _no_fork = FORKING.turn();
            // There is one leaf of a kind, so whoever else comes first has set the same.
            let _ = LEAVES[self.guards as usize].set(self);
            self.known.store(true, Ordering::Relaxed);
        }
    }
}

impl<T: Send> Held for Leaf<T> {
    fn hold(&'static self) {
        let guard = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: only the thread that forks comes here.
        unsafe { *self.held.get() = Some(guard) };
    }

    fn let_go(&'static self) {
        // SAFETY: as above.
        drop(unsafe { (*self.held.get()).take() });
    }
}

/// The right to what a [`Leaf`] guards.
pub struct LeafGuard<T: 'static> {
    guard: MutexGuard<'static, T>,
}

impl<T> Deref for LeafGuard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for LeafGuard<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::process::Command;
    use std::sync::mpsc;
    use std::time::Duration;

    /// What a child's body says, asked under an alarm.
    pub(crate) fn in_a_child(body: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child runs `body` and ends without returning to the tests.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: plain system calls.
            unsafe {
                libc::alarm(20);
                libc::_exit(i32::from(!body()));
            }
        }
        let mut status = -1;
        // SAFETY: the child is ours, and the status has a place.
        unsafe { libc::waitpid(child, &mut status, 0) };
        status == 0
    }

    #[test]
    fn children_know_that_they_are_children() {
        let origin = Origin::here();
        assert!(origin.is_here());
        origin.check("it").unwrap();
        assert!(in_a_child(|| {
            let refused = origin.check("the strategy").unwrap_err();
            refused.status() == crate::error::Status::FailedPrecondition
                && refused.to_string().starts_with("the strategy was made before this process")
                && !origin.is_here()
                && Origin::here().is_here()
                && Origin::here() != origin
        }));
        assert!(origin.is_here());
    }

    /// Another thread changes what the leaf guards while this one forks: in every child the lock is
    /// free and what it guards is whole.
    #[test]
    fn a_leaf_is_free_and_whole_in_the_child() {
        static PAIR: Leaf<(u64, u64)> = Leaf::new(Guards::Invention, (0, 0));
        let (stop, stopped) = mpsc::channel::<()>();
        let busy = std::thread::spawn(move || {
            while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
                let mut pair = PAIR.lock();
                pair.0 += 1;
                std::thread::yield_now();
                pair.1 += 1;
            }
        });
        for _ in 0..50 {
            assert!(in_a_child(|| {
                let pair = PAIR.lock();
                pair.0 == pair.1
            }));
        }
        drop(stop);
        busy.join().unwrap();
    }

    /// As threads do that use the library for the first time at once.
    #[test]
    fn handlers_that_are_there_several_times_see_one_fork() {
        register();
        register();
        let before = generation();
        for _ in 0..2 {
            assert!(in_a_child(|| {
                drop(observe::pause());
                generation() == before + 1 && in_a_child(|| generation() == before + 2)
            }));
        }
        assert_eq!(generation(), before);
    }

    /// While one thread forks, others fork too and lock a leaf that the fork does not know of. In a process
    /// of its own: there a handler can be older than the library's, so that it is called when the library
    /// has its locks and before there is a child.
    #[test]
    fn a_leaf_that_is_first_locked_amid_a_fork_is_free_in_the_child() {
        const ALONE: &str = "UMBO_TEST_ALONE";
        static LATE: Leaf<()> = Leaf::new(Guards::LateInvention, ());
        static AMID: AtomicBool = AtomicBool::new(false);
        static LOCKING: AtomicBool = AtomicBool::new(false);
        static OVER: AtomicBool = AtomicBool::new(false);
        fn wait_for(flag: &AtomicBool) {
            while !flag.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        }
        extern "C" fn amid() {
            AMID.store(true, Ordering::SeqCst);
            wait_for(&LOCKING);
            // Long enough to take a lock that nobody has.
            std::thread::sleep(Duration::from_millis(20));
        }
        if std::env::var_os(ALONE).is_none() {
            let name = std::thread::current().name().unwrap().to_owned();
            let mut alone = Command::new(std::env::current_exe().unwrap());
            let output = alone.args(["--exact", &name]).env(ALONE, "1").output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            return;
        }
        // SAFETY: the handler touches nothing but its flags.
        unsafe { libc::pthread_atfork(Some(amid), None, None) };
        assert!(Origin::here().is_here());
        let usable = || in_a_child(|| LATE.try_lock().is_some());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                wait_for(&AMID);
                LOCKING.store(true, Ordering::SeqCst);
                let _lock = LATE.lock();
                wait_for(&OVER);
            });
            let other = scope.spawn(|| {
                wait_for(&AMID);
                usable()
            });
            let is_usable = usable();
            OVER.store(true, Ordering::SeqCst);
            assert!(is_usable && other.join().unwrap());
        });
    }
}
