//! What is found out once in a process. Nobody waits for the thread that finds it out: in the child of a
//! fork it may be missing.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::fork;

/// A value that is found out when it is first asked for.
#[derive(Debug)]
pub struct FoundOnce<T> {
    value: OnceLock<T>,
    /// The process in which it was first asked for, counted in forks from 1; 0 if it was not.
    asked_in: AtomicU64,
}

impl<T> FoundOnce<T> {
    /// A value that nobody has asked for.
    pub const fn new() -> FoundOnce<T> {
        FoundOnce { value: OnceLock::new(), asked_in: AtomicU64::new(0) }
    }

    /// The value. Threads that ask for it at the same time all call `find`, and the first answer is that of
    /// all. In the child of a fork at which a thread was finding it out it is what `lost` says: whatever
    /// that thread had begun is half done there.
    pub fn get(&self, find: impl FnOnce() -> T, lost: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.value.get() {
            return value;
        }
        let here = fork::generation() + 1;
        let first = self.asked_in.compare_exchange(0, here, Ordering::Relaxed, Ordering::Relaxed);
        let value = match first {
            Err(elsewhere) if elsewhere != here => lost(),
            _ => find(),
        };
        // Only now: who is to find it out while others wait is not to be missing.
        self.value.get_or_init(|| value)
    }
}

impl<T> Default for FoundOnce<T> {
    fn default() -> FoundOnce<T> {
        FoundOnce::new()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::super::fork::tests::in_a_child;
    use super::*;

    #[test]
    fn the_first_answer_is_that_of_all() {
        let found = FoundOnce::new();
        assert_eq!(*found.get(|| 1, || 0), 1);
        assert_eq!(*found.get(|| panic!("it is known"), || 0), 1);
        assert!(in_a_child(|| *found.get(|| 2, || 0) == 1));
    }

    #[test]
    fn a_child_does_not_wait_for_a_thread_of_its_parents() {
        static FOUND: FoundOnce<&str> = FoundOnce::new();
        let (begun, begins) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let finder = std::thread::spawn(move || {
            let find = || {
                begun.send(()).unwrap();
                ends.recv().unwrap();
                "the parent's"
            };
            *FOUND.get(find, || "lost")
        });
        begins.recv().unwrap();
        assert!(in_a_child(|| *FOUND.get(|| "the child's", || "lost") == "lost"));
        // Here another thread finds it out, too, and is not kept waiting.
        assert_eq!(*FOUND.get(|| "another one's", || "lost"), "another one's");
        end.send(()).unwrap();
        assert_eq!(finder.join().unwrap(), "another one's");
        assert!(in_a_child(|| *FOUND.get(|| "new", || "lost") == "another one's"));
    }
}
