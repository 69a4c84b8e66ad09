//! What the protocol is built from: the standard library's atomics, locks and threads, or
//! loom's stand-ins when the protocol is model-checked (`--cfg loom`).

#[cfg(not(loom))]
use std::sync as locks;
use std::sync::PoisonError;
#[cfg(not(loom))]
pub use std::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence},
    thread::{Thread, park},
};

#[cfg(loom)]
use loom::sync as locks;
#[cfg(loom)]
pub use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence},
    thread::{Thread, park},
};

/// A handle to this thread; none if the thread is ending and its handle is gone.
#[cfg(not(loom))]
pub fn current() -> Option<Thread> {
    (!crate::executor::thread::is_ending()).then(std::thread::current)
}

/// A handle to this thread.
#[cfg(loom)]
pub fn current() -> Option<Thread> {
    Some(loom::thread::current())
}

/// A mutex that does not know of panics. Unlike parking_lot's it never allocates, also not when
/// threads first meet at it: a step must not.
pub struct Mutex<T>(locks::Mutex<T>);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Mutex<T> {
        Mutex(locks::Mutex::new(value))
    }

    pub fn lock(&self) -> locks::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}
