//! What a replica's thread does with a step, and what whoever is last does with an abandoned one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::context::{Frame, with_frame};
use super::panic::panicked;
use super::protocol::rendezvous::Departure;
use super::step::{Callback, ReplicaContext, Role, StepRecord};
use super::threads::Job;
use crate::error::{Error, Result};
use crate::observe::log::{self, Level};
use crate::observe::report::{Meter, Opened};
use crate::observe::{self, Phase};
use crate::values::Value;

impl Job for StepRecord {
    /// Runs the callback of `replica` on this thread, to its end.
    fn execute(self: Arc<Self>, replica: usize) {
        let part = self.desks[replica].lock().part.take();
        let (outcome, part) = match part {
            Some(part) => self.call(part),
            None => (Err(Error::Internal("a replica was woken without a step".into())), None),
        };
        if outcome.is_err() {
            self.stopping.store(true, Ordering::Relaxed);
        }
        {
            let mut desk = self.desks[replica].lock();
            desk.outcome = Some(outcome);
            desk.part = part;
            desk.viewed.clear();
        }
        self.pass_device(replica);
        let departure = self.rendezvous.finish(replica);
        if departure == Departure::LateAndLast {
            self.drain(replica);
        } else if replica == 0 && departure == Departure::InTime {
            // It makes no variable any more that another replica may wait for.
            self.creations.look_again();
        }
    }
}

impl StepRecord {
    fn call(&self, part: Role) -> (Result<Option<Value>>, Option<Role>) {
        let Role { callback, context, frame, measured } = part;
        if self.rendezvous.is_abandoned() {
            let late = Err(Error::Cancelled("the run was over before this replica began".into()));
            return (late, Some(Role { callback, context, frame, measured }));
        }
        let Some(frame) = frame else {
            return (Err(Error::Internal("a replica was woken twice for one step".into())), None);
        };
        let call = || {
            with_frame(Frame::Replica(frame), || {
                context.strategy().begin_serving(context.replica(), context.inline);
                on_device(&callback, &context)
            })
        };
        let call = || {
            catch_unwind(AssertUnwindSafe(call))
                .unwrap_or_else(|panic| (Err(panicked(panic)), None))
        };
        let (outcome, frame) = match measured {
            Some(opened) => measure(opened, &context, call),
            None => {
                let _compute = observe::span(Phase::Compute);
                call()
            }
        };
        let frame = match frame {
            Some(Frame::Replica(frame)) => Some(frame),
            _ => None,
        };
        let outcome = match context.strategy().is_strict() {
            true => self.inspected(context.replica(), outcome),
            false => outcome,
        };
        (outcome, Some(Role { callback, context, frame, measured }))
    }

    /// The outcome of a callback of a strict strategy, unless that is a success and a mistake is found.
    fn inspected(&self, replica: usize, outcome: Result<Option<Value>>) -> Result<Option<Value>> {
        let guards = self.desks[replica].lock().guards.take();
        let Some(mut guards) = guards else { return outcome };
        let found = guards.finish(replica);
        self.desks[replica].lock().guards = Some(guards);
        match (outcome, found) {
            (outcome, Ok(())) => outcome,
            (Ok(_), Err(mistake)) if !self.rendezvous.is_abandoned() => Err(mistake),
            (outcome, Err(mistake)) => {
                log::log(Level::Error, || format!("found beside another failure: {mistake}"));
                outcome
            }
        }
    }

    /// The coordinator of an abandoned step leaves it.
    pub fn leave(&self) {
        if self.rendezvous.leave() == Departure::LateAndLast {
            self.drain(self.replicas());
        }
    }

    /// Lets go of what an abandoned step held, as the last one present; only then does its strategy
    /// take other steps. `last` is the replica whose thread this is.
    fn drain(&self, last: usize) {
        self.last.store(last, Ordering::Relaxed);
        let Some(strategy) = self.with_task(|task| task.strategy.clone()) else { return };
        // What the caller gave to the run is released by functions of the caller's. They may
        // call back, but must not wait for this step.
        let frame = Frame::Release { strategy: strategy.id() };
        let release = || with_frame(frame, || drop(self.clear()));
        if let Err(panic) = catch_unwind(AssertUnwindSafe(release)) {
            log::log(Level::Error, || {
                format!("releasing what an abandoned run held: {}", panicked(panic))
            });
        }
        strategy.inner().steps.draining.end(std::ptr::from_ref(self).cast());
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

/// Calls back. A replica on a GPU has the GPU's context meanwhile, and is done when its GPU is: what the
/// callback has queued counts as its work, and what goes wrong there as its failure.
fn on_device(callback: &Callback, context: &ReplicaContext) -> Result<Option<Value>> {
    let Some(gpu) = context.strategy().gpu(context.replica()) else {
        return callback.call(context);
    };
    let _entered = gpu.card().enter()?;
    let outcome = callback.call(context);
    // Also of a callback that failed: its arguments may be released once it is back.
    let done = gpu.synchronize();
    outcome.and_then(|result| done.map(|()| result))
}
