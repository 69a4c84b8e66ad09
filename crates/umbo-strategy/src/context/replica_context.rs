//! Replica context: what a callback can read about its replica, and what it adds to the step.

#![expect(unsafe_code, reason = "a replica reads what the step has lent to it")]

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::metrics::{Additions, Metric};
pub use crate::step::BatchPosition;
use crate::step::slot::LocalState;
use crate::step::{ReplicaContext, StepRecord};
use umbo_base::error::{Error, Result};
use umbo_base::observe::strict;
use umbo_device::DeviceId;
use umbo_tensor::Tensor;
use umbo_tensor::values::Value;
use umbo_tensor::values::variable::Variable;

impl ReplicaContext {
    fn record(&self) -> Result<&Arc<StepRecord>> {
        self.step.as_deref().ok_or_else(|| {
            Error::precondition("context: the default context is in no run; this needs one")
        })
    }

    /// Calls `use_it` with the local state of the replica's slot in `step`. It must not come here
    /// again.
    pub(crate) fn with_local<R>(
        &self,
        step: &StepRecord,
        use_it: impl FnOnce(&mut LocalState) -> R,
    ) -> R {
        // SAFETY: a context is used only on its callback's thread and until the callback returns,
        // which is the replica's turn. `use_it` gets no other reference.
        use_it(unsafe { step.slots[self.replica].local() })
    }

    /// Checks that this replica should continue: the step is neither cancelled nor failed.
    pub fn check_live(&self) -> Result<()> {
        match &self.step {
            Some(step) if step.rendezvous.is_abandoned() => {
                step.slots[self.replica]
                    .stop_requested
                    .store(true, Ordering::Relaxed);
                Err(Error::Cancelled(
                    "the run has returned without this replica (deadline or cancellation); return \
                     from the callback"
                        .into(),
                ))
            }
            _ => Ok(()),
        }
    }

    /// The device that the replica computes on.
    pub fn device(&self) -> DeviceId {
        self.strategy.replica_devices()[self.replica]
    }

    /// This replica's part of the run's arguments: of each per-replica value this replica's
    /// component, everything else as it is. `None` if the run was given none.
    pub fn arguments(&self) -> Result<Option<Value>> {
        let arguments = self.global_arguments();
        arguments
            .map(|arguments| arguments.component(self.replica))
            .transpose()
    }

    /// As [`ReplicaContext::arguments`], into a nest that may have held the part of an earlier step
    /// and is used again. Returns whether there are any.
    pub fn arguments_into(&self, part: &mut Value) -> Result<bool> {
        let Some(arguments) = self.global_arguments() else {
            return Ok(false);
        };
        arguments.component_into(self.replica, part)?;
        Ok(true)
    }

    /// Whether the run was given arguments.
    pub fn has_arguments(&self) -> bool {
        self.global_arguments().is_some()
    }

    /// The tensor that is this replica's part of the run's arguments, if they are a tensor or have
    /// one for each replica. `None` if the run was given none.
    pub fn argument_tensor(&self) -> Result<Option<&Tensor>> {
        let arguments = self.global_arguments();
        arguments
            .map(|arguments| arguments.tensor_of(self.replica))
            .transpose()
    }

    /// The run's arguments. No lock is taken, and no reference counted, since all replicas would
    /// share them.
    fn global_arguments(&self) -> Option<&Value> {
        let slot = &self.step.as_ref()?.slots[self.replica];
        // SAFETY: a context is used only until its callback returns. The arguments were written
        // before that was called, and stay as they are until the last one has returned.
        unsafe { slot.arguments.read() }.as_deref()
    }

    /// Whether the callback should return early: another replica failed, or the run was
    /// cancelled or is late.
    pub fn is_cancelled(&self) -> bool {
        let Some(step) = &self.step else { return false };
        // A token and a deadline that was reached set the first of them.
        let cancelled = step.stopping.load(Ordering::Relaxed) || step.rendezvous.is_abandoned();
        if cancelled {
            step.slots[self.replica]
                .stop_requested
                .store(true, Ordering::Relaxed);
        }
        cancelled
    }

    /// The place of this replica's part in the global batch.
    pub fn batch_position(&self) -> BatchPosition {
        self.position
    }

    /// The number of examples this replica has. FAILED_PRECONDITION if the run's arguments do not
    /// say so; `instead` is what can be done then.
    pub fn local_examples(&self, instead: &str) -> Result<u64> {
        self.batch_position().local_examples.ok_or_else(|| {
            Error::precondition(match self.global_arguments() {
                Some(_) => format!(
                    "the run's arguments do not say how many examples this replica has, since \
                     they contain no per-replica value; give it the elements of a distributed \
                     dataset, or, where each replica has rows of its own, {instead}"
                ),
                None => format!(
                    "the run has no arguments that say how many examples this replica has. Where \
                     they are the elements of an iterator, its pass has ended: end the loop \
                     there, or reset the iterator. In a run that is meant to have none, {instead}"
                ),
            })
        })
    }

    /// Scratch memory of the replica's device: `bytes` bytes at a multiple of 64, until the
    /// callback returns.
    pub fn scratch(&self, bytes: usize) -> Result<*mut u8> {
        let record = self.record()?;
        match self.guarded_scratch(bytes)? {
            Some(region) => Ok(region),
            None => self.with_local(record, |local| local.scratch.grant(bytes)),
        }
    }

    /// Adds to the metric `name` of this step.
    pub fn add_metric(&self, name: &str, metric: Metric) -> Result<()> {
        if self.looks_swapped(metric) {
            self.warn_of_swap(name, metric)?;
        }
        self.with_local(self.record()?, |local| local.metrics.add(name, metric));
        Ok(())
    }

    /// Whether the sum is the number of the replica's examples, and the weight is not even a whole
    /// number: then the one probably stands in the place of the other.
    pub fn looks_swapped(&self, metric: Metric) -> bool {
        metric.weight.fract() != 0.0
            && self
                .batch_position()
                .local_examples
                .is_some_and(|count| count > 0 && metric.sum == count as f64)
    }

    /// Warns of an addition to a mean that looks swapped, once for each strategy; for a strict one
    /// it is a mistake.
    #[cold]
    pub fn warn_of_swap(&self, name: &str, metric: Metric) -> Result<()> {
        let strategy = self.strategy();
        let is_strict = strategy.is_strict();
        if !is_strict && strategy.has_warned_of_swap() {
            return Ok(());
        }
        let Metric { sum, weight } = metric;
        strict::warn_or_fail(
            is_strict,
            |text| Error::invalid("sum", text),
            || {
                format!(
                    "metric '{name}' gets {sum}, the number of this replica's examples, as a sum, \
                     and {weight} as its weight, as if they were swapped; the sum comes first, \
                     then the weight"
                )
            },
        )
    }

    /// This replica's additions to the metrics of this step so far.
    pub fn metrics(&self) -> Result<Vec<(String, Metric)>> {
        let named = |(name, metric): (&str, Metric)| (name.to_owned(), metric);
        let all = |local: &mut LocalState| local.metrics.iter().map(named).collect();
        Ok(self.with_local(self.record()?, all))
    }

    /// This replica is about to add to `metrics`, which matters to a trial alone.
    pub fn record_additions<A: Additions + 'static>(&self, metrics: &Arc<A>) -> Result<()> {
        match &self.watcher {
            Some(watcher) => watcher.adds_to(Arc::clone(metrics) as _),
            None => Ok(()),
        }
    }

    /// Data that the layer above attaches to this replica's context. It is made on first use, and
    /// lives until the strategy does not need the context any more.
    pub fn attachment<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Result<&T> {
        self.record()?.attachments[self.replica]
            .get_or_init(|| Box::new(make()))
            .downcast_ref()
            .ok_or_else(|| Error::Internal("two kinds of attachment on one context".into()))
    }

    /// Keeps `variable`, which is of another strategy, until the callback returns, because the
    /// callback has a view of it. Nothing is kept in the default context, where there is no end.
    pub(crate) fn keep_viewed(&self, variable: &Variable) {
        if let Some(step) = &self.step {
            self.with_local(step, |local| {
                local
                    .viewed
                    .entry(variable.key())
                    .or_insert_with(|| variable.clone());
            });
        }
    }
}
