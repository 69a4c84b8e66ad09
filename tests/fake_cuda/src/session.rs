//! The lock around the driver, and the way in for every call.

use std::cell::Cell;
use std::ffi::c_int;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::codes::{Code, Outcome};
use crate::driver::Driver;
use crate::engine;
use crate::report::Mistake;

static DRIVER: Mutex<Option<Driver>> = Mutex::new(None);
/// Told when an operation has finished.
static PROGRESS: Condvar = Condvar::new();
/// The process that started the driver; a child of it may not use it.
static OWNER: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// This thread runs a function that a stream calls.
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// The driver, locked.
pub struct Session<'a> {
    /// Empty only inside of `pause`.
    guard: Option<MutexGuard<'a, Option<Driver>>>,
}

impl Deref for Session<'_> {
    type Target = Driver;
    fn deref(&self) -> &Driver {
        self.guard
            .as_ref()
            .and_then(|guard| guard.as_ref())
            .expect("a session holds the driver")
    }
}

impl DerefMut for Session<'_> {
    fn deref_mut(&mut self) -> &mut Driver {
        self.guard
            .as_mut()
            .and_then(|guard| guard.as_mut())
            .expect("a session holds the driver")
    }
}

impl Session<'_> {
    /// Locks the driver, which starts with the first session.
    pub fn open() -> Session<'static> {
        let mut guard = DRIVER
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        guard.get_or_insert_with(Driver::new);
        Session { guard: Some(guard) }
    }

    /// Unlocks the driver until an operation has finished, or for a moment.
    fn pause(&mut self) {
        let guard = self.guard.take().expect("a session holds the driver");
        let moment = Duration::from_millis(20);
        let (guard, _) = PROGRESS
            .wait_timeout(guard, moment)
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        self.guard = Some(guard);
    }

    /// Waits until so many operations of a stream have finished, and runs them if nobody does.
    pub fn wait_for(&mut self, stream: u32, count: u64) {
        while !self.streams.reached(stream, count) {
            if !self.step_toward(stream) {
                self.pause();
            }
        }
    }
}

/// Tells those who wait that an operation has finished.
pub fn progressed() {
    PROGRESS.notify_all();
}

/// Runs `body` marked as a function that a stream calls.
pub fn as_host_function(body: impl FnOnce()) {
    IN_HOST_FUNCTION.set(true);
    body();
    IN_HOST_FUNCTION.set(false);
}

fn code(outcome: Outcome) -> c_int {
    outcome.err().unwrap_or(Code::SUCCESS).0
}

/// Whether this process was forked from the one that started the driver. The lock may then be held
/// for ever by a thread that this process does not have.
fn is_forked() -> bool {
    let owner = OWNER.load(Ordering::Acquire);
    owner != 0 && owner != std::process::id()
}

/// One call of a function that does not need a started driver.
pub fn enter_early(name: &'static str, body: impl FnOnce(&mut Session) -> Outcome) -> c_int {
    if is_forked() {
        return Code::NOT_INITIALIZED.0;
    }
    let mut session = Session::open();
    session.calls += 1;
    if let Some(fault) = session.fault_in(name) {
        return fault.0;
    }
    code(body(&mut session))
}

/// One call of any other function.
pub fn enter(name: &'static str, body: impl FnOnce(&mut Session) -> Outcome) -> c_int {
    if is_forked() {
        return Code::NOT_INITIALIZED.0;
    }
    let mut session = Session::open();
    session.calls += 1;
    if !session.initialised {
        return Code::NOT_INITIALIZED.0;
    }
    OWNER.store(std::process::id(), Ordering::Release);
    if IN_HOST_FUNCTION.get() {
        let text = format!("{name} is called by a function that a stream calls");
        session.reports.add(Mistake::Misuse, &text);
        return Code::NOT_PERMITTED.0;
    }
    if let Some(fault) = session.fault_in(name) {
        return fault.0;
    }
    let outcome = body(&mut session);
    session.go_on();
    engine::start();
    code(outcome)
}
