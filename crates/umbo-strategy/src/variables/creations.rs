//! The variables that the replicas of one step make: replica 0 makes them, the others wait for
//! them.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use super::creator::CreatorChain;
use parking_lot::{Condvar, Mutex, MutexGuard};
use umbo_tensor::values::variable::Variable;

/// The outcome of a replica's request for a variable.
pub(crate) enum Request {
    /// Replica 0 has made it.
    Made(Variable),
    /// Replica 0 has not made it and cannot before the replicas meet again.
    Missing {
        /// The number of variables of the name the replica has got before.
        position: usize,
    },
    /// The replica should not wait any longer.
    Interrupted,
}

#[derive(Default)]
pub(crate) struct Creations {
    state: Mutex<CreationsState>,
    /// Whether the state may hold anything. It is cleared when all callbacks have returned.
    used: AtomicBool,
    changed: Condvar,
    /// The number of replicas that wait, so that those who might wake them need not take the lock.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct CreationsState {
    /// The variables that replica 0 has made, with canonical names, in order.
    made: Vec<(String, Variable)>,
    /// The variables that the other replicas have got: one entry of replica and canonical name for
    /// each.
    taken: Vec<(usize, String)>,
    /// The creators that the thread which started the run had around it.
    around: CreatorChain,
}

impl Creations {
    /// Prepares for a step of a thread that has these creators around it.
    pub fn open(&self, around: CreatorChain) {
        if !around.is_empty() {
            self.used().around = around;
        }
    }

    /// The creators around the run.
    pub fn around(&self) -> CreatorChain {
        self.state.lock().around.clone()
    }

    /// Forgets everything.
    pub fn clear(&self) {
        if self.used.load(Ordering::Relaxed) {
            self.used.store(false, Ordering::Relaxed);
            let state = mem::take(&mut *self.state.lock());
            drop(state);
        }
    }

    /// The state, which is about to be written.
    fn used(&self) -> MutexGuard<'_, CreationsState> {
        let state = self.state.lock();
        self.used.store(true, Ordering::Relaxed);
        state
    }

    /// Replica 0 has made a variable.
    pub fn announce(&self, name: String, variable: Variable) {
        self.used().made.push((name, variable));
        self.changed.notify_all();
    }

    /// Makes replicas that wait look again: replica 0 has come to a synchronising call or to its
    /// end, or the step is to stop. What they check must be stored before.
    pub fn check_again(&self) {
        // Either this load sees the one that waits, or that one, which looks after its own fence,
        // sees what was stored before this one.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            // A replica that has checked and does not sleep yet holds the lock.
            drop(self.state.lock());
            self.changed.notify_all();
        }
    }

    /// Holds the list of variables.
    #[cfg(test)]
    pub fn hold(&self) -> impl Sized {
        self.state.lock()
    }

    /// Waits for the variable that replica 0 makes under `name`, at the position of this request
    /// among those of `replica` for the name. `stopped` says that replica 0 makes no more for the
    /// time being, `interrupted` that the step is to stop.
    pub fn wait(
        &self,
        replica: usize,
        name: String,
        stopped: impl Fn() -> bool,
        interrupted: impl Fn() -> bool,
    ) -> Request {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut state = self.state.lock();
        let request = loop {
            // To be asked before the list: what replica 0 made before it stopped is in there then.
            let stopped = stopped();
            let position = state
                .taken
                .iter()
                .filter(|(who, requested)| *who == replica && *requested == name)
                .count();
            let made = state
                .made
                .iter()
                .filter(|(made, _)| *made == name)
                .nth(position);
            if let Some(variable) = made.map(|(_, variable)| variable.clone()) {
                self.used.store(true, Ordering::Relaxed);
                state.taken.push((replica, name));
                break Request::Made(variable);
            }
            if interrupted() {
                break Request::Interrupted;
            }
            if stopped {
                break Request::Missing { position };
            }
            self.changed.wait(&mut state);
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        request
    }
}
