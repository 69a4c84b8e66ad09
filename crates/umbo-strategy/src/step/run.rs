//! Running a callback on every replica.

#![expect(
    unsafe_code,
    reason = "a step lends its function to the replicas' threads"
)]

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::lending::{Reference, TurnCell};
pub use super::limits::Limits;
use super::lock::{StepGuard, StepNumber};
use super::panic::caught;
use super::threads::{ReplicaJob, spin_beside};
use super::trace::{self, Transition};
use crate::context::{Frame, check_depth, creators, place_for_run, step_place, with_frame};
use crate::protocol::rendezvous::{ReplicaPhase, WaitOutcome};
use crate::ranks::steps::RemoteExamples;
use crate::setup::central_storage::Strategy;
use crate::step::{
    Callback, FunctionFor, ReplicaFunction, RunUserData, StepPosition, StepRecord, Task,
    TrialObserver,
};
use umbo_base::error::{Error, ReplicaFailure, ReplicaFailures, Result, Status};
use umbo_base::observe::log::{self, Level};
use umbo_base::observe::{self, Phase as Time};
use umbo_tensor::values::Value;

/// How a step has ended.
enum StepExit {
    /// All callbacks have returned.
    Finished,
    /// Its limits were reached before, for this reason. The coordinator is still present.
    Abandoned(Error),
}

impl Strategy {
    /// Runs `function` once on each replica, concurrently, and waits for all. Replica 0 runs on
    /// this thread. The results are merged: structures leaf by leaf, a leaf that is the very same
    /// object on all replicas stays plain, others become per-replica values; with one replica
    /// nothing is wrapped. If any replica fails, central state is as before and the error lists
    /// all replicas that failed.
    ///
    /// FAILED_PRECONDITION inside of a merge call of a run that has limits: such a run may end
    /// before its callbacks have returned, and so may those inside of it, which must therefore
    /// own their function ([`Strategy::run_within`]).
    pub fn run(
        &self,
        function: &FunctionFor<'_>,
        arguments: Option<Value>,
    ) -> Result<Option<Value>> {
        // SAFETY: a step that no limits bound is never abandoned, except by a panic of this
        // library, and `AbandonOnUnwind` waits for the callbacks then; `run_step` refuses to run it
        // inside of another one. So it returns, or unwinds, only after all callbacks did, and
        // `function` is borrowed until then.
        let callback = unsafe { Callback::borrowed(function) };
        self.run_step(Task::new(self, callback, arguments.map(Reference::Counted)))
    }

    /// As [`Strategy::run`], with arguments that are lent for the call.
    pub fn run_on(&self, function: &FunctionFor<'_>, arguments: &Value) -> Result<Option<Value>> {
        // SAFETY: as in `run`; the arguments are borrowed as long as the function.
        let (callback, arguments) = unsafe {
            let callback = Callback::borrowed(function);
            (callback, Reference::lent(arguments))
        };
        self.run_step(Task::new(self, callback, Some(arguments)))
    }

    /// As [`Strategy::run`], for a trial, a step that the caller makes fail: it has the number of
    /// the next step. `watcher` is called for the variables that callbacks read.
    pub fn try_out(
        &self,
        function: &FunctionFor<'_>,
        arguments: Option<Value>,
        watcher: Arc<dyn TrialObserver>,
    ) -> Result<Option<Value>> {
        // SAFETY: as in `run`; the caller is in no step, so in none that has limits.
        let callback = unsafe { Callback::borrowed(function) };
        let mut task = Task::new(self, callback, arguments.map(Reference::Counted));
        task.place.watcher = Some(watcher);
        self.run_step(task)
    }

    /// As [`Strategy::try_out`], with the limits of the run that the trial stands for: it ends by
    /// them as [`Strategy::run_within`] does.
    pub fn try_out_within(
        &self,
        function: Arc<ReplicaFunction>,
        arguments: Option<Value>,
        watcher: Arc<dyn TrialObserver>,
        limits: Limits,
        user_data: Option<RunUserData>,
    ) -> Result<Option<Value>> {
        let arguments = arguments.map(Reference::Counted);
        let mut task = Task::new(self, Callback::Owned(function), arguments);
        task.place.watcher = Some(watcher);
        (task.place.limits, task.user_data) = (limits, TurnCell::new(user_data));
        self.run_step(task)
    }

    /// As [`Strategy::run`], but returns when the limits say so, with the callbacks that are late
    /// left behind. If there are limits every replica runs on a thread of its own. Inside of a
    /// merge call the limits are those of the run around it, and none may be given. `user_data`
    /// is dropped when the last callback is back, or at once if the run could not start.
    pub fn run_within(
        &self,
        function: Arc<ReplicaFunction>,
        arguments: Option<Value>,
        limits: Limits,
        user_data: Option<RunUserData>,
    ) -> Result<Option<Value>> {
        let arguments = arguments.map(Reference::Counted);
        let mut task = Task::new(self, Callback::Owned(function), arguments);
        (task.place.limits, task.user_data) = (limits, TurnCell::new(user_data));
        self.run_step(task)
    }

    /// Whether this thread is in a merge call or an update of a step of this strategy that has
    /// limits: runs that it starts may be abandoned with that step.
    pub fn is_in_bounded_step(&self) -> bool {
        step_place(self.id()).is_some_and(|step| step.limits.is_bounded())
    }

    fn run_step(&self, task: Task) -> Result<Option<Value>> {
        match place_for_run(self.id())? {
            None => self.run_outermost(task),
            Some(outer) if outer.limits.is_bounded() && task.callback.is_borrowed() => {
                Err(Error::precondition(
                    "function: it is borrowed, but the run around this one has a deadline or a \
                     token and may end before the function has returned; pass one that the run \
                     owns",
                ))
            }
            Some(_) if task.place.limits.is_bounded() => Err(invalid!(
                "options",
                "a run inside of a merge call ends with the run around it; give that one the \
                 deadline or the cancellation token"
            )),
            Some(outer) => self
                .run_nested(task, outer)
                .inspect_err(|error| self.poison_after(error)),
        }
    }

    /// Checks that this process can begin the run, and waits for the step lock.
    fn enter_run(&self, task: &Task) -> Result<StepGuard<'_>> {
        self.check_arguments(task.arguments.as_deref())?;
        if task.place.limits.is_bounded() {
            self.ensure_thread(0)?;
        }
        self.enter_step(&task.place.limits)
    }

    fn run_outermost(&self, mut task: Task) -> Result<Option<Value>> {
        let entered = self.enter_run(&task);
        let (mut lock, remote) = if self.ranks().is_alone() {
            (entered?, RemoteExamples::default())
        } else {
            self.open_on_all_ranks(entered, task.arguments.as_deref())?
        };
        let is_trial = task.place.watcher.is_some();
        let number = lock.next_step(is_trial);
        let is_first = !is_trial && self.inner().steps.recorder.begin_first();
        let measured = self.inner().steps.recorder.begin(self.id());
        (task.place.number, task.remote) = (number, remote);
        task.measured = measured.as_ref().map(|run| run.opened);
        self.open_transaction(number.id);
        trace::note(self.id(), number.id, Transition::Begin);
        let record = self.take_record(0);
        match self.carry_out(&record, task) {
            StepExit::Finished => {
                let outcome = self.outcome(&record);
                let result = self.conclude(&mut lock, number, is_trial, Some(&record), outcome);
                let deferred_drops = record.clear();
                self.give_back_record(0, record);
                if let Some(running) = measured {
                    let place = self.inner().steps.recorder.place(self.id(), number.shown);
                    running.finish(place, result.is_ok());
                }
                if is_first {
                    self.inner().steps.recorder.end_first(self.id());
                }
                self.inner().steps.draining.close_step();
                // The user data is dropped after the lock, since its release may call the library.
                drop(lock);
                drop(deferred_drops);
                self.log_outcome(number.shown, result.as_ref().err());
                result
            }
            StepExit::Abandoned(why) => {
                record.keep(self.roll_back(number.id));
                let error = self.fail_on_all_ranks(self.abandoned(&record, why));
                if !is_trial {
                    lock.take_back();
                }
                trace::note(self.id(), number.id, Transition::End);
                drop(lock);
                record.leave();
                self.log_outcome(number.shown, Some(&error));
                Err(error)
            }
        }
    }

    /// Makes all writes of the outermost step central state, or none of them.
    fn conclude<R>(
        &self,
        lock: &mut StepGuard<'_>,
        number: StepNumber,
        is_trial: bool,
        record: Option<&StepRecord>,
        outcome: Result<R>,
    ) -> Result<R> {
        let outcome = match outcome {
            Ok(outcome) => self.commit(number.id, record).map(|()| outcome),
            Err(error) => {
                self.roll_back(number.id);
                Err(self.fail_on_all_ranks(error))
            }
        };
        if outcome.is_err() && !is_trial {
            lock.take_back();
        }
        trace::note(self.id(), number.id, Transition::End);
        outcome
    }

    fn log_outcome(&self, number: u64, error: Option<&Error>) {
        log::log(Level::Debug, || match error {
            None => format!("strategy {}, step {number}: committed", self.id()),
            Some(error) => {
                let status = error.status().name();
                let id = self.id();
                format!("strategy {id}, step {number}: rolled back after {status}: {error}")
            }
        });
    }

    fn run_nested(&self, mut task: Task, outer: StepPosition) -> Result<Option<Value>> {
        if let Some(why) = outer.limits.exceeded() {
            return Err(why.within("before its callbacks were called"));
        }
        task.remote = self.begin_nested(task.arguments.as_deref())?;
        task.place = StepPosition {
            depth: outer.depth + 1,
            ..outer
        };
        let depth = task.place.depth;
        let record = self.take_record(depth);
        match self.carry_out(&record, task) {
            StepExit::Finished => {
                let result = self.outcome(&record);
                if result.is_ok() {
                    self.add_nested_metrics(&record);
                }
                let deferred_drops = record.clear();
                self.give_back_record(depth, record);
                drop(deferred_drops);
                result
            }
            StepExit::Abandoned(why) => {
                let error = self.abandoned(&record, why);
                record.leave();
                Err(error)
            }
        }
    }

    /// Opens the step and has it run to one of its endings.
    #[inline]
    fn carry_out(&self, record: &Arc<StepRecord>, task: Task) -> StepExit {
        let inline = task.is_inline();
        let limits = task.place.limits.clone();
        record.creations.open(creators(self));
        record.open(task);
        record.note(Transition::Open);
        // From here on a token reaches this step, and not any more when this function returns.
        let _listening = limits
            .cancellation
            .as_ref()
            .map(|token| token.listen(Arc::clone(record) as _));
        let present = AbandonOnUnwind(record);
        record.dispatch(usize::from(inline));
        if inline {
            record.execute(0);
        }
        let ending = self.coordinate(record, inline, &limits);
        mem::forget(present);
        ending
    }

    /// Serves merge calls until all callbacks have returned, or abandons the step and returns the
    /// reason.
    fn coordinate(&self, record: &Arc<StepRecord>, inline: bool, limits: &Limits) -> StepExit {
        loop {
            let threads = &self.inner().threads;
            let spin = match inline {
                true => spin_beside(threads.turns.as_deref(), 0, threads.idle_spin),
                false => threads.watching_spin,
            };
            let spin = record.coordinator_spin(spin, usize::from(inline));
            let outcome = {
                let _wait = observe::span(Time::Wait);
                record
                    .rendezvous
                    .wait_for_all(spin, limits.deadline, || limits.exceeded().is_some())
            };
            match outcome {
                WaitOutcome::Finished => {
                    record.note(Transition::Finish);
                    return StepExit::Finished;
                }
                WaitOutcome::Waiting => record.serve(),
                WaitOutcome::Abandoned => {
                    record.note(Transition::Abandon);
                    record.stopping.store(true, Ordering::Relaxed);
                    record.notify_all();
                    return StepExit::Abandoned(limits.exceeded().unwrap_or_else(|| {
                        Error::Internal("a run was given up without a reason".into())
                    }));
                }
            }
        }
    }

    /// The merged results of a step whose callbacks have all returned, or their failures.
    fn outcome(&self, record: &StepRecord) -> Result<Option<Value>> {
        let (verdict, exceeded) = record.judge();
        if let Some(error) = verdict.merge_error {
            return Err(error);
        }
        if record.slots.iter().any(|slot| slot.has_failed()) || verdict.disagreement.is_some() {
            return Err(self.failures(record, verdict.disagreement));
        }
        // Whether the callbacks or this thread saw it first is chance, and must not decide. A
        // callback that was asked to stop may have left its work half done.
        if let Some(why) = exceeded {
            let stopped_early = record.slots.iter().any(|slot| slot.is_stop_requested());
            return Err(if stopped_early {
                self.stopped_early(record, &why)
            } else {
                why
            });
        }
        // SAFETY: all callbacks have returned, so that it is the coordinator's turn.
        let outcomes = record
            .slots
            .iter()
            .map(|slot| unsafe { slot.outcome.get() });
        let given = outcomes.clone().filter(|outcome| outcome.is_some()).count();
        if given == 0 {
            return Ok(None);
        }
        if given < record.replicas() {
            return Err(invalid!(
                "result",
                "{given} of {} replicas returned a value; all or none must",
                record.replicas()
            ));
        }
        let parts: Vec<Value> = outcomes
            .filter_map(|outcome| outcome.take()?.ok())
            .collect();
        let merged = Value::merge(&parts, false, "result")?;
        // The only replica of this rank may be one of many.
        match parts.len() == 1 && !self.ranks().is_alone() {
            true => merged.of_replicas().map(Some),
            false => Ok(Some(merged)),
        }
    }

    fn stopped_early(&self, record: &StepRecord, why: &Error) -> Error {
        let stopped = record
            .slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.is_stop_requested());
        let failures = stopped.map(|(replica, _)| {
            let error = Error::Cancelled("returned after it was told to stop".into());
            self.failure(replica, true, error)
        });
        failed(failures.collect(), why.to_string(), Some(why.status()))
    }

    fn failure(&self, replica: usize, stopped: bool, error: Error) -> ReplicaFailure {
        let device = self.inner().devices.names[replica].clone();
        ReplicaFailure {
            replica,
            device,
            stopped,
            error,
        }
    }

    fn failures(&self, record: &StepRecord, disagreement: Option<String>) -> Error {
        let mut failures = Vec::new();
        for (replica, slot) in record.slots.iter().enumerate() {
            // SAFETY: all callbacks have returned, so that it is the coordinator's turn.
            if let Some(Err(error)) = unsafe { slot.outcome.get() }.take() {
                let stopped = slot.is_stop_requested() && error.status() == Status::Cancelled;
                failures.push(self.failure(replica, stopped, error));
            }
        }
        let status = disagreement.as_ref().map(|_| Status::FailedPrecondition);
        failed(failures, disagreement.unwrap_or_default(), status)
    }

    /// The error of an abandoned step: which replicas are late, and since when. The strategy drains
    /// from now on. The record is left to them: the next run at its depth gets another one.
    fn abandoned(&self, record: &Arc<StepRecord>, why: Error) -> Error {
        self.inner().steps.draining.begin(Arc::clone(record) as _);
        let elapsed = record
            .with_task(|task| task.opened.map(|opened| opened.elapsed()))
            .flatten()
            .unwrap_or_default();
        let status = why.status();
        let failures = (0..record.replicas())
            .filter(|&replica| record.rendezvous.phase(replica) != ReplicaPhase::Finished)
            .map(|replica| {
                let doing = match record.rendezvous.phase(replica) {
                    ReplicaPhase::Waiting => "waited in a merge call",
                    _ if record.waits_for_device(replica) => "waited for its device",
                    _ => "was still in its callback",
                };
                let text = format!("{doing} after {elapsed:.3?}; it is left to return on its own");
                let error = match status {
                    Status::DeadlineExceeded => Error::DeadlineExceeded(text),
                    _ => Error::Cancelled(text),
                };
                self.failure(replica, false, error)
            })
            .collect();
        failed(failures, why.to_string(), Some(status))
    }

    /// Runs `body` in cross-replica context as a step without replicas, or as a part of the step
    /// around it: what it assigns becomes central state with that step. If it fails, nothing of the
    /// step does.
    pub(crate) fn central_step<R>(&self, body: impl FnOnce() -> Result<R>) -> Result<R> {
        check_depth()?;
        let frame = |step| Frame::CrossReplica {
            strategy: self.clone(),
            step: Some(step),
        };
        if let Some(step) = step_place(self.id()) {
            let result = caught(|| with_frame(frame(step), body));
            return result.inspect_err(|error| self.poison_after(error));
        }
        let mut lock = self.enter_step(&Limits::default())?;
        let number = lock.next_step(false);
        self.open_transaction(number.id);
        trace::note(self.id(), number.id, Transition::Begin);
        self.begin_series(number.shown);
        let outcome = caught(|| {
            with_frame(
                frame(StepPosition {
                    number,
                    ..Default::default()
                }),
                body,
            )
        });
        let outcome = self.conclude(&mut lock, number, false, None, outcome);
        self.inner().steps.draining.close_step();
        drop(lock);
        outcome
    }

    pub(crate) fn check_arguments(&self, arguments: Option<&Value>) -> Result<()> {
        let replicas = self.num_replicas();
        let short = arguments.and_then(|arguments| {
            arguments.find_leaf(&mut |leaf| match leaf {
                Value::PerReplica(value) if value.count() < replicas => Some(value.count()),
                _ => None,
            })
        });
        match short {
            None => Ok(()),
            Some(components) => Err(invalid!(
                "args",
                "a per-replica value of {components} components for {replicas} replicas"
            )),
        }
    }
}

/// The error of a step of which these replicas have failed.
fn failed(failures: Vec<ReplicaFailure>, summary: String, status: Option<Status>) -> Error {
    Error::Replicas(ReplicaFailures {
        failures,
        summary,
        overruling_status: status,
    })
}

/// The coordinator's presence in an open step. If this library panics there, replicas may still be
/// in their callbacks, which may borrow from the stack that is about to unwind: they are waited
/// for.
struct AbandonOnUnwind<'a>(&'a Arc<StepRecord>);

impl Drop for AbandonOnUnwind<'_> {
    fn drop(&mut self) {
        const LOOK: Duration = Duration::from_millis(1);
        let record = self.0;
        let given_up = record.rendezvous.abandon();
        record.stopping.store(true, Ordering::Relaxed);
        record.notify_all();
        while given_up && !record.rendezvous.is_finished() {
            std::thread::sleep(LOOK);
        }
    }
}
