//! A pass over a dataset: next, run, apply, until there are no more elements.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::error::{Error, Result, Status};
use crate::input::PassIterator;
use crate::metrics::Metrics;
use crate::optimizer::{ApplyAction, ApplyOptions, ApplyReport, Gradients, Optimizer, apply_with};
use crate::strategy::context::require_cross_replica_of;
use crate::strategy::metrics::EpochMetrics;
use crate::strategy::run::Limits;
use crate::strategy::{ReplicaContext, ReplicaFunction, RunUserData, Strategy};
use crate::values::Value;

/// Of a step that took no effect.
const AGAIN: &str = " (the next epoch begins with its batch)";

/// What is done with each element of an iterator, and when it ends.
pub struct Epoch<'a> {
    /// Whose replicas run the steps.
    pub strategy: &'a Strategy,
    /// Where the elements come from.
    pub iterator: &'a PassIterator,
    /// What each step ends with; nothing if it only evaluates.
    pub update: Option<(Arc<Optimizer>, Arc<Gradients>)>,
    /// What begins at zero, unless `keep_metrics`.
    pub metrics: Option<&'a Metrics>,
    /// What ends it early, as an error.
    pub limits: Limits,
    /// After how many steps it ends; none: with the pass.
    pub max_steps: Option<u64>,
    /// Whether accumulated gradients are applied at the end.
    pub flush: bool,
    /// Whether metrics go on from what they have: in an epoch that goes on from a checkpoint.
    pub keep_metrics: bool,
    /// Whether the iterator is reset when the pass has ended.
    pub reset: bool,
}

/// What has been done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EpochReport {
    /// Steps that were committed.
    pub steps: u64,
    /// The examples of their elements, as far as these are known.
    pub examples: u64,
    /// Updates that took effect.
    pub applied: u64,
    /// Updates that were skipped because a gradient was not finite.
    pub skipped: u64,
    /// Since the beginning.
    pub seconds: f64,
    /// Whether the pass has ended.
    pub pass_ended: bool,
}

/// Is called after each step with what has been done, and what the step's apply did.
pub type Progress<'a> = dyn FnMut(&EpochReport, Option<&ApplyReport>) -> Result<()> + 'a;

/// Is given the step and the element that a pass begins with, before the step runs on it.
pub type BeforeFirstStep<'a> = dyn Fn(&ReplicaFunction, &Value) -> Result<()> + 'a;

impl Epoch<'_> {
    /// Does all that. `function` is the step; `user_data` is kept until its last callback is back.
    ///
    /// The update is a part of its step: if any part of a step fails, all is as after the step before, also
    /// the place of the iterator, which gives the element again to the next epoch.
    pub fn run(
        &self,
        function: Arc<ReplicaFunction>,
        user_data: Option<Arc<dyn Any + Send + Sync>>,
        progress: &mut Progress<'_>,
    ) -> Result<EpochReport> {
        self.run_from(function, user_data, &|_, _| Ok(()), progress)
    }

    /// As [`Epoch::run`]; what `first` fails with is the failure of the step that it comes before.
    ///
    /// However it ends, the strategy's metrics are then those of its steps together.
    pub fn run_from(
        &self,
        function: Arc<ReplicaFunction>,
        user_data: Option<Arc<dyn Any + Send + Sync>>,
        first: &BeforeFirstStep<'_>,
        progress: &mut Progress<'_>,
    ) -> Result<EpochReport> {
        self.check()?;
        if let Some(metrics) = self.metrics.filter(|_| !self.keep_metrics) {
            metrics.reset()?;
        }
        let metrics = Arc::default();
        let done = self.run_steps(function, user_data, first, progress, &metrics);
        self.strategy.show_epoch(&metrics);
        done
    }

    fn run_steps(
        &self,
        function: Arc<ReplicaFunction>,
        user_data: Option<Arc<dyn Any + Send + Sync>>,
        first: &BeforeFirstStep<'_>,
        progress: &mut Progress<'_>,
        metrics: &Arc<EpochMetrics>,
    ) -> Result<EpochReport> {
        let started = Instant::now();
        let seen = Arc::new(AtomicU64::new(0));
        let (own, update) = (Arc::clone(&function), self.update.clone());
        let step = with_update(own, update, Arc::clone(&seen), Arc::clone(metrics));
        let mut report = EpochReport::default();
        while self.max_steps.is_none_or(|most| report.steps < most) {
            let number = report.steps + 1;
            let at = |what: &str| format!("step {number} of the epoch: {what}");
            // Of several ranks each learns in the run that one is out of time.
            let is_alone = self.strategy.ranks().is_alone();
            if let Some(why) = self.limits.exceeded().filter(|_| is_alone) {
                return Err(why.within(at("before it began")));
            }
            let next = self.iterator.lend().map_err(|error| self.end_for_all(error));
            let Some(lent) = next.map_err(|error| error.within(at("the next element")))? else {
                report.pass_ended = true;
                break;
            };
            let checked = match self.iterator.begins() {
                // What fails here comes again with its element.
                true => first(&*function, &lent.element).map(|()| self.iterator.note_begun()),
                false => Ok(()),
            };
            let (what, done) = match checked {
                Ok(()) => {
                    let element = lent.element.clone();
                    (
                        "of the epoch failed and changed nothing",
                        self.run_step(&step, element, user_data.clone()),
                    )
                }
                failed => ("of the epoch did not begin", failed),
            };
            if let Err(error) = done {
                let comes_again =
                    !self.strategy.element_is_passed_over() && self.iterator.give_back(lent);
                let again = if comes_again { AGAIN } else { "" };
                return Err(error.within(format!("step {number} {what}{again}")));
            }
            drop(lent);
            let done = self.update.as_ref().and_then(|(optimizer, _)| optimizer.last_report());
            report.steps = number;
            report.examples += seen.load(Ordering::Relaxed);
            report.count(done.as_ref());
            report.seconds = started.elapsed().as_secs_f64();
            progress(&report, done.as_ref()).map_err(|error| error.within(at("progress")))?;
        }
        self.end(&mut report)?;
        report.seconds = started.elapsed().as_secs_f64();
        Ok(report)
    }

    /// Lets the other ranks know that this one has no element for the step that they begin, unless they
    /// take elements together and know.
    fn end_for_all(&self, error: Error) -> Error {
        if self.iterator.spans_ranks() {
            return error;
        }
        // For want of memory nothing is used up.
        let passes_over = error.status() != Status::ResourceExhausted;
        let error = self.strategy.fail_to_begin(error, passes_over);
        if !passes_over && self.strategy.element_is_passed_over() {
            // What another rank cannot make is left out here, too.
            drop(self.iterator.next());
        }
        error
    }

    fn check(&self) -> Result<()> {
        if self.strategy.step_around().is_some() {
            return Err(Error::precondition(
                "inside of a run: an epoch consists of runs; call it outside of them",
            ));
        }
        require_cross_replica_of(self.strategy.id())?;
        let of_update = |(optimizer, gradients): &(Arc<Optimizer>, Arc<Gradients>)| {
            (optimizer.strategy(), gradients.strategy())
        };
        let (optimizer, gradients) = self.update.as_ref().map(of_update).unzip();
        for (of, argument) in [
            (self.iterator.distributed_for(), "iterator"),
            (optimizer, "optimizer"),
            (gradients, "gradients"),
            (self.metrics.map(Metrics::strategy), "options.metrics"),
        ] {
            if of.is_some_and(|of| of != self.strategy.id()) {
                return Err(Error::invalid(
                    argument,
                    "made for another strategy than the one that trains; make it for this one",
                ));
            }
        }
        Ok(())
    }

    fn run_step(
        &self,
        step: &Arc<ReplicaFunction>,
        element: Value,
        user_data: Option<Arc<dyn Any + Send + Sync>>,
    ) -> Result<()> {
        if !self.limits.is_bounded() {
            return self.strategy.run(&**step, Some(element)).map(drop);
        }
        let user_data = user_data.map(|user_data| Box::new(user_data) as RunUserData);
        let (step, limits) = (Arc::clone(step), self.limits.clone());
        self.strategy.run_within(step, Some(element), limits, user_data).map(drop)
    }

    fn end(&self, report: &mut EpochReport) -> Result<()> {
        if let Some((optimizer, gradients)) = &self.update
            && self.flush
            && gradients.accumulated_runs()? > 0
        {
            let options = ApplyOptions { flush: true, ..ApplyOptions::default() };
            let flushed = apply_with(optimizer, gradients, options);
            flushed.map_err(|error| error.within("after the last step: the flush"))?;
            report.count(optimizer.last_report().as_ref());
        }
        if report.pass_ended && self.reset {
            let reset = self.iterator.reset();
            reset.map_err(|error| error.within("after the last step: the iterator's reset"))?;
        }
        Ok(())
    }
}

impl EpochReport {
    fn count(&mut self, done: Option<&ApplyReport>) {
        self.applied += u64::from(done.is_some_and(|done| done.applied));
        self.skipped += u64::from(done.is_some_and(|done| done.skipped));
    }
}

/// The step, and behind it, at its commit point, the update; `seen` gets the examples of the step, and
/// `metrics` what it measures.
fn with_update(
    function: Arc<ReplicaFunction>,
    update: Option<(Arc<Optimizer>, Arc<Gradients>)>,
    seen: Arc<AtomicU64>,
    metrics: Arc<EpochMetrics>,
) -> Arc<ReplicaFunction> {
    Arc::new(move |context: &ReplicaContext| {
        if context.replica() == 0 {
            // Of the replicas of all ranks.
            seen.store(context.batch_position().global_examples.unwrap_or(0), Ordering::Relaxed);
            context.strategy().count_for(context.step_id(), &metrics);
        }
        function(context)?;
        // Replica 0's word is enough: what it defers waits for the others, and is dropped if one fails.
        if context.replica() == 0
            && let Some((optimizer, gradients)) = &update
        {
            let (optimizer, gradients) = (Arc::clone(optimizer), Arc::clone(gradients));
            let action = ApplyAction::at_commit_point(optimizer, gradients, context.step_id());
            context.strategy().defer(Box::new(action))?;
        }
        Ok(None)
    })
}
