//! How a replica's thread executes a step, and how the last thread drains an abandoned one.

#![expect(
    unsafe_code,
    reason = "a replica takes its turn at what the step has for it"
)]

use std::sync::atomic::Ordering;

use super::panic::caught;
use super::threads::ReplicaJob;
use super::trace::Transition;
use crate::context::{Frame, with_frame};
use crate::protocol::rendezvous::Departure;
use crate::setup::central_storage::Strategy;
use crate::step::{Callback, ReplicaContext, ReplicaTask, StepRecord, Task};
use umbo_base::error::{Error, Result};
use umbo_base::observe::log::{self, Level};
use umbo_base::observe::{self, Phase};
use umbo_diagnose::report::{Meter, Opened};
use umbo_tensor::values::Value;

impl ReplicaJob for StepRecord {
    /// Runs the callback of `replica` on this thread, to its end, and then those of replicas that
    /// have waited for its device and not begun.
    fn execute(&self, replica: usize) {
        let mut next = self.execute_on(None, replica);
        while let Some(waiting) = next {
            if self.with_task(|task| task.place.depth) != Some(0) {
                // The replica's thread waits around this step, and resumes once it has run here.
                return self.begin(waiting);
            }
            next = self.execute_on(Some(replica), waiting);
        }
    }
}

impl StepRecord {
    /// Runs the callback of `replica` on this thread, which may belong to the replica `before`.
    /// Returns the replica that has the device next, if it has not begun.
    fn execute_on(&self, before: Option<usize>, replica: usize) -> Option<usize> {
        self.rendezvous.begin(replica);
        self.note(Transition::Start(replica));
        let slot = &self.slots[replica];
        // SAFETY: the replica has its turn, which was posted to this thread, or is on its
        // coordinator's, or was passed on here, until it finishes.
        let (outcome, inline) = match unsafe { slot.task.get() } {
            Some(task) => {
                if let Some(before) = before {
                    slot.thread.store(before, Ordering::Relaxed);
                    task.context.inline =
                        before == 0 && self.with_task(Task::is_inline) == Some(true);
                }
                // SAFETY: as above.
                unsafe { slot.begin_local() };
                (self.call(task), task.context.inline)
            }
            None => {
                let error = Error::Internal("a replica was woken without a step".into());
                (Err(error), false)
            }
        };
        let failed = outcome.is_err();
        if failed {
            slot.failed.store(true, Ordering::Relaxed);
            self.stopping.store(true, Ordering::Relaxed);
        }
        if let Some(outcome) = outcome.transpose() {
            // SAFETY: as above.
            *unsafe { slot.outcome.get() } = Some(outcome);
        }
        // SAFETY: as above.
        let sequence = unsafe {
            slot.clear_local();
            slot.sequence.get()
        };
        if *sequence > 0 {
            *sequence = 0;
        }
        self.note(Transition::Return(replica, failed));
        let next = self.pass_device(replica);
        let departure = match inline {
            true => self.rendezvous.finish_as_coordinator(replica),
            false => self.rendezvous.finish(replica),
        };
        if departure == Departure::LateAndLast {
            self.drain(replica);
        } else if replica == 0 && departure == Departure::InTime && self.replicas() > 1 {
            // It makes no variable any more that another replica may wait for.
            self.creations.check_again();
        }
        next
    }

    fn call(&self, task: &ReplicaTask) -> Result<Option<Value>> {
        let ReplicaTask {
            callback,
            context,
            measured,
        } = task;
        if self.rendezvous.is_abandoned() {
            return Err(Error::Cancelled(
                "the run was over before this replica began".into(),
            ));
        }
        context.guard_batch()?;
        let call = || {
            // SAFETY: the frame is left before the context goes.
            let frame = Frame::Replica(unsafe { context.lent() });
            with_frame(frame, || {
                context
                    .strategy()
                    .begin_serving(context.replica(), context.inline);
                on_device(callback, context)
            })
        };
        let call = || caught(call);
        let outcome = match *measured {
            Some(opened) => measure(opened, context, call),
            None => {
                let _compute = observe::span(Phase::Compute);
                call()
            }
        };
        match context.strategy().is_strict() {
            true => self.inspected(context.replica(), outcome),
            false => {
                if context.looks_at_views() {
                    context.check_first_views();
                }
                outcome
            }
        }
    }

    /// The outcome of a callback of a strict strategy, unless that is a success and a mistake is
    /// found.
    fn inspected(&self, replica: usize, outcome: Result<Option<Value>>) -> Result<Option<Value>> {
        // SAFETY: the replica's turn, until it finishes, on this thread.
        let local = || unsafe { self.slots[replica].local() };
        let Some(mut guards) = local().guards.take() else {
            return outcome;
        };
        let found = guards.finish(replica);
        local().guards = Some(guards);
        match (outcome, found) {
            (outcome, Ok(())) => outcome,
            (Ok(_), Err(mistake)) if !self.rendezvous.is_abandoned() => Err(mistake),
            // The callback may have returned this mistake as its own error.
            (Err(failure), Err(mistake)) if failure.to_string().contains(&mistake.to_string()) => {
                Err(failure)
            }
            (outcome, Err(mistake)) => {
                log::log(Level::Error, || {
                    format!("found along with another failure: {mistake}")
                });
                outcome
            }
        }
    }

    /// The coordinator of an abandoned step leaves it.
    pub fn leave(&self) {
        self.note(Transition::Leave);
        if self.rendezvous.leave() == Departure::LateAndLast {
            self.drain(self.replicas());
        }
    }

    /// Releases what an abandoned step held, on the last thread present; only then does its
    /// strategy take other steps. `last` is the replica whose thread this is.
    fn drain(&self, last: usize) {
        self.note(Transition::Drain);
        self.last.store(last, Ordering::Relaxed);
        let of_task = |task: &Task| (Strategy::clone(&task.strategy), task.place.depth > 0);
        let Some((strategy, is_nested)) = self.with_task(of_task) else {
            return;
        };
        // The caller's functions release what the caller passed to the run. They may call the
        // library, but must not wait for this step.
        let frame = Frame::Release {
            strategy: strategy.id(),
        };
        let release = || {
            with_frame(frame, || drop(self.clear()));
            Ok(())
        };
        if let Err(panic) = caught(release) {
            log::log(Level::Error, || {
                format!("releasing what an abandoned run held: {panic}")
            });
        }
        strategy
            .inner()
            .steps
            .draining
            .end(std::ptr::from_ref(self).cast(), is_nested);
    }
}

/// Calls back, and notes for the report of the strategy what that took.
fn measure<R>(opened: Opened, context: &ReplicaContext, call: impl FnOnce() -> R) -> R {
    let meter = Meter::start(opened);
    let result = call();
    let (sample, start) = meter.stop();
    let strategy = context.strategy();
    let recorder = &strategy.inner().steps.recorder;
    let place = recorder.place(strategy.id(), context.step_number());
    recorder.note(place, context.replica(), sample, start);
    result
}

/// Calls back. A replica outside of the host is done when its device is: what the callback has
/// queued there counts as its work, and what goes wrong there as its failure.
fn on_device(callback: &Callback, context: &ReplicaContext) -> Result<Option<Value>> {
    if context.device().is_host_memory() {
        return callback.call(context);
    }
    let backend = context.strategy().backend(context.replica());
    let _entered = backend.enter()?;
    let outcome = callback.call(context);
    // This is done after a failed callback, too: its arguments may be released once it has
    // returned.
    let done = backend.synchronize();
    outcome.and_then(|result| done.map(|()| result))
}
