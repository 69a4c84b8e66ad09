//! Tokens by which one thread stops the step that another one runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// Something that waits and should look again when a token is cancelled.
pub(super) trait Listener: Send + Sync {
    fn wake(&self);
}

/// A cancellation token. Cloning makes another reference to the same one. Cancelling cannot be
/// undone; a token may serve any number of runs, at the same time or one after another.
#[derive(Clone, Default)]
pub struct Cancellation(Arc<State>);

#[derive(Default)]
struct State {
    cancelled: AtomicBool,
    listeners: Mutex<Vec<Weak<dyn Listener>>>,
}

impl Cancellation {
    /// A token that nobody has cancelled.
    pub fn new() -> Cancellation {
        Cancellation::default()
    }

    /// Cancels: runs with this token return CANCELLED, now and later. Any thread may call it, any
    /// number of times; it does not wait.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::SeqCst);
        for listener in self.0.listeners.lock().drain(..) {
            if let Some(listener) = listener.upgrade() {
                listener.wake();
            }
        }
    }

    /// Whether somebody has cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::SeqCst)
    }

    /// Has `listener` woken when the token is cancelled. Whoever listens looks at the token after
    /// this call and before waiting.
    pub(super) fn listen(&self, listener: Weak<dyn Listener>) {
        let mut listeners = self.0.listeners.lock();
        listeners.retain(|other| other.strong_count() > 0 && !other.ptr_eq(&listener));
        listeners.push(listener);
    }
}
