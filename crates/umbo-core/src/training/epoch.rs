//! A pass over a dataset. It takes an element, runs a step and applies the gradients, until the
//! pass ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use umbo_base::error::{Error, Result};
use umbo_check::OwnedCallback;
use umbo_input::{LentElement, PassIterator};
use umbo_metrics::Metrics;
use umbo_optim::{ApplyAction, ApplyOptions, ApplyReport, Gradients, Optimizer, apply_with};
use umbo_strategy::context::metrics::EpochMetrics;
use umbo_strategy::context::require_cross_replica;
use umbo_strategy::step::run::Limits;
use umbo_strategy::{ReplicaContext, Strategy};
use umbo_tensor::values::Value;

/// Added to the error of a step that had no effect.
const AGAIN: &str = " (the next epoch begins with its batch)";

/// The work on each element of an iterator, and the condition that ends the epoch.
pub struct Epoch<'a> {
    /// The strategy whose replicas run the steps.
    pub strategy: &'a Strategy,
    /// The iterator that returns the elements.
    pub iterator: &'a PassIterator,
    /// The update at the end of each step. Without it, the epoch only evaluates.
    pub update: Option<(Arc<Optimizer>, Arc<Gradients>)>,
    /// The metrics, which begin at zero, unless `keep_metrics`.
    pub metrics: Option<&'a Metrics>,
    /// The limits that end the epoch early, with an error.
    pub limits: Limits,
    /// The number of steps after which the epoch ends. Without it, the epoch ends with the pass.
    pub max_steps: Option<u64>,
    /// Whether accumulated gradients are applied at the end.
    pub flush: bool,
    /// Whether metrics continue from their present values, as in an epoch that continues from a
    /// checkpoint.
    pub keep_metrics: bool,
    /// Whether the iterator is reset when the pass has ended.
    pub reset: bool,
    /// Whether errors call it an evaluation, whose iterator no later one continues.
    pub evaluates: bool,
}

/// The progress so far.
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
    /// The time since the beginning.
    pub seconds: f64,
    /// Whether the pass has ended, as far as [`PassIterator::note_end`] knows.
    pub pass_ended: bool,
}

/// The function that is called after each step, with the report so far and the report of the step's
/// apply.
pub type Progress<'a> = dyn FnMut(&EpochReport, Option<&ApplyReport>) -> Result<()> + 'a;

/// The function that is called with the step, the limits of the epoch and the first element of a
/// pass, before the step runs on it. It may postpone the deadline.
pub type BeforeFirstStep<'a> = dyn Fn(&OwnedCallback, &mut Limits, &Value) -> Result<()> + 'a;

impl Epoch<'_> {
    /// Runs the epoch. `callback` is the step. Its data are kept until its last callback has
    /// returned. If `first` fails, the step that follows it fails with the same error.
    ///
    /// The update is a part of its step. If any part of a step fails, all state is as after the
    /// step before. The same holds for the position of the iterator, which returns the element
    /// again to the next epoch.
    ///
    /// At the end, also after a failure, the strategy's metrics are those of all of its steps
    /// together.
    pub fn run(
        &self,
        callback: &OwnedCallback,
        first: &BeforeFirstStep<'_>,
        progress: &mut Progress<'_>,
    ) -> Result<EpochReport> {
        self.check()?;
        if let Some(metrics) = self.metrics.filter(|_| !self.keep_metrics) {
            metrics
                .reset()
                .map_err(|error| self.fail_for_all(error, &mut EpochReport::default()))?;
        }
        let metrics = Arc::default();
        let done = self.run_steps(callback, first, progress, &metrics);
        self.strategy.show_epoch(&metrics);
        done
    }

    /// Takes the next element. An iterator that is at its end before the first step, as after a
    /// loop over its elements, begins a new pass: the epoch would have no steps. One of which an
    /// epoch that failed has taken the last element is not: that epoch is continued, and ends.
    fn next_element(&self, is_first: bool, limits: &Limits) -> Result<Option<LentElement>> {
        let take = || {
            if is_first && self.reset && self.iterator.has_ended()? {
                self.iterator.reset()?;
            }
            self.iterator.lend(limits)
        };
        take().map_err(|error| self.end_for_all(error))
    }

    /// Ends the pass on all ranks. Where each has data of its own, they have agreed on the end
    /// already.
    fn end_pass(&self, report: &mut EpochReport) -> Result<()> {
        if !self.iterator.spans_ranks
            && let Err(error) = self.strategy.end_pass(report.steps)
        {
            // A rank that has failed meanwhile has not come to the end of its pass.
            self.iterator.give_back_end();
            return Err(error);
        }
        report.pass_ended = true;
        Ok(())
    }

    fn pass_in_words(&self) -> &'static str {
        match self.evaluates {
            true => "of the evaluation",
            false => "of the epoch",
        }
    }

    /// A step that has failed, in words. Its element is given back to the iterator.
    fn failed_step(&self, number: u64, cause: &str, lent: LentElement) -> String {
        let comes_again = !self.strategy.element_is_passed_over() && self.iterator.give_back(lent);
        let again = if comes_again && !self.evaluates {
            AGAIN
        } else {
            ""
        };
        let pass = self.pass_in_words();
        format!("step {number} {pass} {cause}{again}")
    }

    fn run_steps(
        &self,
        callback: &OwnedCallback,
        first: &BeforeFirstStep<'_>,
        progress: &mut Progress<'_>,
        metrics: &Arc<EpochMetrics>,
    ) -> Result<EpochReport> {
        let started = Instant::now();
        let seen = Arc::new(AtomicU64::new(0));
        let mut limits = self.limits.clone();
        let update = self.update.clone();
        let step = with_update(callback, update, Arc::clone(&seen), Arc::clone(metrics));
        let mut report = EpochReport::default();
        while self.max_steps.is_none_or(|most| report.steps < most) {
            let number = report.steps + 1;
            let pass = self.pass_in_words();
            let at = |event: &str| format!("step {number} {pass}: {event}");
            // With several ranks, each rank learns in the run that one is out of time.
            let is_alone = self.strategy.ranks().is_alone();
            if let Some(why) = limits.exceeded().filter(|_| is_alone) {
                return Err(why.within(at("before it began")));
            }
            let next = self.next_element(report.steps == 0, &limits);
            let Some(lent) = next.map_err(|error| error.within(at("the next element")))? else {
                self.end_pass(&mut report)
                    .map_err(|error| error.within(at("the next element")))?;
                break;
            };
            let checked = match self.iterator.begins() {
                // If this fails, it is called again when its element comes again.
                true => first(callback, &mut limits, &lent.element)
                    .map(|()| self.iterator.record_begun()),
                false => Ok(()),
            };
            let (cause, done) = match checked {
                Ok(()) => {
                    let element = lent.element.clone();
                    (
                        "failed and changed nothing",
                        self.run_step(&step, element, &limits),
                    )
                }
                failed => ("did not begin", failed),
            };
            if let Err(error) = done {
                return Err(error.within(self.failed_step(number, cause, lent)));
            }
            drop(lent);
            let done = self
                .update
                .as_ref()
                .and_then(|(optimizer, _)| optimizer.last_report());
            report.steps = number;
            report.examples += seen.load(Ordering::Relaxed);
            report.count(done.as_ref());
            report.seconds = started.elapsed().as_secs_f64();
            if let Err(error) = progress(&report, done.as_ref()) {
                return Err(self.fail_for_all(error.within(at("progress")), &mut report));
            }
        }
        self.end(&mut report, &limits)
            .map_err(|error| error.within("after the last step"))?;
        report.seconds = started.elapsed().as_secs_f64();
        Ok(report)
    }

    /// Notifies the other ranks that this rank ends the epoch after the steps of `report`, unless
    /// they end it, too, without another exchange: a step, or the flush. Then this rank ends it as
    /// they do, so that all of them begin the next pass, or none.
    fn fail_for_all(&self, error: Error, report: &mut EpochReport) -> Error {
        let is_last = self.max_steps.is_some_and(|most| report.steps >= most);
        let flushes = self.flush
            && self.update.as_ref().is_some_and(|(_, gradients)| {
                gradients.accumulated_runs().is_ok_and(|runs| runs > 0)
            });
        if !is_last || flushes {
            return self.fail_next_step(error, false);
        }
        if !self.strategy.ranks().is_alone() {
            // If this fails, it fails on the others, too, and progress has failed before it.
            let _ = self.end(report, &Limits::default());
        }
        error
    }

    /// Notifies the other ranks that this rank has no element for the step that they begin, and
    /// whether it passes over that element. If another rank does, this one does, too, also after a
    /// limit: otherwise the ranks' next elements would not belong together.
    fn fail_next_step(&self, error: Error, passes_over: bool) -> Error {
        let error = self.strategy.fail_to_begin(error, passes_over);
        if !passes_over && self.strategy.element_is_passed_over() {
            drop(self.iterator.next());
        }
        error
    }

    /// Notifies the other ranks that this rank has no element for the step that they begin, unless
    /// the ranks take elements together and are already notified.
    fn end_for_all(&self, error: Error) -> Error {
        if self.iterator.spans_ranks {
            return error;
        }
        // If memory is lacking, or a limit was reached, no element is used up.
        let passes_over = !error.comes_again();
        self.fail_next_step(error, passes_over)
    }

    fn check(&self) -> Result<()> {
        if self.strategy.step_around().is_some() {
            return Err(Error::precondition(
                "inside of a run: an epoch consists of runs; call it outside of them",
            ));
        }
        require_cross_replica(self.strategy.id())?;
        let of_update = |(optimizer, gradients): &(Arc<Optimizer>, Arc<Gradients>)| {
            (optimizer.strategy(), gradients.strategy())
        };
        let (optimizer, gradients) = self.update.as_ref().map(of_update).unzip();
        for (strategy, argument) in [
            (self.iterator.distributed_for(), "iterator"),
            (optimizer, "optimizer"),
            (gradients, "gradients"),
            (self.metrics.map(Metrics::strategy), "metrics"),
        ] {
            if strategy.is_some_and(|owner| owner != self.strategy.id()) {
                return Err(invalid!(
                    argument,
                    "made for a strategy other than the one that trains; make it for this one"
                ));
            }
        }
        Ok(())
    }

    fn run_step(&self, step: &OwnedCallback, element: Value, limits: &Limits) -> Result<()> {
        if !limits.is_bounded() {
            return self.strategy.run(&*step.function, Some(element)).map(drop);
        }
        let function = Arc::clone(&step.function);
        let user_data = step.run_user_data();
        self.strategy
            .run_within(function, Some(element), limits.clone(), user_data)
            .map(drop)
    }

    fn end(&self, report: &mut EpochReport, limits: &Limits) -> Result<()> {
        if let Some((optimizer, gradients)) = &self.update
            && self.flush
            && gradients.accumulated_runs()? > 0
        {
            let options = ApplyOptions {
                flush: true,
                ..ApplyOptions::default()
            };
            let flushed = apply_with(optimizer, gradients, options);
            flushed.map_err(|error| error.within("the flush"))?;
            report.count(optimizer.last_report().as_ref());
        }
        // Ranks know the number of elements alike, so that they need no exchange for it. An element
        // that one of them alone has looked for would be another rank's disagreement.
        let looks = self.strategy.ranks().is_alone().then_some(limits);
        report.pass_ended =
            report.pass_ended || report.steps > 0 && self.iterator.note_end(looks)?;
        if report.pass_ended && self.reset {
            let reset = self.iterator.reset();
            reset.map_err(|error| error.within("the iterator's reset"))?;
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

/// The step, followed by the update at its commit point. The examples of the step are stored in
/// `seen`, and its measurements are added to `metrics`.
fn with_update(
    callback: &OwnedCallback,
    update: Option<(Arc<Optimizer>, Arc<Gradients>)>,
    seen: Arc<AtomicU64>,
    metrics: Arc<EpochMetrics>,
) -> OwnedCallback {
    let function = Arc::clone(&callback.function);
    let with_update = move |context: &ReplicaContext| {
        if context.replica() == 0 {
            // This is the number of examples of the replicas of all ranks.
            seen.store(
                context.batch_position().global_examples.unwrap_or(0),
                Ordering::Relaxed,
            );
            context.strategy().count_for(context.step_id(), &metrics);
        }
        function(context)?;
        if let Some((optimizer, gradients)) = &update {
            update_at_commit(context, optimizer, gradients)?;
        }
        Ok(None)
    };
    OwnedCallback {
        function: Arc::new(with_update),
        user_data: callback.user_data.clone(),
    }
}

/// Defers the update to the end of the step. Each replica calls this; that of replica 0 suffices,
/// since deferred work waits for the others, and is dropped if one fails.
pub(super) fn update_at_commit(
    context: &ReplicaContext,
    optimizer: &Arc<Optimizer>,
    gradients: &Arc<Gradients>,
) -> Result<()> {
    if context.replica() != 0 {
        return Ok(());
    }
    let optimizer = Arc::clone(optimizer);
    let gradients = Arc::clone(gradients);
    let action = ApplyAction::at_commit_point(optimizer, gradients, context.step_id());
    context.strategy().defer(Box::new(action))
}
