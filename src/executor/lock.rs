//! The library's locks: the standard library's, without its poisoning.
//!
//! Two properties matter, and both are those of one word of memory over a futex. Waiting allocates
//! nothing, on no thread, also where threads meet for the first time: a step must not allocate, and
//! when its replicas first meet at a lock depends on how they are scheduled. And threads that wait queue
//! in no table that locks share, so that the child of a fork never finds part of such a table taken by
//! a thread that it does not have. What is left to those who lock is not to leave anything half changed
//! when they panic.

use std::sync::{self, PoisonError, TryLockError};
use std::time::Instant;

pub use std::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// Something that one thread at a time has.
#[derive(Debug, Default)]
pub struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    /// A lock that nobody has.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(sync::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock, if nobody has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// What only the caller can reach.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was locked.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Something that one thread changes or several read.
#[derive(Debug, Default)]
pub struct RwLock<T>(sync::RwLock<T>);

impl<T> RwLock<T> {
    /// A lock that nobody has.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(sync::RwLock::new(value))
    }

    /// Waits until nobody changes the value.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody else has the value.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where threads wait until others say that something has changed.
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// Frees the lock, waits, and takes it again. The wait may be over for no reason.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Condvar::wait`], and the wait is over at `deadline` too.
    pub fn wait_until<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> MutexGuard<'a, T> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.0.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes all who wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_panic_under_a_lock_leaves_it_usable() {
        let (mut mutex, rw) = (Mutex::new(1), RwLock::new(2));
        let panics = || {
            let (_one, _two) = (mutex.lock(), rw.write());
            panic!("with both locks");
        };
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert_eq!(mutex.try_lock().map(|value| *value), Some(1));
        assert_eq!(*mutex.lock(), 1);
        assert_eq!(*rw.read(), 2);
        assert_eq!(*rw.write(), 2);
        assert_eq!(*mutex.get_mut(), 1);
        assert_eq!(mutex.into_inner(), 1);
    }

    #[test]
    fn a_lock_that_is_taken_is_not_given_twice() {
        let mutex = Mutex::new(());
        let guard = mutex.lock();
        assert!(mutex.try_lock().is_none());
        let now = Instant::now();
        // Nobody notifies: the deadline ends the wait, if nothing else does, and the lock is back.
        let guard = Condvar::default().wait_until(guard, now);
        assert!(mutex.try_lock().is_none());
        drop(guard);
        assert!(mutex.try_lock().is_some());
    }
}
