//! Abandoned steps whose callbacks have not all returned. While there is one, its strategy drains:
//! it takes no other step.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};
use umbo_tensor::Tensor;

/// A step that may be abandoned.
pub(crate) trait Abandonable: Send + Sync {
    /// Appends the replicas whose callbacks have not returned.
    fn late_replicas(&self, late: &mut Vec<usize>);
}

#[derive(Default)]
struct DrainingState {
    steps: Vec<Arc<dyn Abandonable>>,
    /// Memory of variables that were released while a callback may hold plain pointers to them.
    deferred: Vec<Tensor>,
}

/// The abandoned steps of one strategy, and the memory whose reclaim waits for callbacks in flight.
#[derive(Default)]
pub(crate) struct Draining {
    state: Mutex<DrainingState>,
    /// A step was drained.
    drained: Condvar,
    /// Whether a callback may hold plain pointers to variables.
    in_flight: AtomicBool,
}

impl Draining {
    /// A step opens. Memory of variables is kept from now on. Returns the late replicas instead if
    /// the strategy drains.
    pub fn open_step(&self) -> Result<(), Vec<usize>> {
        let state = self.state.lock();
        if !state.steps.is_empty() {
            return Err(late_replicas(&state));
        }
        self.in_flight.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// The open step has ended with all of its callbacks: memory that was kept for them is given
    /// back.
    pub fn close_step(&self) {
        self.in_flight.store(false, Ordering::SeqCst);
        let deferred = mem::take(&mut self.state.lock().deferred);
        drop(deferred);
    }

    /// The open step, or a nested one, is abandoned. Call it before the step's coordinator leaves.
    pub fn begin(&self, step: Arc<dyn Abandonable>) {
        self.state.lock().steps.push(step);
    }

    /// An abandoned step was drained, and all that it held is gone.
    pub fn end(&self, step: *const ()) {
        let mut state = self.state.lock();
        state
            .steps
            .retain(|other| Arc::as_ptr(other).cast::<()>() != step);
        if !state.steps.is_empty() {
            return;
        }
        // This is stored before any thread can open a step again.
        self.in_flight.store(false, Ordering::SeqCst);
        let deferred = mem::take(&mut state.deferred);
        self.drained.notify_all();
        drop(state);
        drop(deferred);
    }

    /// The replicas that have not come back from abandoned steps, each once, in order.
    pub fn late_replicas(&self) -> Vec<usize> {
        late_replicas(&self.state.lock())
    }

    /// Whether no abandoned step is left; if one is, the late replicas.
    pub fn check(&self) -> Result<(), Vec<usize>> {
        let state = self.state.lock();
        if state.steps.is_empty() {
            Ok(())
        } else {
            Err(late_replicas(&state))
        }
    }

    /// Waits until no abandoned step is left.
    pub fn wait(&self) {
        self.drained
            .wait_while(&mut self.state.lock(), |state| !state.steps.is_empty());
    }

    /// Holds the list of abandoned steps.
    #[cfg(test)]
    pub fn hold(&self) -> impl Sized {
        self.state.lock()
    }

    /// Keeps the memory of variables while a callback may hold plain pointers to them.
    pub fn keep(&self, tensors: &mut dyn Iterator<Item = Tensor>) {
        if self.in_flight.load(Ordering::SeqCst) {
            let mut state = self.state.lock();
            // Checked again under the lock, since the last callback may have returned meanwhile.
            if self.in_flight.load(Ordering::SeqCst) {
                state.deferred.extend(tensors);
            }
        }
    }
}

fn late_replicas(state: &DrainingState) -> Vec<usize> {
    let mut late = Vec::new();
    for step in &state.steps {
        step.late_replicas(&mut late);
    }
    late.sort_unstable();
    late.dedup();
    late
}
