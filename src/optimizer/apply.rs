//! Applying gradients: one change of central state, in a part that can fail and a pass that cannot.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::kernels::update::{Contribution, Pass};
use crate::optimizer::gradients::{Contributions, Gradients};
use crate::optimizer::rule::UpdateRule;
use crate::optimizer::state::{Optimizer, State};
use crate::strategy::Strategy;
use crate::strategy::commit::CommitAction;
use crate::strategy::context::{Current, ReplicaContext, current};
use crate::strategy::merge::Operation;
use crate::values::variable::Variable;

/// What an apply did.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct ApplyReport {
    /// False if the total weight was 0: nothing was updated, and the contributions are used up.
    pub applied: bool,
    /// Variables that were updated: those that a replica of non-zero weight wrote.
    pub variables_updated: usize,
    /// The sum of the replicas' weights.
    pub total_weight: f64,
    /// Applies of the optimizer that have taken effect, this one included.
    pub iterations: u64,
}

/// What became of an apply.
#[derive(Clone, Copy, Debug, PartialEq)]
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
    check_same_strategy(optimizer, gradients)?;
    match current() {
        Current::Replica(context) if context.strategy().id() == optimizer.strategy() => {
            apply_in_replica(&context, optimizer, gradients)?;
            return Ok(Outcome::Deferred);
        }
        _ => {}
    }
    let strategy = Strategy::with_id(optimizer.strategy()).ok_or_else(|| {
        Error::precondition("optimizer: its strategy was released; keep that until the last apply")
    })?;
    let (optimizer, gradients) = (Arc::clone(optimizer), Arc::clone(gradients));
    if let Some(step) = strategy.open_step() {
        let action = ApplyAction::at_commit_point(optimizer, gradients, step);
        strategy.defer(Box::new(action))?;
        return Ok(Outcome::Deferred);
    }
    let mut action = ApplyAction::new(optimizer, gradients);
    strategy.change("umbo_optimizer_apply", &mut action)?;
    Ok(Outcome::Done(action.report()))
}

fn apply_in_replica(
    context: &ReplicaContext,
    optimizer: &Arc<Optimizer>,
    gradients: &Arc<Gradients>,
) -> Result<()> {
    let operation = Operation::Apply {
        optimizer: Arc::as_ptr(optimizer).addr(),
        gradients: Arc::as_ptr(gradients).addr(),
    };
    let (optimizer, gradients) = (Arc::clone(optimizer), Arc::clone(gradients));
    let action = ApplyAction::at_commit_point(optimizer, gradients, context.step_number());
    let merge = Box::new(|strategy: &Strategy, values| {
        strategy.defer(Box::new(action))?;
        Ok(values)
    });
    context.synchronize(operation, None, merge).map(drop)
}

fn check_same_strategy(optimizer: &Optimizer, gradients: &Gradients) -> Result<()> {
    if gradients.strategy() == optimizer.strategy() {
        return Ok(());
    }
    Err(Error::invalid(
        "gradients",
        "made for another strategy than the optimizer; make both for one",
    ))
}

/// An apply of gradients by an optimizer.
///
/// After a run: `prepare`, then `commit`, with no step in between. Inside of a run (see
/// [`ApplyAction::at_commit_point`]): `prepare` when all replicas have returned, then `commit`
/// before or after the step's staged variables are published; variables that the step staged are
/// updated where the staged value is. Dropped after `prepare` alone, it leaves everything as it
/// was.
pub struct ApplyAction {
    optimizer: Arc<Optimizer>,
    gradients: Arc<Gradients>,
    committing: Option<u64>,
    prepared: Option<Prepared>,
    report: ApplyReport,
}

struct Prepared {
    step: u64,
    total_weight: f64,
}

impl ApplyAction {
    /// An apply of what the last run submitted.
    pub fn new(optimizer: Arc<Optimizer>, gradients: Arc<Gradients>) -> ApplyAction {
        ApplyAction::at(None, optimizer, gradients)
    }

    /// An apply at the commit point of `step`, of what that step submitted.
    pub fn at_commit_point(
        optimizer: Arc<Optimizer>,
        gradients: Arc<Gradients>,
        step: u64,
    ) -> ApplyAction {
        ApplyAction::at(Some(step), optimizer, gradients)
    }

    fn at(
        committing: Option<u64>,
        optimizer: Arc<Optimizer>,
        gradients: Arc<Gradients>,
    ) -> ApplyAction {
        let report = ApplyReport::default();
        ApplyAction { optimizer, gradients, committing, prepared: None, report }
    }

    /// What the apply did, once it is committed.
    pub fn report(&self) -> ApplyReport {
        self.report
    }

    /// Scalars and state for every variable that will be updated, or, on failure, for none.
    fn prepare_variables(&self, contributions: Contributions<'_>) -> Result<()> {
        let rule = self.optimizer.rule();
        let state = &mut *self.optimizer.lock();
        let operands = |_| Error::ResourceExhausted("memory for the apply's operands".into());
        // Both are empty between passes, so this is the capacity.
        state.contributions.try_reserve(self.gradients.replicas()).map_err(operands)?;
        state.slots.try_reserve(rule.slots().len()).map_err(operands)?;
        for (index, variable) in self.gradients.variables().iter().enumerate() {
            if !contributions.has_variable(index) {
                continue;
            }
            if let Err(error) = prepare_variable(state, variable, rule) {
                self.forget_variables(state, contributions, index);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Drops the scalars of those of the first `count` variables that this action prepared.
    fn forget_variables(&self, state: &mut State, contributions: Contributions<'_>, count: usize) {
        for (index, variable) in self.gradients.variables()[..count].iter().enumerate() {
            if contributions.has_variable(index)
                && let Some(known) = state.variables.get_mut(&variable.key())
            {
                known.prepared = None;
            }
        }
    }

    /// Updates every variable that was prepared; returns how many.
    fn update_variables(&self, state: &mut State, prepared: &Prepared) -> usize {
        let reduction = self.gradients.loss_reduction();
        let divisor = reduction.divisor(prepared.total_weight);
        let contributions = Contributions::of_step(&self.gradients, prepared.step);
        let mut updated = 0;
        for (index, variable) in self.gradients.variables().iter().enumerate() {
            if !contributions.has_variable(index) {
                continue;
            }
            let State { variables, contributions: parts, slots, .. } = &mut *state;
            let Some(known) = variables.get_mut(&variable.key()) else { continue };
            let Some(scalars) = known.prepared.take() else { continue };
            let writable = "variables and state are contiguous host memory, checked by prepare";
            parts.extend(contributions.of_variable(index).map(|(weight, buffer)| Contribution {
                gradient: buffer.reading().expect(writable),
                factor: reduction.factor(weight),
            }));
            slots.extend(known.slots.iter().map(|slot| slot.writing().expect(writable)));
            let weights = variable.visible().writing().expect(writable);
            let pass = Pass::new(weights, slots, parts, divisor);
            self.optimizer.rule().update(&scalars, pass);
            parts.clear();
            slots.clear();
            known.running = scalars.running;
            known.updates += 1;
            updated += 1;
        }
        updated
    }
}

impl CommitAction for ApplyAction {
    fn prepare(&mut self) -> Result<()> {
        check_same_strategy(&self.optimizer, &self.gradients)?;
        let contributions = self.gradients.applicable(self.committing)?;
        let (step, total_weight) = (contributions.step, contributions.total_weight());
        self.gradients.claim()?;
        if total_weight > 0.0
            && let Err(error) = self.prepare_variables(contributions)
        {
            self.gradients.release(None);
            return Err(error);
        }
        self.prepared = Some(Prepared { step, total_weight });
        Ok(())
    }

    fn commit(&mut self) {
        let Some(prepared) = self.prepared.take() else { return };
        let state = &mut *self.optimizer.lock();
        let applied = prepared.total_weight > 0.0;
        let variables_updated = if applied { self.update_variables(state, &prepared) } else { 0 };
        state.iterations += u64::from(applied);
        self.report = ApplyReport {
            applied,
            variables_updated,
            total_weight: prepared.total_weight,
            iterations: state.iterations,
        };
        self.gradients.release(Some(prepared.step));
    }
}

impl Drop for ApplyAction {
    fn drop(&mut self) {
        if let Some(prepared) = self.prepared.take() {
            let contributions = Contributions::of_step(&self.gradients, prepared.step);
            let count = self.gradients.variables().len();
            self.forget_variables(&mut self.optimizer.lock(), contributions, count);
            self.gradients.release(None);
        }
    }
}

fn prepare_variable(state: &mut State, variable: &Variable, rule: &dyn UpdateRule) -> Result<()> {
    // What the commit will write: the staged value if the step staged one.
    variable.visible().writing()?;
    let learning_rate = state.learning_rate;
    let known = state.of_variable(variable, rule)?;
    if known.prepared.is_some() {
        return Err(Error::precondition(format!(
            "{variable:?}: this optimizer has another apply to it waiting for the commit point; \
             apply to a variable once for each run"
        )));
    }
    known.prepared = Some(rule.prepare(learning_rate, &known.running)?);
    Ok(())
}
