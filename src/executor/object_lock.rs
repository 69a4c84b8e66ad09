//! Locks of objects that are used in the child of a fork, too.
//!
//! A fork does not wait for such a lock. In the child its holder may be a thread that only the parent
//! has, and then nobody ever gives it back; or it may be one of the child's own, which does. So the lock
//! is one word, which says in which process its holder is.

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

use super::fork;
use crate::error::{Error, Result};

/// Something that one thread at a time has, in this process or in one that was forked since.
pub struct ObjectLock<T> {
    /// [`FREE`], or the number of its holder's process times two, and one more if threads may wait for it.
    word: AtomicU32,
    value: UnsafeCell<T>,
}

/// Nobody has it.
const FREE: u32 = 0;

/// Threads may wait for it.
const AWAITED: u32 = 1;

// SAFETY: a thread gets at the value only while it has the lock, of which there is one; then it may do
// whatever a thread may that the value was sent to.
unsafe impl<T: Send> Sync for ObjectLock<T> {}

/// The word of a lock that a thread of this process has. Processes are numbered from 1, the one that
/// loaded the library, by the forks between; after 2^31 of them numbers would come again.
fn held_here() -> u32 {
    (fork::generation() as u32 + 1) << 1
}

impl<T> ObjectLock<T> {
    /// A lock that nobody has.
    pub fn new(value: T) -> ObjectLock<T> {
        ObjectLock { word: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Waits for the lock. None in the child of a fork at which another thread had it.
    pub fn lock(&self) -> Option<ObjectGuard<'_, T>> {
        let held = held_here();
        let mut seen = match self.exchange(FREE, held) {
            Ok(_) => return Some(ObjectGuard { lock: self }),
            Err(word) => word,
        };
        loop {
            match seen {
                // Others may still wait, whom this thread does not know of.
                FREE => match self.exchange(FREE, held | AWAITED) {
                    Ok(_) => return Some(ObjectGuard { lock: self }),
                    Err(word) => seen = word,
                },
                word if word & !AWAITED != held => return None,
                word if word & AWAITED == 0 => match self.exchange(word, word | AWAITED) {
                    Ok(_) => seen = word | AWAITED,
                    Err(word) => seen = word,
                },
                word => {
                    atomic_wait::wait(&self.word, word);
                    seen = self.word.load(Ordering::Relaxed);
                }
            }
        }
    }

    /// As [`ObjectLock::lock`], or FAILED_PRECONDITION with `why`.
    pub fn lock_or(&self, why: &str) -> Result<ObjectGuard<'_, T>> {
        self.lock().ok_or_else(|| Error::precondition(why))
    }

    fn exchange(&self, from: u32, to: u32) -> std::result::Result<u32, u32> {
        self.word.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed)
    }
}

impl<T: Default> Default for ObjectLock<T> {
    fn default() -> ObjectLock<T> {
        ObjectLock::new(T::default())
    }
}

impl<T> fmt::Debug for ObjectLock<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ObjectLock").field("word", &self.word).finish_non_exhaustive()
    }
}

/// An [`ObjectLock`] that this thread has.
pub struct ObjectGuard<'a, T> {
    lock: &'a ObjectLock<T>,
}

impl<'a, T> ObjectGuard<'a, T> {
    /// Gives the lock back, waits until something has changed since, and takes it again.
    pub fn wait(self, changes: &Changes) -> ObjectGuard<'a, T> {
        // While this thread has the lock nothing changes.
        let (lock, seen) = (self.lock, changes.0.load(Ordering::Relaxed));
        drop(self);
        atomic_wait::wait(&changes.0, seen);
        lock.lock().expect("a thread that waits is in the process in which it had the lock")
    }
}

/// What threads wait for that give a lock back meanwhile: that something changes under it.
#[derive(Debug, Default)]
pub struct Changes(AtomicU32);

impl Changes {
    /// Wakes all who wait. Called after the change.
    pub fn announce(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        atomic_wait::wake_all(&self.0);
    }
}

// SAFETY: it gives `&T` to those who share it.
unsafe impl<T: Sync> Sync for ObjectGuard<'_, T> {}

impl<T> Drop for ObjectGuard<'_, T> {
    fn drop(&mut self) {
        // Release: whoever takes it next sees what was written under it.
        if self.lock.word.swap(FREE, Ordering::Release) & AWAITED != 0 {
            atomic_wait::wake_one(&self.lock.word);
        }
    }
}

impl<T> Deref for ObjectGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread has the lock, so nobody else gets at the value.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for ObjectGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and this guard is borrowed alone.
        unsafe { &mut *self.lock.value.get() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::executor::fork::tests::in_a_child;

    #[test]
    fn one_thread_at_a_time_has_it() {
        const ROUNDS: u32 = 20_000;
        let lock = ObjectLock::new((0, 0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        let mut pair = lock.lock().unwrap();
                        assert_eq!(pair.0, pair.1);
                        pair.0 += 1;
                        std::hint::spin_loop();
                        pair.1 += 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock().unwrap(), (4 * ROUNDS, 4 * ROUNDS));
    }

    #[test]
    fn who_waits_sleeps_until_it_is_free() {
        let lock = ObjectLock::new(0);
        std::thread::scope(|scope| {
            let mut held = lock.lock().unwrap();
            let waiting: Vec<_> = (0..3).map(|_| scope.spawn(|| *lock.lock().unwrap())).collect();
            while lock.word.load(Ordering::Relaxed) & AWAITED == 0 {
                std::thread::yield_now();
            }
            *held = 1;
            drop(held);
            waiting.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), 1));
        });
    }

    #[test]
    fn who_waits_for_a_change_gives_the_lock_to_others() {
        let (lock, changes) = (ObjectLock::new(0), Changes::default());
        std::thread::scope(|scope| {
            for number in 0..3 {
                let (lock, changes) = (&lock, &changes);
                scope.spawn(move || {
                    let mut value = lock.lock().unwrap();
                    while *value != number {
                        value = value.wait(changes);
                    }
                    *value += 1;
                    drop(value);
                    changes.announce();
                });
            }
        });
        assert_eq!(*lock.lock().unwrap(), 3);
    }

    #[test]
    fn a_panic_under_it_leaves_it_usable() {
        let lock = ObjectLock::new(1);
        let panics = || {
            let _held = lock.lock();
            panic!("with the lock");
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert_eq!(*lock.lock().unwrap(), 1);
    }

    #[test]
    fn a_child_does_not_wait_for_threads_that_it_does_not_have() {
        let lock = ObjectLock::new(1);
        let had_one =
            || lock.lock().is_some_and(|mut value| std::mem::replace(&mut *value, 2) == 1);
        assert!(in_a_child(had_one));
        let held = lock.lock().unwrap();
        assert!(in_a_child(|| lock.lock().is_none()));
        assert!(in_a_child(
            || lock.lock_or("the reason").err().unwrap().to_string() == "the reason"
        ));
        drop(held);
        assert!(in_a_child(|| lock.lock().is_some()));
        assert_eq!(*lock.lock().unwrap(), 1);
    }

    /// Nor if others of the parent's waited for it at the fork.
    #[test]
    fn a_child_of_a_fork_with_threads_that_wait_does_not_wait() {
        let lock = ObjectLock::new(());
        std::thread::scope(|scope| {
            let held = lock.lock().unwrap();
            scope.spawn(|| drop(lock.lock().unwrap()));
            while lock.word.load(Ordering::Relaxed) & AWAITED == 0 {
                std::thread::yield_now();
            }
            assert!(in_a_child(|| lock.lock().is_none()));
            drop(held);
        });
    }

    /// However long those of its own keep the lock.
    #[test]
    fn a_child_waits_for_its_own_threads() {
        let lock = ObjectLock::new(0);
        assert!(in_a_child(|| {
            std::thread::scope(|scope| {
                let (taken, is_taken) = mpsc::channel();
                let lock = &lock;
                scope.spawn(move || {
                    let mut value = lock.lock().unwrap();
                    taken.send(()).unwrap();
                    std::thread::sleep(Duration::from_millis(50));
                    *value = 1;
                });
                is_taken.recv().is_ok() && lock.lock().is_some_and(|value| *value == 1)
            })
        }));
    }

    /// Of a child's child the child is the parent.
    #[test]
    fn each_process_has_threads_of_its_own() {
        let lock = ObjectLock::new(());
        assert!(in_a_child(|| {
            let held = lock.lock();
            let refused = in_a_child(|| lock.lock().is_none());
            drop(held);
            refused && in_a_child(|| lock.lock().is_some())
        }));
    }

    /// At whichever instant of taking it and giving it back the fork comes.
    #[test]
    fn forks_beside_a_busy_thread_leave_children_with_an_answer() {
        let lock = ObjectLock::new(());
        let (stop, stopped) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let lock = &lock;
            scope.spawn(move || {
                while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
                    drop(lock.lock());
                }
            });
            for _ in 0..50 {
                // An alarm ends a child that waits.
                assert!(in_a_child(|| {
                    drop(lock.lock());
                    true
                }));
            }
            drop(stop);
        });
    }
}
