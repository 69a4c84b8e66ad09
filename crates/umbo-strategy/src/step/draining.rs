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
    /// Whether there are abandoned steps. Those that open or are abandoned have the step lock.
    drains: AtomicBool,
    /// Whether memory may be deferred.
    keeps: AtomicBool,
}

impl Draining {
    /// A step opens. Memory of variables is kept from now on. Returns the late replicas instead if
    /// the strategy drains.
    #[inline]
    pub fn open_step(&self) -> Result<(), Vec<usize>> {
        self.check()?;
        // Whoever releases a variable that a callback of this step has got from a handle, or from a
        // reference, comes after that, and so after this.
        self.in_flight.store(true, Ordering::Release);
        Ok(())
    }

    /// The open step has ended with all of its callbacks: memory that was kept for them is given
    /// back.
    #[inline]
    pub fn close_step(&self) {
        self.in_flight.store(false, Ordering::SeqCst);
        // Either this sees the memory, or whoever keeps it sees that no step is in flight.
        if self.keeps.load(Ordering::SeqCst) {
            self.give_back();
        }
    }

    /// Gives back the memory that was kept.
    #[cold]
    fn give_back(&self) {
        let mut state = self.state.lock();
        self.keeps.store(false, Ordering::SeqCst);
        let deferred = mem::take(&mut state.deferred);
        drop(state);
        drop(deferred);
    }

    /// The open step, or a nested one, is abandoned. Call it before the step's coordinator leaves.
    pub fn begin(&self, step: Arc<dyn Abandonable>) {
        let mut state = self.state.lock();
        state.steps.push(step);
        self.drains.store(true, Ordering::Release);
    }

    /// An abandoned step was drained, and all that it held is gone. If it was a nested one, the
    /// step around it is still open, or an abandoned one that is drained after it, and its
    /// callbacks may hold plain pointers.
    pub fn end(&self, step: *const (), is_nested: bool) {
        let mut state = self.state.lock();
        state
            .steps
            .retain(|other| Arc::as_ptr(other).cast::<()>() != step);
        if !state.steps.is_empty() {
            return;
        }
        let mut deferred = Vec::new();
        if !is_nested {
            // This is stored before any thread can open a step again.
            self.in_flight.store(false, Ordering::SeqCst);
            self.keeps.store(false, Ordering::SeqCst);
            deferred = mem::take(&mut state.deferred);
        }
        self.drains.store(false, Ordering::Release);
        self.drained.notify_all();
        drop(state);
        drop(deferred);
    }

    /// The replicas that have not come back from abandoned steps, each once, in order.
    pub fn late_replicas(&self) -> Vec<usize> {
        late_replicas(&self.state.lock())
    }

    /// Whether no abandoned step is left; if one is, the late replicas.
    #[inline]
    pub fn check(&self) -> Result<(), Vec<usize>> {
        match self.drains.load(Ordering::Acquire) {
            false => Ok(()),
            true => self.check_steps(),
        }
    }

    #[cold]
    fn check_steps(&self) -> Result<(), Vec<usize>> {
        let state = self.state.lock();
        match state.steps.is_empty() {
            true => Ok(()),
            false => Err(late_replicas(&state)),
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
            self.keeps.store(true, Ordering::SeqCst);
            // Checked again, since the last callback may have returned meanwhile.
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

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;

    struct Step;

    impl Abandonable for Step {
        fn late_replicas(&self, late: &mut Vec<usize>) {
            late.push(1);
        }
    }

    fn abandon(draining: &Draining) -> *const () {
        let step = Arc::new(Step);
        draining.begin(Arc::clone(&step) as _);
        Arc::as_ptr(&step).cast()
    }

    /// Whether memory that is released now is kept.
    fn keeps(draining: &Draining) -> bool {
        let before = draining.state.lock().deferred.len();
        draining.keep(&mut iter::once(Tensor::scalar(1.0).unwrap()));
        draining.state.lock().deferred.len() > before
    }

    #[test]
    fn memory_is_kept_while_a_step_is_open() {
        let draining = Draining::default();
        assert!(!keeps(&draining));
        for _ in 0..2 {
            draining.open_step().unwrap();
            assert!(keeps(&draining));
            draining.close_step();
            assert!(!keeps(&draining));
            assert!(draining.state.lock().deferred.is_empty());
        }
    }

    #[test]
    fn memory_is_kept_until_an_abandoned_step_is_drained() {
        let draining = Draining::default();
        draining.open_step().unwrap();
        let step = abandon(&draining);
        assert!(keeps(&draining));
        assert_eq!(draining.open_step(), Err(vec![1]));
        draining.end(step, false);
        assert!(!keeps(&draining));
        assert!(draining.state.lock().deferred.is_empty());
        draining.open_step().unwrap();
    }

    /// The callbacks of the step around an abandoned one are still there when that is drained.
    #[test]
    fn memory_is_kept_past_the_end_of_a_nested_step() {
        for is_abandoned in [false, true] {
            let draining = Draining::default();
            draining.open_step().unwrap();
            let nested = abandon(&draining);
            assert!(keeps(&draining));
            draining.end(nested, true);
            draining.check().unwrap();
            assert!(keeps(&draining));
            assert_eq!(draining.state.lock().deferred.len(), 2);
            if is_abandoned {
                let outer = abandon(&draining);
                draining.end(outer, false);
            } else {
                draining.close_step();
            }
            assert!(!keeps(&draining));
            assert!(draining.state.lock().deferred.is_empty());
        }
    }
}
