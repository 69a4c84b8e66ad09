//! Applying gradients, in each context: at once, or at the commit point of the step.

pub mod action;
mod commit;
pub(crate) mod device_average;
pub(crate) mod device_operands;
pub(crate) mod factored;
pub(crate) mod host;
pub(crate) mod launcher;
pub(crate) mod matrix_steps;
pub(crate) mod non_finite;
pub(crate) mod on_device;
pub(crate) mod plan;
pub(crate) mod preparation;
pub(crate) mod report;
mod sending;
pub(crate) mod sources;
pub(crate) mod update_context;
pub(crate) mod workspace;

use std::sync::Arc;

use crate::apply::action::{ApplyAction, check_same_strategy};
use crate::apply::report::{ApplyOptions, ApplyReport};
use crate::gradients::Gradients;
use crate::state::Optimizer;
use umbo_base::error::{Error, Result};
use umbo_strategy::Strategy;
use umbo_strategy::context::{Current, ReplicaContext, current};
use umbo_strategy::step::merge::{MergeCall, Operation};

/// The outcome of an apply.
#[derive(Clone, Debug)]
pub enum Applied {
    /// The apply is done.
    Done(ApplyReport),
    /// The apply waits for the commit point of the step that this thread is in.
    Deferred,
}

/// Applies `gradients` with `optimizer`, in any context.
///
/// Outside a step it waits for the step lock and acts at once. Inside a step, in cross-replica
/// context (a merge call), it is deferred to the step's commit point, and so applies what the
/// replicas have submitted by then. In replica context it is a synchronising operation, all
/// replicas call it, and it is deferred once. A deferred apply that fails makes the step fail.
///
/// Fails if the two are of different strategies, if their strategy is gone, in the context of
/// another strategy, and as the [`ApplyAction`] does. Allocates nothing outside of a step once all
/// variables have been updated.
pub fn apply(optimizer: &Arc<Optimizer>, gradients: &Arc<Gradients>) -> Result<Applied> {
    apply_with(optimizer, gradients, ApplyOptions::default())
}

/// As [`apply`], with options. In replica context all replicas pass the same options.
pub fn apply_with(
    optimizer: &Arc<Optimizer>,
    gradients: &Arc<Gradients>,
    options: ApplyOptions,
) -> Result<Applied> {
    check_same_strategy(optimizer, gradients)?;
    if let Current::Replica(context) = current()
        && context.strategy().id() == optimizer.strategy()
    {
        apply_in_replica(&context, optimizer, gradients, options)?;
        return Ok(Applied::Deferred);
    }
    let strategy = Strategy::with_id(optimizer.strategy()).ok_or_else(|| {
        Error::precondition("optimizer: its strategy was released; keep that until the last apply")
    })?;
    let optimizer = Arc::clone(optimizer);
    let gradients = Arc::clone(gradients);
    if let Some(step) = strategy.current_step() {
        let action = ApplyAction::at_commit_point(optimizer, gradients, step).with(options);
        strategy.defer(Box::new(action))?;
        return Ok(Applied::Deferred);
    }
    if strategy.is_elastic() {
        // Gradients between their run and their apply would die with the ranks that have them.
        return Err(Error::precondition(
            "optimizer: with an elastic strategy an update is a part of the step whose gradients \
             it takes: apply in the callback, or train by whole epochs",
        ));
    }
    let mut action = ApplyAction::new(optimizer, gradients).with(options);
    strategy.change(&mut action)?;
    Ok(Applied::Done(action.report()))
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
        options: options.words(),
        rule: optimizer.rule_name().clone(),
        first: gradients
            .variables()
            .first()
            .map_or_else(|| "".into(), |first| first.name().clone()),
        variables: gradients.variables().len(),
    };
    let optimizer = Arc::clone(optimizer);
    let gradients = Arc::clone(gradients);
    let action = ApplyAction::at_commit_point(optimizer, gradients, context.step_id());
    let action = action.with(options);
    let merge = Box::new(|strategy: &Strategy, _: &mut [&mut MergeCall]| {
        strategy.defer(Box::new(action))?;
        Ok(None)
    });
    context.synchronize(operation, None, merge).map(drop)
}
