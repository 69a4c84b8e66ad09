//! Tokens by which one thread stops the step that another one runs.

use std::sync::{Arc, Weak};

use umbo_executor::sync::{AtomicBool, Mutex, Ordering};

/// A waiting thread that must check again when a token is cancelled.
pub(crate) trait Listener: Send + Sync {
    /// It runs under the token's lock, so it must be short and must not run the caller's code.
    fn wake(&self);
}

/// A cancellation token. Cloning makes another reference to the same one. Cancelling cannot be
/// undone; a token may serve any number of runs, at the same time or one after another.
#[derive(Clone, Default)]
pub struct Cancellation(Arc<TokenState>);

#[derive(Default)]
struct TokenState {
    cancelled: AtomicBool,
    listeners: Mutex<Vec<Weak<dyn Listener>>>,
}

impl Cancellation {
    /// A token that is not cancelled.
    pub fn new() -> Cancellation {
        Cancellation::default()
    }

    /// Cancels: runs with this token return CANCELLED, now and later. Any thread may call it, any
    /// number of times; it does not wait for them.
    pub fn cancel(&self) {
        let listeners = self.0.listeners.lock();
        self.0.cancelled.store(true, Ordering::SeqCst);
        // Under the lock: a waiter that has left is not woken any more.
        for listener in listeners.iter() {
            if let Some(listener) = listener.upgrade() {
                listener.wake();
            }
        }
    }

    /// Whether the token is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::SeqCst)
    }

    /// Wakes `listener` when the token is cancelled, while the result lives; at once if it is
    /// cancelled already.
    pub(crate) fn listen(&self, listener: Arc<dyn Listener>) -> Listening<'_> {
        let mut listeners = self.0.listeners.lock();
        listeners.push(Arc::downgrade(&listener));
        if self.is_cancelled() {
            listener.wake();
        }
        Listening {
            token: self,
            listener,
        }
    }
}

/// Listening to a token, which ends with this.
pub(crate) struct Listening<'a> {
    token: &'a Cancellation,
    listener: Arc<dyn Listener>,
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        let mut listeners = self.token.0.listeners.lock();
        let listener = Arc::downgrade(&self.listener);
        if let Some(place) = listeners.iter().position(|other| other.ptr_eq(&listener)) {
            listeners.swap_remove(place);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct WakeCounter(AtomicUsize);

    impl Listener for WakeCounter {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn removed_listeners_are_not_woken() {
        let token = Cancellation::new();
        let [early, late] = [(); 2].map(|()| Arc::new(WakeCounter::default()));
        drop(token.listen(Arc::clone(&early) as _));
        let _listening = token.listen(Arc::clone(&late) as _);
        token.cancel();
        assert_eq!(
            (
                early.0.load(Ordering::SeqCst),
                late.0.load(Ordering::SeqCst)
            ),
            (0, 1)
        );
        let _again = token.listen(Arc::clone(&early) as _);
        assert_eq!(early.0.load(Ordering::SeqCst), 1);
    }
}
