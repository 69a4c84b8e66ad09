//! Applying gradients, in each context: at once, or at the commit point of the step.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::optimizer::action::ApplyAction;
use crate::optimizer::gradients::Gradients;
use crate::optimizer::state::Optimizer;
use crate::strategy::Strategy;
use crate::strategy::context::{Current, ReplicaContext, current};
use crate::strategy::merge::Operation;
use crate::values::variable::Variable;

/// What is asked of one apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApplyOptions {
    /// Update now, also if the gradients have accumulated fewer runs than they should: at the end
    /// of an epoch, say.
    pub flush: bool,
    /// Report the norm of the gradient, also if nothing else needs it.
    pub measure_norm: bool,
}

/// What an apply did.
#[derive(Clone, Debug, Default)]
pub struct ApplyReport {
    /// False if the total weight was 0 (nothing was updated, and the contributions are used up), if
    /// the apply was skipped, and if the contributions were added to those of earlier runs.
    pub applied: bool,
    /// Whether a gradient was not finite, and so nothing was updated.
    pub skipped: bool,
    /// The first variable whose gradient was not finite, if that was looked for and found.
    pub non_finite: Option<Variable>,
    /// Whether the gradients were scaled down to the largest norm.
    pub clipped: bool,
    /// The norm of all gradients together, before clipping and without weight decay, if it was
    /// measured.
    pub gradient_norm: Option<f64>,
    /// Runs that are accumulated and wait for an update.
    pub accumulated_runs: u64,
    /// Variables that were updated: those that a replica of non-zero weight wrote.
    pub variables_updated: usize,
    /// The sum of the replicas' weights, over all accumulated runs.
    pub total_weight: f64,
    /// The learning rate of the update; 0 if there was none.
    pub learning_rate: f64,
    /// The loss scale of the next run.
    pub loss_scale: f64,
    /// Applies of the optimizer that have taken effect, this one included.
    pub iterations: u64,
}

/// What became of an apply.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It is done.
    Done(ApplyReport),
    /// It waits for the commit point of the step that this thread is in.
    Deferred,
}

/// Has `optimizer` apply `gradients`, in whatever context this thread is.
///
/// Outside of a step it waits for its turn and acts at once. Inside of one, in cross-replica
/// context (a merge call), it is deferred to the step's commit point, and so takes what the
/// replicas have submitted by then. In replica context it is a synchronising operation, all
/// replicas call it, and it is deferred once. A deferred apply that fails makes the step fail.
///
/// Fails if the two are of different strategies, if their strategy is gone, in the context of
/// another strategy, and as the [`ApplyAction`] does. Allocates nothing outside of a step once all
/// variables have been updated.
pub fn apply(optimizer: &Arc<Optimizer>, gradients: &Arc<Gradients>) -> Result<Outcome> {
    apply_with(optimizer, gradients, ApplyOptions::default())
}

/// As [`apply`], with options. In replica context all replicas give the same.
pub fn apply_with(
    optimizer: &Arc<Optimizer>,
    gradients: &Arc<Gradients>,
    options: ApplyOptions,
) -> Result<Outcome> {
    check_same_strategy(optimizer, gradients)?;
    match current() {
        Current::Replica(context) if context.strategy().id() == optimizer.strategy() => {
            apply_in_replica(&context, optimizer, gradients, options)?;
            return Ok(Outcome::Deferred);
        }
        _ => {}
    }
    let strategy = Strategy::with_id(optimizer.strategy()).ok_or_else(|| {
        Error::precondition("optimizer: its strategy was released; keep that until the last apply")
    })?;
    let (optimizer, gradients) = (Arc::clone(optimizer), Arc::clone(gradients));
    if let Some(step) = strategy.current_step() {
        let action = ApplyAction::at_commit_point(optimizer, gradients, step).with(options);
        strategy.defer(Box::new(action))?;
        return Ok(Outcome::Deferred);
    }
    let mut action = ApplyAction::new(optimizer, gradients).with(options);
    strategy.change("umbo_optimizer_apply", &mut action)?;
    Ok(Outcome::Done(action.report()))
}

fn apply_in_replica(
    context: &ReplicaContext,
    optimizer: &Arc<Optimizer>,
    gradients: &Arc<Gradients>,
    options: ApplyOptions,
) -> Result<()> {
    let operation = Operation::Apply {
        optimizer: Arc::as_ptr(optimizer).addr(),
        gradients: Arc::as_ptr(gradients).addr(),
        options: u8::from(options.flush) | u8::from(options.measure_norm) << 1,
    };
    let (optimizer, gradients) = (Arc::clone(optimizer), Arc::clone(gradients));
    let action = ApplyAction::at_commit_point(optimizer, gradients, context.step_number());
    let action = action.with(options);
    let merge = Box::new(|strategy: &Strategy, values| {
        strategy.defer(Box::new(action))?;
        Ok(values)
    });
    context.synchronize(operation, None, merge).map(drop)
}

pub(super) fn check_same_strategy(optimizer: &Optimizer, gradients: &Gradients) -> Result<()> {
    if gradients.strategy() == optimizer.strategy() {
        return Ok(());
    }
    Err(Error::invalid(
        "gradients",
        "made for another strategy than the optimizer; make both for one",
    ))
}
