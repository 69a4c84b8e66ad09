//! Applying gradients: one change of central state, in a part that can fail and a pass that cannot.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::kernels::update::{Contribution, Pass};
use crate::optimizer::gradients::{Contributions, Gradients};
use crate::optimizer::rule::UpdateRule;
use crate::optimizer::state::{Optimizer, State};
use crate::strategy::commit::CommitAction;
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
        if self.gradients.strategy() != self.optimizer.strategy() {
            return Err(Error::invalid(
                "gradients",
                "made for another strategy than the optimizer; make both for one",
            ));
        }
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
