//! One apply as a change of central state: a part that can fail, and a pass that cannot.

use std::sync::Arc;

use parking_lot::MutexGuard;

use crate::error::{Error, Result};
use crate::kernels::accumulate::accumulate;
use crate::kernels::update::Pass;
use crate::kernels::view::View;
use crate::kernels::weighted_sum::{Clipping, Contribution, WeightedSum};
use crate::optimizer::accumulation::Accumulation;
use crate::optimizer::apply::{ApplyOptions, ApplyReport, check_same_strategy};
use crate::optimizer::contributions::Contributions;
use crate::optimizer::gradients::Gradients;
use crate::optimizer::rule::{Rates, UpdateRule, WeightDecay};
use crate::optimizer::settings::NonFinite;
use crate::optimizer::state::{Optimizer, State, check_learning_rate};
use crate::strategy::commit::CommitAction;
use crate::values::variable::Variable;

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
    options: ApplyOptions,
    committing: Option<u64>,
    prepared: Option<Prepared>,
    report: ApplyReport,
}

/// What `commit` will do.
struct Prepared {
    step: u64,
    /// Of this run and of those that are accumulated.
    total_weight: f64,
    /// What undoes the loss scale.
    unscale: f64,
    plan: Plan,
    measured: Measured,
}

enum Plan {
    /// Add the contributions to those of earlier runs.
    Accumulate,
    /// Drop all of them: nobody contributed.
    Drop,
    /// Drop all of them, and note that a gradient was not finite.
    Skip,
    /// Update the variables whose scalars are prepared.
    Update { learning_rate: f64, clipping: Clipping },
}

/// What was found out about the gradients.
#[derive(Default)]
struct Measured {
    norm: Option<f64>,
    non_finite: Option<Variable>,
}

/// The contributions of the last run, the sums of those before it, and what makes gradients of
/// them.
struct Sources<'a> {
    gradients: &'a Gradients,
    contributions: Contributions<'a>,
    accumulation: MutexGuard<'a, Accumulation>,
    unscale: f64,
    divisor: f64,
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
        let (options, report) = (ApplyOptions::default(), ApplyReport::default());
        ApplyAction { optimizer, gradients, options, committing, prepared: None, report }
    }

    /// The same apply with options.
    pub fn with(mut self, options: ApplyOptions) -> ApplyAction {
        self.options = options;
        self
    }

    /// What the apply did, once it is committed.
    pub fn report(&self) -> ApplyReport {
        self.report.clone()
    }

    /// All of `prepare` that comes after the gradients were claimed. What it changes is undone if
    /// it fails, and cannot be seen.
    fn prepare_claimed(&self, contributions: Contributions<'_>) -> Result<Prepared> {
        let (step, weight) = (contributions.step, contributions.total_weight());
        let (runs, total_weight) = {
            let accumulation = self.gradients.accumulation();
            (accumulation.runs + 1, accumulation.weight + weight)
        };
        if !total_weight.is_finite() {
            return Err(Error::invalid(
                "weight",
                "the weights of the accumulated runs have no finite sum; weigh by examples or \
                 smaller numbers",
            ));
        }
        let update = self.options.flush || runs >= self.gradients.accumulation_steps();
        // The schedule is the caller's function: no lock is held.
        let learning_rate = if update && total_weight > 0.0 { self.scheduled_rate()? } else { 0.0 };

        let state = &mut *self.optimizer.lock();
        let unscale = 1.0 / state.loss_scale;
        let mut sources = Sources::new(&self.gradients, contributions, total_weight, unscale);
        self.reserve_operands(state)?;
        sources.merge_rows(state, self.optimizer.rule())?;
        let mut measured = Measured::default();
        let plan = if !update {
            sources.reserve_sums(state)?;
            Plan::Accumulate
        } else if total_weight == 0.0 {
            Plan::Drop
        } else {
            measured = self.measure(state, &sources)?;
            match (&measured.non_finite, state.settings.non_finite()) {
                (Some(variable), NonFinite::Fail) => return Err(not_finite(variable)),
                (Some(_), NonFinite::Skip) => Plan::Skip,
                _ => {
                    self.prepare_variables(state, &sources, learning_rate)?;
                    let norm = measured.norm.unwrap_or(0.0);
                    let factor = match state.settings.clip_norm {
                        Some(largest) if norm > largest => largest / norm,
                        _ => 1.0,
                    };
                    let limit = state.settings.clip_value.unwrap_or(f64::INFINITY);
                    Plan::Update { learning_rate, clipping: Clipping { factor, limit } }
                }
            }
        };
        Ok(Prepared { step, total_weight, unscale, plan, measured })
    }

    fn scheduled_rate(&self) -> Result<f64> {
        let state = self.optimizer.lock();
        let (schedule, iterations) = (state.schedule.clone(), state.iterations);
        let constant = state.learning_rate;
        drop(state);
        let Some(schedule) = schedule else { return Ok(constant) };
        let learning_rate = schedule(iterations)?;
        check_learning_rate(learning_rate)?;
        Ok(learning_rate)
    }

    /// Room for the operands of one pass.
    fn reserve_operands(&self, state: &mut State) -> Result<()> {
        let operands = |_| Error::ResourceExhausted("memory for the apply's operands".into());
        let slots = self.optimizer.rule().slots().len();
        // Both are empty between passes, so this is the capacity.
        state.contributions.try_reserve(self.gradients.replicas()).map_err(operands)?;
        state.slots.try_reserve(slots).map_err(operands)
    }

    /// Norm and finiteness of the gradients of all variables that will be updated, if they matter.
    fn measure(&self, state: &mut State, sources: &Sources<'_>) -> Result<Measured> {
        let settings = state.settings;
        let wanted = self.options.measure_norm || settings.clip_norm.is_some();
        if !wanted && settings.non_finite() == NonFinite::Ignore {
            return Ok(Measured::default());
        }
        let mut non_finite = None;
        let mut sum = 0.0;
        for (index, variable) in sources.gradients.variables().iter().enumerate() {
            if !sources.has_variable(index, state) {
                continue;
            }
            let mut parts = std::mem::take(&mut state.contributions);
            let result = match sources.accumulation.rows(index) {
                Some(rows) => rows.gradient(variable.dtype(), sources.divisor),
                None => sources.gradient(index, variable, &mut parts),
            };
            let result = result.map(|gradient| gradient.squares());
            parts.clear();
            state.contributions = parts;
            let squares = result?;
            sum += squares.sum;
            if non_finite.is_none() && !(squares.finite && (squares.sum.is_finite() || !wanted)) {
                non_finite = Some(variable.clone());
            }
        }
        Ok(Measured { norm: wanted.then(|| sum.sqrt()), non_finite })
    }

    /// Scalars and state for every variable that will be updated, or, on failure, for none.
    fn prepare_variables(
        &self,
        state: &mut State,
        sources: &Sources<'_>,
        learning_rate: f64,
    ) -> Result<()> {
        let rule = self.optimizer.rule();
        for (index, variable) in sources.gradients.variables().iter().enumerate() {
            if !sources.has_variable(index, state) {
                continue;
            }
            let rates = state.rates(variable, rule, learning_rate);
            if let Err(error) = prepare_variable(state, variable, rule, &rates) {
                forget_variables(state, sources, index);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Updates every variable that was prepared; returns how many.
    fn update_variables(
        &self,
        state: &mut State,
        sources: &Sources<'_>,
        clipping: Clipping,
    ) -> usize {
        let rule = self.optimizer.rule();
        let mut updated = 0;
        for (index, variable) in sources.gradients.variables().iter().enumerate() {
            if !sources.has_variable(index, state) {
                continue;
            }
            let State { variables, contributions: parts, slots, .. } = &mut *state;
            let Some(known) = variables.get_mut(&variable.key()) else { continue };
            let Some(scalars) = known.prepared.take() else { continue };
            let usable = "variables, state and gradients are contiguous host memory, as prepared";
            slots.extend(known.slots.iter().map(|slot| slot.writing().expect(usable)));
            let weights = variable.visible().writing().expect(usable);
            let l2 = match rule.weight_decay() {
                WeightDecay::L2 => scalars.rates.weight_decay,
                WeightDecay::Decoupled => 0.0,
            };
            let pass = match sources.accumulation.rows(index) {
                Some(rows) => {
                    let sums = rows.sums().expect(usable);
                    Pass::at_rows(weights, slots, rows.rows(), sums, sources.divisor)
                }
                None => {
                    sources.collect(index, parts).expect(usable);
                    Pass::new(weights, slots, parts, sources.divisor)
                        .starting_from(sources.accumulated(index).expect(usable))
                }
            };
            let pass = pass.clipped(clipping).with_l2(l2);
            let scalars = rule.measure(scalars, &pass);
            rule.update(&scalars, pass);
            parts.clear();
            slots.clear();
            known.running = scalars.running;
            known.updates += 1;
            updated += 1;
        }
        updated
    }

    /// Adds this run's contributions to the sums.
    fn accumulate(&self, state: &mut State, sources: &mut Sources<'_>) {
        let gradients = sources.gradients;
        for (index, variable) in gradients.variables().iter().enumerate() {
            if state.group(variable).frozen || !sources.contributions.has_variable(index) {
                continue;
            }
            if sources.accumulation.keep_rows(index) {
                continue;
            }
            let usable = "sums and gradients are contiguous host memory, as prepared";
            let parts = &mut state.contributions;
            sources.collect(index, parts).expect(usable);
            if let Some((sum, fresh)) = sources.accumulation.claim(index) {
                accumulate(&sum.writing().expect(usable), fresh, parts);
            }
            parts.clear();
        }
        sources.accumulation.runs += 1;
        sources.accumulation.weight += sources.contributions.total_weight();
    }

    fn sources(&self, prepared: &Prepared) -> Sources<'_> {
        let contributions = Contributions::of_step(&self.gradients, prepared.step);
        Sources::new(&self.gradients, contributions, prepared.total_weight, prepared.unscale)
    }
}

impl CommitAction for ApplyAction {
    fn prepare(&mut self) -> Result<()> {
        check_same_strategy(&self.optimizer, &self.gradients)?;
        let contributions = self.gradients.applicable(self.committing)?;
        self.gradients.claim()?;
        let prepared = self.prepare_claimed(contributions).inspect_err(|_| {
            self.gradients.release(None);
        })?;
        self.prepared = Some(prepared);
        Ok(())
    }

    fn commit(&mut self) {
        let Some(prepared) = self.prepared.take() else { return };
        let state = &mut *self.optimizer.lock();
        let mut sources = self.sources(&prepared);
        let Measured { norm, non_finite } = prepared.measured;
        let mut report = ApplyReport {
            gradient_norm: norm,
            non_finite,
            total_weight: prepared.total_weight,
            ..ApplyReport::default()
        };
        match prepared.plan {
            Plan::Accumulate => self.accumulate(state, &mut sources),
            Plan::Drop => sources.accumulation.reset(),
            Plan::Skip => {
                sources.accumulation.reset();
                state.back_off();
                report.skipped = true;
            }
            Plan::Update { learning_rate, clipping } => {
                report.variables_updated = self.update_variables(state, &sources, clipping);
                report.applied = true;
                report.clipped = clipping.factor != 1.0;
                report.learning_rate = learning_rate;
                sources.accumulation.reset();
                state.count_update(learning_rate);
            }
        }
        report.accumulated_runs = sources.accumulation.runs;
        report.loss_scale = state.loss_scale;
        report.iterations = state.iterations;
        state.last_report = Some(report.clone());
        drop(sources);
        self.report = report;
        self.gradients.release(Some(prepared.step));
    }
}

impl Drop for ApplyAction {
    fn drop(&mut self) {
        if let Some(prepared) = self.prepared.take() {
            if let Plan::Update { .. } = prepared.plan {
                let state = &mut *self.optimizer.lock();
                let count = self.gradients.variables().len();
                forget_variables(state, &self.sources(&prepared), count);
            }
            self.gradients.release(None);
        }
    }
}

impl<'a> Sources<'a> {
    fn new(
        gradients: &'a Gradients,
        contributions: Contributions<'a>,
        total_weight: f64,
        unscale: f64,
    ) -> Sources<'a> {
        let accumulation = gradients.accumulation();
        let divisor = gradients.loss_reduction().divisor(total_weight);
        Sources { gradients, contributions, accumulation, unscale, divisor }
    }

    /// Whether variable `index` is to be updated: it is not frozen, and a replica of non-zero
    /// weight wrote it in one of the runs.
    fn has_variable(&self, index: usize, state: &State) -> bool {
        let written =
            self.accumulation.has_variable(index) || self.contributions.has_variable(index);
        written && !state.group(&self.gradients.variables()[index]).frozen
    }

    /// Appends the contributions of the last run to variable `index`.
    fn collect(&self, index: usize, parts: &mut Vec<Contribution>) -> Result<()> {
        let reduction = self.gradients.loss_reduction();
        for (weight, buffer) in self.contributions.of_variable(index) {
            let factor = reduction.factor(weight) * self.unscale;
            parts.push(Contribution { gradient: buffer.reading()?, factor });
        }
        Ok(())
    }

    /// The gradient of a variable that is no table, which looks at `parts`.
    fn gradient<'p>(
        &self,
        index: usize,
        variable: &Variable,
        parts: &'p mut Vec<Contribution>,
    ) -> Result<WeightedSum<'p>> {
        self.collect(index, parts)?;
        let elements = variable.shape().elements();
        let sum = WeightedSum::new(variable.dtype(), elements, parts, self.divisor);
        Ok(sum.starting_from(self.accumulated(index)?))
    }

    /// Merges the rows of the last run into the gradients of tables that may be updated by `rule`.
    fn merge_rows(&mut self, state: &State, rule: &dyn UpdateRule) -> Result<()> {
        let (reduction, unscale) = (self.gradients.loss_reduction(), self.unscale);
        let factor = |weight| reduction.factor(weight) * unscale;
        for (index, variable) in self.gradients.variables().iter().enumerate() {
            let frozen = state.group(variable).frozen;
            let rows = self.contributions.rows_of(index, factor).filter(move |_| !frozen);
            if !rule.is_elementwise() && rows.clone().next().is_some() {
                return Err(needs_all_rows(variable, rule));
            }
            self.accumulation.merge_rows(index, variable, rows)?;
        }
        Ok(())
    }

    /// The sum of the runs before the last one.
    fn accumulated(&self, index: usize) -> Result<Option<View>> {
        self.accumulation.of_variable(index).map(|sum| sum.reading()).transpose()
    }

    /// Memory for the sums that this run adds to.
    fn reserve_sums(&mut self, state: &State) -> Result<()> {
        for (index, variable) in self.gradients.variables().iter().enumerate() {
            if self.contributions.has_variable(index) && !state.group(variable).frozen {
                self.accumulation.reserve(index, variable)?;
            }
        }
        Ok(())
    }
}

/// Drops the scalars of those of the first `count` variables that an action prepared.
fn forget_variables(state: &mut State, sources: &Sources<'_>, count: usize) {
    for (index, variable) in sources.gradients.variables()[..count].iter().enumerate() {
        if sources.has_variable(index, state)
            && let Some(known) = state.variables.get_mut(&variable.key())
        {
            known.prepared = None;
        }
    }
}

fn prepare_variable(
    state: &mut State,
    variable: &Variable,
    rule: &dyn UpdateRule,
    rates: &Rates,
) -> Result<()> {
    // What the commit will write: the staged value if the step staged one.
    variable.visible().writing()?;
    let known = state.of_variable(variable, rule)?;
    if known.prepared.is_some() {
        return Err(Error::precondition(format!(
            "{variable:?}: this optimizer has another apply to it waiting for the commit point; \
             apply to a variable once for each run"
        )));
    }
    known.prepared = Some(rule.prepare(rates, &known.running)?);
    Ok(())
}

fn needs_all_rows(variable: &Variable, rule: &dyn UpdateRule) -> Error {
    Error::invalid(
        "gradients",
        format!(
            "those of {variable:?} are row-sparse, and {} needs norms of whole variables; nothing was \
             changed. Use another rule for it, or make its gradients without row_sparse",
            rule.name()
        ),
    )
}

fn not_finite(variable: &Variable) -> Error {
    Error::invalid(
        "gradients",
        format!(
            "the gradient of {variable:?}, or its norm, is not finite; nothing was changed. Have such \
             applies skipped, or run the step again with other gradients"
        ),
    )
}
