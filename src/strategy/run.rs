//! Running a callback on every replica.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::cancellation::{Cancellation, Listener};
use super::central_storage::Strategy;
use super::context::{
    Frame, ReplicaContext, StepFrame, require_cross_replica, step_frame, with_frame,
};
use super::rendezvous::{Meeting, Phase};
use super::step::{Baggage, Callback, ReplicaFunction, StepRecord, Task};
use super::turn::Turn;
use crate::error::{Error, ReplicaFailure, ReplicaFailures, Result, Status};
use crate::values::Value;

/// What may end a run before its callbacks have returned.
#[derive(Clone, Default)]
pub struct Limits {
    /// When it ends at the latest.
    pub deadline: Option<Instant>,
    /// Who else may end it.
    pub cancellation: Option<Cancellation>,
}

impl Limits {
    pub(super) fn is_bounded(&self) -> bool {
        self.deadline.is_some() || self.cancellation.is_some()
    }

    /// Whether the token says that the run should end.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancellation.as_ref().is_some_and(Cancellation::is_cancelled)
    }

    /// Why the run should end now, if it should.
    pub(super) fn exceeded(&self) -> Option<Error> {
        if self.is_cancelled() {
            return Some(Error::Cancelled("the run was cancelled".into()));
        }
        self.deadline
            .filter(|deadline| Instant::now() >= *deadline)
            .map(|_| Error::DeadlineExceeded("the run's deadline has passed".into()))
    }
}

impl Strategy {
    /// Runs `function` once on each replica, concurrently, and waits for all. Replica 0 runs on
    /// this thread. The results are merged: structures leaf by leaf, a leaf that is the very same
    /// object on all replicas stays plain, others become per-replica values; with one replica
    /// nothing is wrapped. If any replica fails, central state is as before and the error lists
    /// all replicas that failed.
    pub fn run(
        &self,
        function: &(dyn Fn(&ReplicaContext) -> Result<Option<Value>> + Send + Sync),
        arguments: Option<Value>,
    ) -> Result<Option<Value>> {
        // SAFETY: without limits a step is never abandoned, so `run_step` returns only after all
        // callbacks did, and `function` is borrowed until then.
        let callback = unsafe { Callback::borrowed(function) };
        self.run_step(callback, arguments, Limits::default(), None)
    }

    /// As [`Strategy::run`], but returns when the limits say so, with the callbacks that are late
    /// left behind. Every replica runs on a thread of its own. `baggage` is dropped when the last
    /// callback is back, or at once if the run could not start.
    pub fn run_within(
        &self,
        function: Arc<ReplicaFunction>,
        arguments: Option<Value>,
        limits: Limits,
        baggage: Option<Baggage>,
    ) -> Result<Option<Value>> {
        self.run_step(Callback::Owned(function), arguments, limits, baggage)
    }

    fn run_step(
        &self,
        callback: Callback,
        arguments: Option<Value>,
        limits: Limits,
        baggage: Option<Baggage>,
    ) -> Result<Option<Value>> {
        require_cross_replica(self, "umbo_strategy_run")?;
        self.check_arguments(arguments.as_ref())?;
        if let Some(outer) = step_frame(self) {
            if limits.is_bounded() {
                return Err(Error::invalid(
                    "options",
                    "a run inside of a merge call ends with the run around it; give that one the \
                     deadline or the cancellation token",
                ));
            }
            let result = self.run_nested(callback, arguments, &outer, baggage);
            if let Err(error) = &result {
                self.doom_after(error);
            }
            return result;
        }
        let mut turn = self.take_turn(&limits)?;
        let number = turn.next_step();
        let task = Task {
            strategy: self.clone(),
            callback,
            arguments,
            number,
            inline: !limits.is_bounded(),
            opened: limits.is_bounded().then(Instant::now),
            depth: 0,
            limits,
            global_examples: 0,
        };
        let record = self.record(0);
        self.inner().step_open.store(true, Ordering::SeqCst);
        self.open_transaction(number);
        let result = self.run_recorded(&record, task, baggage);
        let result = match result {
            Ok(outcome) => self.commit(number, Some(&record)).map(|()| outcome),
            Err(error) => {
                let participants = self.roll_back(number);
                if record.rendezvous.is_abandoned() {
                    record.keep(participants);
                }
                Err(error)
            }
        };
        if record.rendezvous.is_abandoned() {
            // The last late callback may have come back before the record was kept for it.
            if record.rendezvous.unfinished() == 0 {
                record.clear();
            }
        } else {
            record.clear();
            self.bury();
        }
        drop(turn);
        result
    }

    fn run_nested(
        &self,
        callback: Callback,
        arguments: Option<Value>,
        outer: &StepFrame,
        baggage: Option<Baggage>,
    ) -> Result<Option<Value>> {
        // A nested run that was given up has left replicas behind that may not even have taken up
        // its step: the merge function must not start another one.
        if let Some(why) = outer.limits.exceeded() {
            return Err(why);
        }
        let record = self.record(outer.depth + 1);
        let task = Task {
            strategy: self.clone(),
            callback,
            arguments,
            number: outer.number,
            inline: !outer.limits.is_bounded(),
            opened: outer.limits.is_bounded().then(Instant::now),
            depth: outer.depth + 1,
            limits: outer.limits.clone(),
            global_examples: 0,
        };
        let result = self.run_recorded(&record, task, baggage);
        if !record.rendezvous.is_abandoned() {
            if result.is_ok() {
                self.add_nested_metrics(&record);
            }
            record.clear();
        }
        result
    }

    /// Opens the step, has it run, and merges what came back.
    fn run_recorded(
        &self,
        record: &Arc<StepRecord>,
        task: Task,
        baggage: Option<Baggage>,
    ) -> Result<Option<Value>> {
        let (inline, limits) = (task.inline, task.limits.clone());
        if !inline {
            self.ensure_thread(0)?;
        }
        if let Some(token) = &limits.cancellation {
            let listener: Arc<dyn Listener> = Arc::clone(record) as Arc<dyn Listener>;
            token.listen(Arc::downgrade(&listener));
        }
        record.open(task, baggage);
        record.dispatch(usize::from(inline));
        if inline {
            record.execute(0);
        }
        match self.coordinate(record, inline, &limits) {
            Ok(()) => self.outcome(record),
            Err(why) => Err(self.abandoned(record, why)),
        }
    }

    /// Serves merge calls until all callbacks have returned, or gives the step up and says why.
    fn coordinate(&self, record: &Arc<StepRecord>, inline: bool, limits: &Limits) -> Result<()> {
        let spin = if inline { record.spin } else { self.inner().watching_spin };
        loop {
            let spin = record.coordinator_spin(spin, usize::from(inline));
            match record.rendezvous.meet(spin, limits.deadline, || limits.exceeded().is_some()) {
                Meeting::Finished => return Ok(()),
                Meeting::Waiting => record.serve(),
                Meeting::Abandoned => {
                    record.stopping.store(true, Ordering::Relaxed);
                    record.notify_all();
                    return Err(limits.exceeded().unwrap_or_else(|| {
                        Error::Internal("a run was given up without a reason".into())
                    }));
                }
            }
        }
    }

    /// The merged results of a step whose callbacks have all returned, or their failures.
    fn outcome(&self, record: &StepRecord) -> Result<Option<Value>> {
        let verdict = record.with_verdict(mem::take);
        if let Some(error) = verdict.merge_error {
            return Err(error);
        }
        let failed = record.desks.iter().any(|desk| matches!(desk.lock().outcome, Some(Err(_))));
        if failed || verdict.disagreement.is_some() {
            return Err(self.failures(record, verdict.disagreement));
        }
        let given = record
            .desks
            .iter()
            .filter(|desk| matches!(desk.lock().outcome, Some(Ok(Some(_)))))
            .count();
        if given == 0 {
            return Ok(None);
        }
        if given < record.replicas() {
            return Err(Error::invalid(
                "result",
                format!(
                    "{given} of {} replicas returned a value; all or none must",
                    record.replicas()
                ),
            ));
        }
        let parts: Vec<Value> =
            record.desks.iter().filter_map(|desk| desk.lock().outcome.take()?.ok()?).collect();
        Value::merge(&parts, false, "result").map(Some)
    }

    fn failures(&self, record: &StepRecord, disagreement: Option<String>) -> Error {
        let mut failures = Vec::new();
        for (replica, desk) in record.desks.iter().enumerate() {
            let mut desk = desk.lock();
            let told_to_stop = desk.told_to_stop;
            if let Some(Err(error)) = desk.outcome.take() {
                failures.push(ReplicaFailure {
                    replica,
                    device: self.compute_device_names()[replica].clone(),
                    stopped: told_to_stop && error.status() == Status::Cancelled,
                    error,
                });
            }
        }
        Error::Replicas(ReplicaFailures {
            overruling_status: disagreement.as_ref().map(|_| Status::FailedPrecondition),
            summary: disagreement.unwrap_or_default(),
            failures,
        })
    }

    /// The error of a step that was given up: which replicas are late, and since when.
    fn abandoned(&self, record: &Arc<StepRecord>, why: Error) -> Error {
        let inner = self.inner();
        // The next run at this depth gets a record of its own.
        inner.records.lock().retain(|other| !Arc::ptr_eq(other, record));
        inner.abandoned.lock().push(Arc::clone(record));
        let elapsed = record
            .with_task(|task| task.opened.map(|opened| opened.elapsed()))
            .flatten()
            .unwrap_or_default();
        let status = why.status();
        let failures = (0..record.replicas())
            .filter(|&replica| record.rendezvous.phase(replica) != Phase::Finished)
            .map(|replica| {
                let doing = match record.rendezvous.phase(replica) {
                    Phase::Waiting => "waited in a merge call",
                    _ => "was still in its callback",
                };
                let text = format!("{doing} after {elapsed:.3?}; it is left to return on its own");
                ReplicaFailure {
                    replica,
                    device: self.compute_device_names()[replica].clone(),
                    stopped: false,
                    error: match status {
                        Status::DeadlineExceeded => Error::DeadlineExceeded(text),
                        _ => Error::Cancelled(text),
                    },
                }
            })
            .collect();
        Error::Replicas(ReplicaFailures {
            summary: why.to_string(),
            overruling_status: Some(status),
            failures,
        })
    }

    /// Waits for this thread's turn, and checks that no callback is late.
    pub(super) fn take_turn(&self, limits: &Limits) -> Result<Turn<'_>> {
        let turn = self.inner().turns.take(limits)?;
        self.check_drained()?;
        Ok(turn)
    }

    fn check_drained(&self) -> Result<()> {
        let late = self.late_replicas();
        if late.is_empty() {
            if self.inner().step_open.load(Ordering::SeqCst) {
                self.bury();
            }
            return Ok(());
        }
        let names: Vec<String> = late
            .iter()
            .map(|&replica| format!("replica {replica} ({})", self.compute_device_names()[replica]))
            .collect();
        Err(Error::precondition(format!(
            "strategy: draining: {} of an earlier run, which ended by deadline or cancellation, {} \
             not come back from the callback; wait with umbo_strategy_synchronize",
            names.join(", "),
            if names.len() == 1 { "has" } else { "have" }
        )))
    }

    /// Waits until late callbacks have come back and all work is done.
    pub fn synchronize(&self) -> Result<()> {
        require_cross_replica(self, "umbo_strategy_synchronize")?;
        if step_frame(self).is_some() {
            return Err(Error::precondition(
                "umbo_strategy_synchronize: inside of a merge call the step is not done",
            ));
        }
        let mut pause = Duration::from_micros(50);
        while !self.late_replicas().is_empty() {
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(5));
        }
        drop(self.take_turn(&Limits::default())?);
        Ok(())
    }

    /// Runs `body` in cross-replica context as a step without replicas: what it assigns becomes
    /// central state if it succeeds.
    pub(super) fn central_step<R>(&self, body: impl FnOnce() -> Result<R>) -> Result<R> {
        if let Some(step) = step_frame(self) {
            let frame = Frame::CrossReplica { strategy: self.clone(), step: Some(step) };
            return with_frame(frame, body).0;
        }
        let mut turn = self.take_turn(&Limits::default())?;
        let number = turn.next_step();
        self.open_transaction(number);
        let step = StepFrame { number, depth: 0, limits: Limits::default() };
        let frame = Frame::CrossReplica { strategy: self.clone(), step: Some(step) };
        struct RollBack<'a>(&'a Strategy, u64);
        impl Drop for RollBack<'_> {
            fn drop(&mut self) {
                self.0.roll_back(self.1);
            }
        }
        let undo = RollBack(self, number);
        let result = with_frame(frame, body).0?;
        std::mem::forget(undo);
        self.commit(number, None)?;
        drop(turn);
        Ok(result)
    }

    fn check_arguments(&self, arguments: Option<&Value>) -> Result<()> {
        let replicas = self.num_replicas();
        let short = arguments.and_then(|arguments| {
            arguments.find_leaf(&mut |leaf| match leaf {
                Value::PerReplica(value) if value.count() < replicas => Some(value.count()),
                _ => None,
            })
        });
        match short {
            None => Ok(()),
            Some(components) => Err(Error::invalid(
                "args",
                format!("a per-replica value of {components} components for {replicas} replicas"),
            )),
        }
    }
}

impl StepRecord {
    /// The replicas whose callback has not returned.
    pub(super) fn unfinished_replicas(&self) -> impl Iterator<Item = usize> {
        (0..self.replicas()).filter(|&replica| self.rendezvous.phase(replica) != Phase::Finished)
    }
}
