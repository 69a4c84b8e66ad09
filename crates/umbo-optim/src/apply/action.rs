//! One apply as a change of central state: a part that can fail, and a pass that cannot.

use std::mem;
use std::sync::Arc;

use crate::apply::launcher::{ApplyBackend, Keep};
use crate::apply::launchers::launcher_of;
use crate::apply::non_finite::{not_finite, warn_of};
use crate::apply::plan::TreatmentPlan;
use crate::apply::report::{ApplyOptions, ApplyReport};
use crate::apply::sources::GradientSources;
use crate::apply::update_context::UpdateContext;
use crate::apply::workspace::ApplyWorkspace;
use crate::exchange::Exchange;
use crate::gradients::Gradients;
use crate::gradients::contributions::Contributions;
use crate::gradients::lifecycle::check_finite;
use crate::rules::check_not_negative;
use crate::state::settings::NonFinite;
use crate::state::{Optimizer, OptimizerMemory};
use umbo_base::error::{Error, Result};
use umbo_kernels::update::weighted_sum::Clipping;
use umbo_strategy::commit::CommitAction;
use umbo_strategy::ranks::AddQuantity;
use umbo_tensor::values::variable::Variable;

/// An apply of gradients by an optimizer.
///
/// After a run: `prepare`, then `commit`, with no step in between. Inside a run (see
/// [`ApplyAction::at_commit_point`]): `prepare` when all replicas have returned, then `commit`
/// before or after the step's staged variables are published; variables that the step staged are
/// updated where the staged value is. Dropped after `prepare` alone, it leaves everything as it
/// was.
pub struct ApplyAction {
    optimizer: Arc<Optimizer>,
    gradients: Arc<Gradients>,
    options: ApplyOptions,
    committing: Option<u64>,
    prepared: Option<PreparedApply>,
    report: ApplyReport,
    /// The warning that is logged once no lock of the commit point is held: the variable and the
    /// step in which a gradient that is not finite was applied for the first time.
    warning: Option<(Variable, u64)>,
    /// Why a GPU failed to carry out the commit.
    failure: Option<Error>,
}

/// A prepared apply, which `commit` carries out.
struct PreparedApply {
    step: u64,
    /// How many runs it adds to those that are accumulated: one, or none if it only flushes.
    runs: u64,
    /// The weight of this run and of the accumulated runs.
    total_weight: f64,
    /// The factor that undoes the loss scale.
    unscale: f64,
    outcome: ApplyDecision,
    measured: GradientFindings,
    work: ApplyWorkspace,
    /// The launcher that works on the variables.
    launcher: &'static dyn ApplyBackend,
}

enum ApplyDecision {
    /// Add the contributions to those of earlier runs.
    Accumulate,
    /// Drop all of them: no replica contributed.
    Drop,
    /// Drop all of them, and note that a gradient was not finite.
    Skip,
    /// Update the variables whose scalars are prepared.
    Update {
        learning_rate: f64,
        clipping: Clipping,
    },
}

impl ApplyDecision {
    /// How many updates of the optimizer it is.
    fn updates(&self) -> u64 {
        u64::from(matches!(self, ApplyDecision::Update { .. }))
    }
}

/// The measurements of the gradients.
#[derive(Default)]
struct GradientFindings {
    norm: Option<f64>,
    /// The first variable whose gradient was not finite.
    non_finite: Option<usize>,
}

impl ApplyAction {
    /// An apply of what the last run submitted.
    pub fn new(optimizer: Arc<Optimizer>, gradients: Arc<Gradients>) -> ApplyAction {
        ApplyAction {
            optimizer,
            gradients,
            options: ApplyOptions::default(),
            committing: None,
            prepared: None,
            report: ApplyReport::default(),
            warning: None,
            failure: None,
        }
    }

    /// An apply at the commit point of `step`, of what that step submitted.
    pub fn at_commit_point(
        optimizer: Arc<Optimizer>,
        gradients: Arc<Gradients>,
        step: u64,
    ) -> ApplyAction {
        let mut action = ApplyAction::new(optimizer, gradients);
        action.committing = Some(step);
        action
    }

    /// The same apply with options.
    pub fn with(mut self, options: ApplyOptions) -> ApplyAction {
        self.options = options;
        self
    }

    /// The report of the apply, once it is committed.
    pub fn report(&self) -> ApplyReport {
        self.report.clone()
    }

    /// The part of `prepare` after the gradients were claimed. If it fails, its changes are undone,
    /// and nobody sees them.
    fn prepare_claimed(&self, contributions: Contributions<'_>) -> Result<PreparedApply> {
        let step = contributions.step;
        let weight = contributions.total_weight();
        let own_runs = contributions.runs();
        let (runs, total_weight) = {
            let accumulation = self.gradients.accumulation();
            (accumulation.runs + own_runs, accumulation.weight + weight)
        };
        check_finite(total_weight, "the weights of the accumulated runs")?;
        let update = self.options.flush || runs >= self.gradients.accumulation_steps();
        let ranks = self.gradients.ranks();
        let exchange = match update {
            true => {
                let sources =
                    GradientSources::new(&self.gradients, contributions, total_weight, 1.0);
                let count = self.gradients.variables().len();
                let what = format_args!("an update by gradients of {count} variables");
                let options = |add: &mut AddQuantity<'_>| {
                    add(&"the option flush of the apply", self.options.flush.into());
                    add(
                        &"the option measure_norm of the apply",
                        self.options.measure_norm.into(),
                    );
                };
                Exchange::begin(&ranks, &self.gradients, &sources, &what, &options)?
            }
            false => Exchange::of_own(&ranks),
        };
        let total_weight = exchange.total_weight(total_weight);
        check_finite(total_weight, "the weights of all ranks")?;
        // The schedule is the caller's function: no lock is held.
        let learning_rate = if update && total_weight > 0.0 {
            self.scheduled_rate()?
        } else {
            0.0
        };

        let state = &mut *self.optimizer.lock();
        let unscale = 1.0 / state.loss_scale_of(step);
        let mut work = state.take_work();
        let mut sources =
            GradientSources::new(&self.gradients, contributions, total_weight, unscale);
        let prepared = launcher_of(self.gradients.variables()).and_then(|launcher| {
            let work = &mut work;
            let sources = &mut sources;
            let (outcome, measured) = match update {
                true => {
                    self.prepare_update(state, work, sources, launcher, learning_rate, &exchange)?
                }
                false => {
                    self.prepare_accumulation(state, work, sources, launcher)?;
                    (ApplyDecision::Accumulate, GradientFindings::default())
                }
            };
            Ok((outcome, measured, launcher))
        });
        match prepared {
            Ok((outcome, measured, launcher)) => {
                state.pending += outcome.updates();
                Ok(PreparedApply {
                    step,
                    runs: own_runs,
                    total_weight,
                    unscale,
                    outcome,
                    measured,
                    work,
                    launcher,
                })
            }
            Err(error) => {
                state.give_back(work);
                Err(error)
            }
        }
    }

    fn prepare_accumulation(
        &self,
        state: &OptimizerMemory,
        work: &mut ApplyWorkspace,
        sources: &mut GradientSources<'_>,
        launcher: &'static dyn ApplyBackend,
    ) -> Result<()> {
        let plan = &mut *self.gradients.plan();
        state.refresh(plan, self.optimizer.id(), &self.gradients);
        sources.merge_own_rows(&|index| plan.updates(index))?;
        let contributions = sources.contributions;
        let rule = self.optimizer.rule();
        work.select(sources, plan, rule, None, |index| {
            contributions.has_variable(index)
        })?;
        if self.non_finite(state) == NonFinite::Fail {
            // No later run can remove from the sum what is not finite.
            let mut found = None;
            launcher.measure(work, sources, Keep::Nothing)?;
            work.for_each_squares(|index, squares| {
                if !squares.finite {
                    found.get_or_insert(index);
                }
            });
            if let Some(index) = found {
                return Err(not_finite(sources, index));
            }
        }
        work.reserve_sums(sources)?;
        launcher.reserve_sum(work, sources)
    }

    fn prepare_update(
        &self,
        state: &mut OptimizerMemory,
        work: &mut ApplyWorkspace,
        sources: &mut GradientSources<'_>,
        launcher: &'static dyn ApplyBackend,
        learning_rate: f64,
        exchange: &Exchange<'_>,
    ) -> Result<(ApplyDecision, GradientFindings)> {
        if sources.total_weight == 0.0 {
            return Ok((ApplyDecision::Drop, GradientFindings::default()));
        }
        let plan = &mut *self.gradients.plan();
        state.refresh(plan, self.optimizer.id(), &self.gradients);
        let rule = self.optimizer.rule();
        let measures = self.measures(state);
        exchange.exchange(sources, work, (state, plan), rule, launcher, measures)?;
        let measured = self.measure(state, work, sources, launcher)?;
        match (&measured.non_finite, self.non_finite(state)) {
            (Some(index), NonFinite::Fail) => return Err(not_finite(sources, *index)),
            (Some(_), NonFinite::Skip) => return Ok((ApplyDecision::Skip, measured)),
            _ => {}
        }
        let norm = measured.norm.unwrap_or(0.0);
        let factor = match state.settings.global_clip_norm {
            Some(largest) if norm > largest => largest / norm,
            _ => 1.0,
        };
        let factor = if state.settings.maximize {
            -factor
        } else {
            factor
        };
        let limit = state.settings.clip_value.unwrap_or(f64::INFINITY);
        let clipping = Clipping { factor, limit };
        let prepared = work.prepare(state, sources, plan, rule, learning_rate);
        let means = UpdateContext {
            variables: &state.variables,
            sources,
            rule,
            clipping,
        };
        let options = |work: &ApplyWorkspace, add: &mut AddQuantity<'_>| {
            self.add_options(state, plan, work, learning_rate, add);
        };
        if let Err(error) = exchange.reserve_update(prepared, work, means, launcher, &options) {
            work.drop_updates(&mut state.variables);
            return Err(error);
        }
        Ok((
            ApplyDecision::Update {
                learning_rate,
                clipping,
            },
            measured,
        ))
    }

    /// Adds the settings that must be equal on all ranks, since each rank computes weights for all.
    fn add_options(
        &self,
        state: &OptimizerMemory,
        plan: &TreatmentPlan,
        work: &ApplyWorkspace,
        learning_rate: f64,
        add: &mut AddQuantity<'_>,
    ) {
        let rule = self.optimizer.rule();
        add(&"the update rule", rule.name().into());
        add(&"the learning rate", learning_rate.into());
        for (name, value) in rule.settings() {
            add(&format_args!("the rule's {name}"), value.into());
        }
        add(&"the weight decay", state.settings.weight_decay.into());
        add(
            &"the global clip norm",
            state.settings.global_clip_norm.into(),
        );
        add(&"the clip value", state.settings.clip_value.into());
        for item in &work.items {
            let name = self.gradients.variables()[item.index].name();
            let group = &plan.treatments[item.index].group;
            let rates = state.rates(group, rule, learning_rate);
            add(
                &format_args!("the learning rate of '{name}'"),
                rates.learning_rate.into(),
            );
            add(
                &format_args!("the weight decay of '{name}'"),
                rates.weight_decay.into(),
            );
            for scalar in item
                .update
                .iter()
                .flat_map(|update| &update.scalars.running)
            {
                let of = format_args!("a scalar that the updates of '{name}' so far have come to");
                add(&of, (*scalar).into());
            }
        }
    }

    /// The treatment of gradients that are not finite. Strict mode fails where a warning would be
    /// logged.
    fn non_finite(&self, state: &OptimizerMemory) -> NonFinite {
        match state.settings.non_finite() {
            NonFinite::Ignore if self.gradients.is_strict() => NonFinite::Fail,
            other => other,
        }
    }

    fn scheduled_rate(&self) -> Result<f64> {
        let state = self.optimizer.lock();
        // Those that wait for the same commit point come before this one.
        let schedule = state.schedule.clone();
        let iterations = state.iterations + state.pending;
        let constant = state.learning_rate;
        drop(state);
        let Some(schedule) = schedule else {
            return Ok(constant);
        };
        let learning_rate = schedule(iterations)?;
        if check_not_negative("learning_rate", learning_rate).is_err() {
            return Err(invalid!(
                "learning_rate",
                "the schedule gave {learning_rate} for update {iterations}; it must be finite and \
                 at least 0. Nothing was changed"
            ));
        }
        Ok(learning_rate)
    }

    /// Whether norm or finiteness of the gradients matter.
    fn measures(&self, state: &OptimizerMemory) -> bool {
        self.options.measure_norm
            || state.settings.global_clip_norm.is_some()
            || self.non_finite(state) != NonFinite::Ignore
    }

    /// Norm and finiteness of the gradients of all variables that will be updated, if they matter.
    fn measure(
        &self,
        state: &OptimizerMemory,
        work: &mut ApplyWorkspace,
        sources: &mut GradientSources<'_>,
        launcher: &'static dyn ApplyBackend,
    ) -> Result<GradientFindings> {
        let settings = state.settings;
        let wanted = self.options.measure_norm || settings.global_clip_norm.is_some();
        if !self.measures(state) {
            return Ok(GradientFindings::default());
        }
        let mut non_finite = None;
        let mut sum = 0.0;
        launcher.measure(work, sources, Keep::WherePossible)?;
        work.for_each_squares(|index, squares| {
            sum += squares.sum;
            if non_finite.is_none() && !(squares.finite && (squares.sum.is_finite() || !wanted)) {
                non_finite = Some(index);
            }
        });
        Ok(GradientFindings {
            norm: wanted.then(|| sum.sqrt()),
            non_finite,
        })
    }
}

impl CommitAction for ApplyAction {
    fn prepare(&mut self) -> Result<()> {
        check_same_strategy(&self.optimizer, &self.gradients)?;
        let prepared = self
            .gradients
            .applicable(self.committing, self.options.flush)
            .and_then(|contributions| Ok((self.gradients.claim()?, contributions)))
            .and_then(|(claim, contributions)| {
                let prepared = self.prepare_claimed(contributions)?;
                claim.keep();
                Ok(prepared)
            });
        match prepared {
            Ok(prepared) => {
                self.optimizer.remember(&self.gradients);
                self.prepared = Some(prepared);
            }
            Err(error) => {
                self.gradients.step.record_failed_apply();
                return Err(error);
            }
        }
        Ok(())
    }

    fn commit(&mut self) {
        let Some(prepared) = self.prepared.take() else {
            return;
        };
        let state = &mut *self.optimizer.lock();
        let PreparedApply {
            step,
            runs,
            total_weight,
            unscale,
            outcome,
            measured,
            ..
        } = prepared;
        let PreparedApply {
            mut work, launcher, ..
        } = prepared;
        let gradients = &*self.gradients;
        let contributions = match runs {
            0 => Contributions::none(step),
            _ => gradients.contributions(step),
        };
        let mut sources = GradientSources::new(gradients, contributions, total_weight, unscale);
        let mut failure = None;
        state.pending -= outcome.updates();
        let mut report = ApplyReport {
            gradient_norm: measured.norm,
            non_finite: measured
                .non_finite
                .map(|index| sources.variables()[index].clone()),
            total_weight,
            ..ApplyReport::default()
        };
        match outcome {
            ApplyDecision::Accumulate => {
                failure = work.accumulate(launcher, &mut sources).err();
                let plan = gradients.plan();
                let frozen = (0..sources.variables().len()).filter(|&index| !plan.updates(index));
                frozen.for_each(|index| sources.accumulation.leave_out(index));
                sources.accumulation.runs += 1;
                sources.accumulation.weight += sources.contributions.total_weight();
            }
            ApplyDecision::Drop => sources.accumulation.reset(),
            ApplyDecision::Skip => {
                sources.accumulation.reset();
                state.back_off(step);
                report.skipped = true;
            }
            ApplyDecision::Update {
                learning_rate,
                clipping,
            } => {
                let variables = &mut state.variables;
                let rule = self.optimizer.rule();
                let updated = work.update(launcher, variables, &sources, (rule, clipping));
                let found = updated.unwrap_or_else(|error| {
                    failure = Some(error);
                    None
                });
                if report.non_finite.is_none() {
                    report.non_finite = found.map(|index| sources.variables()[index].clone());
                }
                if let Some(variable) = &report.non_finite
                    && !mem::replace(&mut state.has_warned, true)
                {
                    self.warning = Some((variable.clone(), self.gradients.step.shown(step)));
                }
                report.variables_updated = work.len();
                report.applied = true;
                report.clipped = clipping.factor.abs() != 1.0;
                report.learning_rate = learning_rate;
                sources.accumulation.reset();
                state.count_update(step, learning_rate);
            }
        }
        if let Some(error) = &failure {
            launcher.give_up(&format!("an update was begun and not finished: {error}"));
        }
        state.give_back(work);
        report.accumulated_runs = sources.accumulation.runs;
        report.loss_scale = state.loss_scale;
        report.iterations = state.iterations;
        state.last_report = Some(report.clone());
        drop(sources);
        self.report = report;
        self.gradients.release(Some(step));
        self.failure = failure;
    }

    fn failure(&mut self) -> Option<Error> {
        self.failure.take()
    }
}

impl Drop for ApplyAction {
    fn drop(&mut self) {
        if let Some(PreparedApply {
            mut work, outcome, ..
        }) = self.prepared.take()
        {
            let state = &mut *self.optimizer.lock();
            state.pending -= outcome.updates();
            work.drop_updates(&mut state.variables);
            state.give_back(work);
            // Another rank failed, or another change at the same commit point.
            self.gradients.step.record_failed_apply();
            self.gradients.release(None);
        }
        // Nobody reads the applied gradients any more. Releasing them may run the caller's code,
        // which may call any function.
        self.gradients.release_lent();
        // The log sink is the caller's code, and may call the optimizer or the strategy.
        if let Some((variable, step)) = self.warning.take() {
            warn_of(&variable, step);
        }
    }
}

/// An optimizer applies gradients of its own strategy.
pub(crate) fn check_same_strategy(optimizer: &Optimizer, gradients: &Gradients) -> Result<()> {
    if gradients.strategy() == optimizer.strategy() {
        return Ok(());
    }
    Err(invalid!(
        "gradients",
        "made for another strategy than the optimizer; make both for one"
    ))
}
