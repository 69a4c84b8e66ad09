//! Threads that call one function for many items, with a chosen number of calls at once.
//!
//! The calls may wait for files, for the network, for elements of another iterator, or for a pool
//! of their own. So the number of a pool's threads is that of the calls that may run at once, and
//! not that of the processors. A pool does not share its threads, so that a waiting call delays no
//! other work. A thread that waits never starts another call in the meantime. In a work-stealing
//! pool it would, and the new call might wait for the one below it on the same stack.

use std::collections::VecDeque;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::thread::{self, Handle, Purpose, ThreadOptions};
use umbo_base::error::{Error, Result};
use umbo_base::observe;

/// The outcome of a call: its result, or the panic with which it ended.
pub type Outcome<R> = std::thread::Result<R>;

/// A function and the threads that call it. The threads start when they are first needed and end
/// with the pool. Between calls they sleep.
pub struct Pool<T, R> {
    name: &'static str,
    shared: Arc<Shared<T, R>>,
    threads: Vec<Handle>,
}

struct Shared<T, R> {
    function: Box<dyn Fn(T) -> R + Send + Sync>,
    /// The state of the calls. No code of the caller runs under its lock.
    calls: Mutex<Calls<T, R>>,
    /// Threads wait here for calls to make, or for the end of the pool.
    wanted: Condvar,
    /// The caller waits here for the last outcome.
    finished: Condvar,
}

struct Calls<T, R> {
    /// The items that no thread has taken, with their positions.
    waiting: VecDeque<(usize, T)>,
    /// The outcomes, by their positions.
    outcomes: Vec<Option<Outcome<R>>>,
    /// The number of items that have no outcome yet.
    missing: usize,
    stop: bool,
}

impl<T: Send + 'static, R: Send + 'static> Pool<T, R> {
    /// A pool without threads. Its threads will have this name.
    pub fn new(
        name: &'static str,
        function: impl Fn(T) -> R + Send + Sync + 'static,
    ) -> Pool<T, R> {
        let calls = Calls {
            waiting: VecDeque::new(),
            outcomes: Vec::new(),
            missing: 0,
            stop: false,
        };
        let shared = Arc::new(Shared {
            function: Box::new(function),
            calls: Mutex::new(calls),
            wanted: Condvar::new(),
            finished: Condvar::new(),
        });
        Pool {
            name,
            shared,
            threads: Vec::new(),
        }
    }

    /// Starts threads until there are `count`, or as many as the system allows.
    ///
    /// RESOURCE_EXHAUSTED if there is no thread, or no memory; the next call tries again.
    pub fn grow(&mut self, count: usize) -> Result<()> {
        while self.threads.len() < count {
            let shared = Arc::clone(&self.shared);
            let options = ThreadOptions::new(self.name, Purpose::Pool);
            match thread::spawn(&options, move || shared.serve()) {
                Ok(thread) => self.threads.push(thread),
                Err(_) if !self.threads.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Calls the function for each of `items`, which is empty afterwards, and calls `take` with the
    /// outcomes in the order of the items. As many calls run at once as the pool has threads.
    /// Blocks until all calls have ended. It allocates only if `items` is longer than ever
    /// before.
    ///
    /// A pool that has not been grown has no thread to make the calls, so [`Pool::grow`] must be
    /// called first.
    pub fn call(&mut self, items: &mut Vec<T>, take: impl FnMut(Outcome<R>)) -> Result<()> {
        if items.is_empty() {
            return Ok(());
        }
        self.grow(1)?;
        let mut calls = self.shared.calls.lock();
        let exhausted = |_| Error::no_memory_for("parallel calls");
        calls.waiting.try_reserve(items.len()).map_err(exhausted)?;
        calls.outcomes.try_reserve(items.len()).map_err(exhausted)?;
        calls.missing = items.len();
        calls.outcomes.resize_with(items.len(), || None);
        calls.waiting.extend(items.drain(..).enumerate());
        self.shared.wake_one(&calls);
        while calls.missing > 0 {
            self.shared.finished.wait(&mut calls);
        }
        // The outcomes are taken out, so that the caller processes them without the lock.
        let mut outcomes = mem::take(&mut calls.outcomes);
        drop(calls);
        outcomes.drain(..).flatten().for_each(take);
        self.shared.calls.lock().outcomes = outcomes;
        Ok(())
    }
}

impl<T, R> Drop for Pool<T, R> {
    fn drop(&mut self) {
        self.shared.calls.lock().stop = true;
        self.shared.wanted.notify_all();
        for thread in self.threads.drain(..) {
            // A panic of a call is an outcome, so the thread itself does not panic.
            let _ = thread.join();
        }
    }
}

impl<T, R> Shared<T, R> {
    /// Wakes a thread if there is a call for it. Each thread that takes a call wakes another one
    /// for the next call, so that threads are not woken for short calls that are already done.
    fn wake_one(&self, calls: &Calls<T, R>) {
        if !calls.waiting.is_empty() {
            self.wanted.notify_one();
        }
    }

    /// Makes calls until the pool ends.
    fn serve(&self) {
        let mut calls = self.calls.lock();
        loop {
            if calls.stop {
                return;
            }
            let Some((place, item)) = calls.waiting.pop_front() else {
                self.wanted.wait(&mut calls);
                continue;
            };
            self.wake_one(&calls);
            drop(calls);
            // Unwind safety: whatever the panic interrupted belongs to the caller, who receives the
            // panic.
            let outcome = {
                let _share = observe::share("parallel call");
                catch_unwind(AssertUnwindSafe(|| (self.function)(item)))
            };
            calls = self.calls.lock();
            calls.outcomes[place] = Some(outcome);
            calls.missing -= 1;
            if calls.missing == 0 {
                self.finished.notify_one();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::time::Duration;

    use super::*;

    fn called<T: Send + 'static, R: Send + 'static>(
        pool: &mut Pool<T, R>,
        items: Vec<T>,
    ) -> Vec<Outcome<R>> {
        let mut items = items;
        let mut outcomes = Vec::new();
        pool.grow(items.len()).unwrap();
        pool.call(&mut items, |outcome| outcomes.push(outcome))
            .unwrap();
        assert!(items.is_empty());
        outcomes
    }

    #[test]
    fn outcomes_are_in_the_order_of_the_items() {
        let mut pool = Pool::new("umbo-test", |item: u64| {
            std::thread::sleep(Duration::from_millis(10 - item));
            2 * item
        });
        for _ in 0..3 {
            let outcomes = called(&mut pool, (0..8).collect());
            let doubled: Vec<u64> = outcomes
                .into_iter()
                .map(|outcome| outcome.unwrap())
                .collect();
            assert_eq!(doubled, [0, 2, 4, 6, 8, 10, 12, 14]);
        }
        assert!(called(&mut pool, Vec::new()).is_empty());
    }

    #[test]
    fn as_many_calls_run_at_once_as_are_asked_for() {
        // The number is larger than that of the processors of any test machine. Each call waits for
        // all others.
        let barrier = Arc::new(Barrier::new(300));
        let of_calls = Arc::clone(&barrier);
        let mut pool = Pool::new("umbo-test", move |()| of_calls.wait().is_leader());
        for _ in 0..2 {
            let outcomes = called(&mut pool, vec![(); 300]);
            assert_eq!(
                outcomes
                    .into_iter()
                    .filter(|led| matches!(led, Ok(true)))
                    .count(),
                1
            );
        }
    }

    #[test]
    fn a_panic_is_the_outcome_of_its_call() {
        let mut pool = Pool::new("umbo-test", |item: i32| {
            assert!(item != 1, "not this one");
            item
        });
        for _ in 0..2 {
            let outcomes = called(&mut pool, vec![0, 1, 2]);
            assert!(matches!(outcomes[0], Ok(0)) && matches!(outcomes[2], Ok(2)));
            assert!(outcomes[1].is_err());
        }
    }

    #[test]
    fn threads_are_bound_to_nothing() {
        use crate::affinity::{bind_current_thread, current_thread_processors, process_processors};
        std::thread::spawn(|| {
            let one = process_processors().processors().take(1).collect();
            bind_current_thread(&one).unwrap();
            let mut pool = Pool::new("umbo-test", |()| current_thread_processors().unwrap());
            for processors in called(&mut pool, vec![(); 4]) {
                assert_eq!(&processors.unwrap(), process_processors());
            }
            assert_eq!(current_thread_processors().unwrap(), one);
        })
        .join()
        .unwrap();
    }
}
