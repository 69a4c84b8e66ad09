//! Merge calls: all replicas stop, one function runs for all of them in cross-replica context, and
//! each continues with its part of the result. Every synchronising operation of a replica context
//! is a merge call.

#![expect(
    unsafe_code,
    reason = "a replica and the coordinator take turns at a merge call"
)]

use std::sync::atomic::Ordering;

use smallvec::SmallVec;

pub use super::operation::Operation;
use super::panic::caught;
use super::slot::InlineReduction;
pub use super::slot::{Merge, MergeCall};
use super::trace::Transition;
use crate::context::{
    Current, Frame, check_depth, current, mixing, with_current_replica, with_frame,
};
use crate::protocol::mailbox::Wake;
use crate::protocol::rendezvous::ReplicaPhase;
use crate::setup::central_storage::Strategy;
use crate::step::{ReplicaContext, StepRecord};
use umbo_base::error::{Error, Result};
use umbo_base::observe::{self, Phase as Time};
use umbo_tensor::values::Value;

/// For so many replicas a merge call needs no list on the heap.
pub(crate) const FEW: usize = 8;

impl ReplicaContext {
    /// Waits until all replicas have arrived here with the same operation, has `merge` of replica
    /// 0 run once in cross-replica context on the thread that called `run`, and returns this
    /// replica's component of its result. The other replicas' `merge` is dropped.
    pub fn synchronize(
        &self,
        operation: Operation,
        arguments: Option<Value>,
        merge: Merge,
    ) -> Result<Option<Value>> {
        self.check_current()?;
        self.synchronize_directly(operation, arguments, None, merge)
    }

    /// As [`ReplicaContext::synchronize`], for the context that this thread is in; if `merge`
    /// returns nothing, the result is what it has written to the output of `direct`.
    pub(crate) fn synchronize_directly(
        &self,
        operation: Operation,
        arguments: Option<Value>,
        direct: Option<InlineReduction>,
        merge: Merge,
    ) -> Result<Option<Value>> {
        let replica = self.replica();
        let merge = Some(merge);
        let mut call = MergeCall {
            replica,
            operation,
            sequence: 1,
            arguments,
            direct,
            merge,
            reply: None,
        };
        let Some(step) = &self.step else {
            check_depth()?;
            let frame = Frame::CrossReplica {
                strategy: self.strategy().clone(),
                step: None,
            };
            with_frame(frame, || serve(self.strategy(), &mut [&mut call]))?;
            return call.take_result().unwrap_or(Ok(None));
        };
        self.check_live()?;
        let slot = &step.slots[replica];
        {
            // SAFETY: the replica's turn, until it arrives.
            let (place, before) = unsafe { (slot.call.get(), slot.sequence.get()) };
            call.sequence += *before;
            *before = call.sequence;
            *place = Some(call);
        }
        self.wait_for_answer(step);
        // SAFETY: the replica's turn again: it was resumed, or the coordinator has given the step
        // up and answers nobody.
        let place = unsafe { slot.call.get() };
        let result = place.as_mut().and_then(MergeCall::take_result);
        *place = None;
        match result {
            Some(result) => result,
            None => {
                self.check_live()?;
                Err(Error::Internal(
                    "a merge call ended without an answer".into(),
                ))
            }
        }
    }

    /// Arrives at a merge call of `step`, and waits until it is answered or the step is given up.
    fn wait_for_answer(&self, step: &StepRecord) {
        let _waiting = observe::span(Time::Wait);
        let replica = self.replica();
        step.note(Transition::Arrive(replica));
        if let Some(next) = step.pass_device(replica) {
            step.begin(next);
        }
        match self.inline {
            true => step.rendezvous.arrive_as_coordinator(replica),
            false => step.rendezvous.arrive(replica),
        }
        if replica == 0 {
            // While it waits, it makes no variable that another replica may wait for.
            step.creations.check_again();
        }
        if self.inline {
            let spin = step.coordinator_spin(step.spin, 1);
            step.rendezvous.wait_for_all(spin, None, || false);
            step.serve();
        } else {
            let mailbox = step.mailbox(replica);
            let released = || step.may_go_on(replica);
            let mut last = None;
            while let Wake::Job(nested) = mailbox.wait(step.spin, &mut last, released) {
                nested.execute(replica);
            }
            // Also in an abandoned step, only one callback at a time runs on a device.
            mailbox.wait_until(step.spin, || step.wants_device(replica));
        }
    }

    /// Checks that this context is the one that its thread is in.
    pub fn check_current(&self) -> Result<()> {
        // This changes no reference count, which all replicas would share.
        if with_current_replica(|current| current.is_some_and(|current| current.is_same(self))) {
            return Ok(());
        }
        match current() {
            Current::Default if self.step.is_none() => Ok(()),
            Current::Replica(current) if current.strategy().is_same(self.strategy()) => {
                Err(Error::precondition(format!(
                    "the context is replica {}'s, but this is replica {}'s callback",
                    self.replica(),
                    current.replica()
                )))
            }
            Current::CrossReplica(current) if current.is_same(self.strategy()) => {
                Err(Error::precondition(
                    "needs replica context, but this thread is in cross-replica context",
                ))
            }
            Current::Default => Err(Error::precondition(
                "ctx: the context belongs to a run that has ended, or to another thread",
            )),
            _ => Err(mixing()),
        }
    }
}

impl StepRecord {
    /// Answers the replicas that wait, as the coordinator, while nobody computes: serves their
    /// merge call if all ask for the same one; if not, all get an error that says why.
    pub(crate) fn serve(&self) {
        self.note(Transition::Serve);
        let waiting = |replica: &usize| self.rendezvous.phase(*replica) == ReplicaPhase::Waiting;
        // SAFETY: the coordinator's turn, from when a replica has arrived until it is resumed.
        let call = |replica: usize| unsafe { self.slots[replica].call.get() }.as_mut();
        let mut calls: SmallVec<[&mut MergeCall; FEW]> = (0..self.replicas())
            .filter(waiting)
            .filter_map(call)
            .collect();
        if self
            .slots
            .iter()
            .any(|slot| slot.is_stop_requested() || slot.has_failed())
        {
            self.stop(&mut calls, "another replica failed");
        } else if let Some(disagreement) = self.disagreement(&calls) {
            for call in &mut calls {
                call.reply = Some(Err(Error::precondition(disagreement.clone())));
            }
            self.with_verdict(|verdict| {
                verdict.disagreement.get_or_insert(disagreement);
            });
        } else if let Err(error) = self.merge(&mut calls) {
            self.stop(&mut calls, "the merge function failed");
            self.with_verdict(|verdict| {
                verdict.merge_error.get_or_insert(error);
            });
        }
        self.note(Transition::Answer);
        self.resume();
    }

    fn stop(&self, calls: &mut [&mut MergeCall], why: &str) {
        for call in calls {
            self.slots[call.replica]
                .stop_requested
                .store(true, Ordering::Relaxed);
            let stopped = format!("stopped in a merge call: {why}");
            call.reply = Some(Err(Error::Cancelled(stopped)));
        }
    }

    /// The operation at which each replica is, if they do not all wait for the same one.
    fn disagreement(&self, calls: &[&mut MergeCall]) -> Option<String> {
        let (first, others) = calls.split_first()?;
        let agrees = |call: &&mut MergeCall| {
            call.sequence == first.sequence && call.operation == first.operation
        };
        if calls.len() == self.replicas() && others.iter().all(agrees) {
            return None;
        }
        let place = |replica| match calls.iter().find(|call| call.replica == replica) {
            Some(call) => format!(
                "replica {replica} waits in its synchronising call {}, {}",
                call.sequence, call.operation
            ),
            None => format!("replica {replica} has returned from the callback"),
        };
        let places: Vec<String> = (0..self.replicas()).map(place).collect();
        let difference = others
            .iter()
            .find_map(|call| first.operation.difference(&call.operation));
        let difference = difference.map_or_else(String::new, |it| format!("; {it}"));
        Some(format!(
            "the replicas disagree about merge calls: {}{difference}; all replicas must make the \
             same synchronising calls in the same order",
            places.join("; ")
        ))
    }

    /// Runs the merge function that all replicas wait for and leaves each its answer.
    fn merge(&self, calls: &mut [&mut MergeCall]) -> Result<()> {
        let _central = observe::span(Time::Reduce).named("merge call");
        let task = self.with_task(|task| (Strategy::clone(&task.strategy), task.place.clone()));
        let Some((strategy, step)) = task else {
            return Err(Error::Internal("a merge call in no step".into()));
        };
        let frame = Frame::CrossReplica {
            strategy: strategy.clone(),
            step: Some(step),
        };
        caught(|| with_frame(frame, || serve(&strategy, calls)))
    }
}

/// Runs the first replica's merge function, and stores each replica's component of the result.
fn serve(strategy: &Strategy, calls: &mut [&mut MergeCall]) -> Result<()> {
    let Some(merge) = calls.first_mut().and_then(|call| call.merge.take()) else {
        return Err(Error::Internal("a merge call without a function".into()));
    };
    let result = merge(strategy, calls)?;
    for call in calls {
        let component = result
            .as_ref()
            .map(|result| result.component(call.replica))
            .transpose()?;
        call.reply = Some(Ok(component));
    }
    Ok(())
}

impl MergeCall {
    /// The result, if there was a reply.
    fn take_result(&mut self) -> Option<Result<Option<Value>>> {
        let reply = self.reply.take()?;
        let written = self.direct.as_mut().and_then(|direct| direct.output.take());
        Some(reply.map(|component| component.or(written.map(Value::Tensor))))
    }
}
