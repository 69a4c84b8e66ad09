//! Taking turns: one thread at a time takes a strategy's steps or changes its central state.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{FairMutex, FairMutexGuard};

use super::run::Limits;
use crate::error::{Error, Result};

/// A strategy's turns. Threads that wait for one get it in the order in which they came.
pub(super) struct Turns {
    /// The number of the last step.
    steps: FairMutex<u64>,
    /// Which thread has the turn, by [`this_thread`]; 0 if none.
    holder: AtomicUsize,
}

/// The right to take steps and to change central state, until it is dropped.
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    steps: FairMutexGuard<'a, u64>,
}

impl Turns {
    /// Of a strategy that has taken no step.
    pub(super) fn new() -> Turns {
        Turns { steps: FairMutex::new(0), holder: AtomicUsize::new(0) }
    }

    /// Waits for this thread's turn.
    ///
    /// Fails if `limits` end the wait, and if this thread has the turn: then it is in a function of
    /// the caller's that an apply calls, such as a schedule, and would wait for itself.
    pub(super) fn take(&self, limits: &Limits) -> Result<Turn<'_>> {
        // Only this thread stores its own number, and takes it away again.
        if self.holder.load(Ordering::Relaxed) == this_thread() {
            return Err(Error::precondition(
                "strategy: called from a function that the strategy calls while it changes central \
                 state, such as a learning-rate schedule; call it after that has returned",
            ));
        }
        let steps = self.lock(limits)?;
        self.holder.store(this_thread(), Ordering::Relaxed);
        Ok(Turn { turns: self, steps })
    }

    fn lock(&self, limits: &Limits) -> Result<FairMutexGuard<'_, u64>> {
        const LOOK: Duration = Duration::from_millis(2);
        if !limits.is_bounded() {
            return Ok(self.steps.lock());
        }
        loop {
            if let Some(why) = limits.exceeded() {
                return Err(why);
            }
            let until = Instant::now() + LOOK;
            let until = limits.deadline.map_or(until, |deadline| deadline.min(until));
            if let Some(guard) = self.steps.try_lock_until(until) {
                return Ok(guard);
            }
        }
    }
}

impl Turn<'_> {
    /// The number of the step that begins now.
    pub(super) fn next_step(&mut self) -> u64 {
        *self.steps += 1;
        *self.steps
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.holder.store(0, Ordering::Relaxed);
    }
}

/// A number other than 0 that no other thread has while this one lives.
fn this_thread() -> usize {
    thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| std::ptr::from_ref(place).addr())
}
