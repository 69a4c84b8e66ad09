//! Merge calls: all replicas stop, one function runs for all of them in cross-replica context,
//! each goes on with its part of the result. Everything on a replica context that synchronises
//! is one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use super::context::{Current, Frame, current, mixing, with_current_replica, with_frame};
pub use super::operation::Operation;
use super::panic::panicked;
use super::protocol::mailbox::Wake;
use super::protocol::rendezvous::Phase;
pub use super::slot::Merge;
use super::slot::Request;
use super::step::{ReplicaContext, StepRecord};
use crate::error::{Error, Result};
use crate::observe::{self, Phase as Time};
use crate::values::Value;

impl ReplicaContext {
    /// Waits until all replicas have arrived here with the same operation, has `merge` of replica
    /// 0 run once in cross-replica context on the thread that called `run`, and returns this
    /// replica's part of its result. The other replicas' `merge` is dropped.
    pub fn synchronize(
        &self,
        operation: Operation,
        arguments: Option<Value>,
        merge: Merge,
    ) -> Result<Option<Value>> {
        self.check_current()?;
        let Some(step) = &self.step else {
            let frame = Frame::CrossReplica { strategy: self.strategy().clone(), step: None };
            let mut parts = with_frame(frame, || merge(self.strategy(), vec![arguments]))?;
            return Ok(parts.pop().flatten());
        };
        self.check_live()?;
        let replica = self.replica();
        {
            let mut desk = step.slots[replica].desk();
            desk.sequence += 1;
            let sequence = desk.sequence;
            desk.request = Some(Request { operation, arguments, merge, sequence });
        }
        let waiting = observe::span(Time::Wait);
        if let Some(next) = step.pass_device(replica) {
            step.begin(next);
        }
        step.rendezvous.arrive(replica);
        if replica == 0 {
            // Until it goes on it makes no variable that another replica may wait for.
            step.creations.look_again();
        }
        if self.inline {
            let spin = step.coordinator_spin(step.spin, 1);
            step.rendezvous.meet(spin, None, || false);
            step.serve();
        } else {
            let mailbox = step.mailbox(replica);
            let released = || step.may_go_on(replica);
            let mut own = None;
            while let Wake::Job(nested) = mailbox.wait(step.spin, &mut own, released) {
                nested.execute(replica);
            }
            // Of a step that was given up, too, one callback at a time runs on a device.
            mailbox.wait_until(step.spin, || step.wants_device(replica));
        }
        drop(waiting);
        let reply = {
            let mut desk = step.slots[replica].desk();
            desk.request = None;
            desk.reply.take()
        };
        match reply {
            Some(reply) => reply,
            None => {
                self.check_live()?;
                Err(Error::Internal("a merge call ended without an answer".into()))
            }
        }
    }

    /// Checks that this context is the one that its thread is in.
    pub fn check_current(&self) -> Result<()> {
        // Counts no references, which all replicas share.
        if with_current_replica(|own| own.is_some_and(|own| own.is_same(self))) {
            return Ok(());
        }
        match current() {
            Current::Default if self.step.is_none() => Ok(()),
            Current::Replica(own) if own.strategy().is_same(self.strategy()) => {
                Err(Error::precondition(format!(
                    "the context is replica {}'s, but this is replica {}'s callback",
                    self.replica(),
                    own.replica()
                )))
            }
            Current::CrossReplica(own) if own.is_same(self.strategy()) => Err(Error::precondition(
                "needs replica context, but this thread is in cross-replica context",
            )),
            Current::Default => Err(Error::precondition(
                "ctx: the context belongs to a run that has ended, or to another thread",
            )),
            _ => Err(mixing()),
        }
    }
}

impl StepRecord {
    /// Answers the replicas that wait, as the coordinator, while nobody computes: serves their
    /// merge call if all ask for the same one, else all get to know why not.
    pub(super) fn serve(&self) {
        let replicas = 0..self.replicas();
        let waiting = |replica: &usize| self.rendezvous.phase(*replica) == Phase::Waiting;
        if self.slots.iter().any(|slot| slot.is_told_to_stop() || slot.has_failed()) {
            for replica in replicas.clone().filter(waiting) {
                self.stop(replica, "another replica failed");
            }
        } else if let Some(disagreement) = self.disagreement() {
            for replica in replicas.clone().filter(waiting) {
                self.slots[replica].desk().reply =
                    Some(Err(Error::precondition(disagreement.clone())));
            }
            self.with_verdict(|verdict| {
                verdict.disagreement.get_or_insert(disagreement);
            });
        } else {
            self.merge();
        }
        self.resume();
    }

    fn stop(&self, replica: usize, why: &str) {
        let slot = &self.slots[replica];
        slot.told_to_stop.store(true, Ordering::Relaxed);
        slot.desk().reply = Some(Err(Error::Cancelled(format!("stopped in a merge call: {why}"))));
    }

    /// Who is where, if the replicas do not all wait for the same operation.
    fn disagreement(&self) -> Option<String> {
        let mut first: Option<(Operation, u64)> = None;
        let (mut agree, mut difference) = (true, None);
        for (replica, slot) in self.slots.iter().enumerate() {
            let desk = slot.desk();
            match &desk.request {
                Some(request) if self.rendezvous.phase(replica) == Phase::Waiting => {
                    let here = (request.operation.clone(), request.sequence);
                    let first = first.get_or_insert_with(|| here.clone());
                    agree &= *first == here;
                    difference = difference.or_else(|| first.0.difference(&here.0));
                }
                _ => agree = false,
            }
        }
        if agree {
            return None;
        }
        let places: Vec<String> = self
            .slots
            .iter()
            .enumerate()
            .map(|(replica, slot)| match &slot.desk().request {
                Some(request) if self.rendezvous.phase(replica) == Phase::Waiting => format!(
                    "replica {replica} waits in its synchronising call {}, {}",
                    request.sequence, request.operation
                ),
                _ => format!("replica {replica} has returned from the callback"),
            })
            .collect();
        let difference = difference.map_or_else(String::new, |it| format!("; {it}"));
        Some(format!(
            "the replicas disagree about merge calls: {}{difference}; all replicas must make the same \
             synchronising calls in the same order",
            places.join("; ")
        ))
    }

    /// Runs the merge function that all replicas wait for and leaves each its answer.
    fn merge(&self) {
        let _central = observe::span(Time::Reduce).named("merge call");
        let Some((strategy, step)) =
            self.with_task(|task| (task.strategy.clone(), task.place.clone()))
        else {
            return;
        };
        let mut arguments = Vec::with_capacity(self.replicas());
        let mut function = None;
        for slot in &self.slots {
            if let Some(request) = slot.desk().request.take() {
                arguments.push(request.arguments);
                function.get_or_insert(request.merge);
            }
        }
        let Some(function) = function else { return };
        let frame = Frame::CrossReplica { strategy: strategy.clone(), step: Some(step) };
        let call = AssertUnwindSafe(|| with_frame(frame, || function(&strategy, arguments)));
        let result = catch_unwind(call).unwrap_or_else(|panic| Err(panicked(panic)));
        match result {
            Ok(parts) if parts.len() == self.replicas() => {
                for (slot, part) in self.slots.iter().zip(parts) {
                    slot.desk().reply = Some(Ok(part));
                }
            }
            Ok(parts) => self.fail_merge(Error::Internal(format!(
                "a merge gave {} results for {} replicas",
                parts.len(),
                self.replicas()
            ))),
            Err(error) => self.fail_merge(error),
        }
    }

    fn fail_merge(&self, error: Error) {
        for replica in 0..self.replicas() {
            self.stop(replica, "the merge function failed");
        }
        self.with_verdict(|verdict| {
            verdict.merge_error.get_or_insert(error);
        });
    }
}
