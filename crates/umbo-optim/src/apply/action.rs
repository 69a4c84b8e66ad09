//! One apply as a change of central state: a part that can fail, which prepares, and the commit.

use std::sync::Arc;

use crate::apply::commit::{ApplyCommit, ApplyDecision, GradientFindings, PreparedApply};
use crate::apply::launcher::Keep;
use crate::apply::launcher::{Launcher, launcher_of};
use crate::apply::non_finite::{not_finite, warn_of};
use crate::apply::preparation::Preparation;
use crate::apply::report::{ApplyOptions, ApplyReport};
use crate::apply::sources::GradientSources;
use crate::apply::update_context::UpdateContext;
use crate::apply::workspace::ApplyWorkspace;
use crate::exchange::{Exchange, add_settings};
use crate::gradients::Gradients;
use crate::gradients::accumulation::Accumulation;
use crate::gradients::contributions::Contributions;
use crate::gradients::lifecycle::check_finite;
use crate::gradients::row_sums::Summing;
use crate::rules::check_not_negative;
use crate::state::Optimizer;
use crate::state::memory::{OptimizerMemory, RateSource};
use crate::state::settings::{NonFinite, Settings};
use parking_lot::MutexGuard;
use umbo_base::error::{Error, Result};
use umbo_kernels::update::weighted_sum::Clipping;
use umbo_strategy::HAS_RANKS;
use umbo_strategy::commit::CommitAction;
use umbo_strategy::ranks::{AddQuantity, Ranks};
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
    /// The reason why a device failed to carry out the commit.
    failure: Option<Error>,
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
    fn prepare_claimed(
        &self,
        contributions: Contributions<'_>,
        state: &mut MutexGuard<'_, OptimizerMemory>,
    ) -> Result<PreparedApply> {
        let step = contributions.step;
        let mut accumulation = self.gradients.accumulation();
        let (all_runs, total_weight) = accumulation.with(contributions);
        check_finite(total_weight, "the weights of the accumulated runs")?;
        let updates = self.options.flush || all_runs >= self.gradients.accumulation_steps();
        // Other ranks are waited for without them, and the schedule is the caller's function.
        let mut locks = PreparationLocks {
            state,
            accumulation: &mut accumulation,
        };
        // Accumulated runs are exchanged with the last one.
        let ranks = (updates && !self.gradients.is_alone()).then(|| self.gradients.ranks());
        let begin = |ranks| self.begin_exchange(ranks, contributions, total_weight);
        let mut exchange = match ranks.as_deref().filter(|ranks| !ranks.is_alone()) {
            Some(ranks) => Some(locks.during(|| begin(ranks))?),
            None => None,
        };
        let total_weight = exchange
            .as_ref()
            .map_or(total_weight, Exchange::total_weight);
        check_finite(total_weight, "the weights of all ranks")?;
        let scheduled = match updates && total_weight > 0.0 {
            true => locks.scheduled_rate()?,
            false => None,
        };
        let unscale = 1.0 / state.loss_scale_of(step);
        let mut sources = GradientSources::with_accumulation(
            &self.gradients,
            accumulation,
            contributions,
            total_weight,
            unscale,
        );
        let learning_rate = scheduled.unwrap_or(state.learning_rate);
        self.prepare_sources(
            state,
            &mut sources,
            updates.then_some(learning_rate),
            exchange.as_mut(),
        )
    }

    /// The part of `prepare` on the gradients of all runs: an update with this learning rate, or
    /// none.
    fn prepare_sources(
        &self,
        state: &mut OptimizerMemory,
        sources: &mut GradientSources<'_>,
        update: Option<f64>,
        exchange: Option<&mut Exchange<'_>>,
    ) -> Result<PreparedApply> {
        let launcher = launcher_of(self.gradients.variables())?;
        let contributions = sources.contributions;
        let (total_weight, unscale) = (sources.total_weight, sources.unscale);
        let mut work = state.take_work();
        let mut apply = Preparation {
            state,
            plan: &mut self.gradients.plan(),
            sources,
            work: &mut work,
            rule: self.optimizer.rule(),
            launcher,
        };
        let exchange = exchange.filter(|_| HAS_RANKS);
        let decided = match update {
            Some(learning_rate) => self.prepare_update(&mut apply, exchange, learning_rate),
            None => self.prepare_accumulation(&mut apply),
        };
        let (outcome, measured) = match decided {
            Ok(decided) => decided,
            Err(error) => {
                state.give_back(work);
                return Err(error);
            }
        };
        state.pending += outcome.updates();
        state.remember(&self.gradients);
        Ok(PreparedApply {
            step: contributions.step,
            runs: contributions.runs(),
            total_weight,
            unscale,
            outcome,
            measured,
            work,
            launcher,
        })
    }

    /// Begins the exchange of an update's gradients with the other ranks.
    fn begin_exchange<'r>(
        &self,
        ranks: &'r Ranks,
        contributions: Contributions<'_>,
        total_weight: f64,
    ) -> Result<Exchange<'r>> {
        let sources = GradientSources::new(&self.gradients, contributions, total_weight, 1.0);
        let count = self.gradients.variables().len();
        let purpose = format_args!("an update by gradients of {count} variables");
        let options = |add: &mut AddQuantity<'_>| {
            add(&"the option flush of the apply", self.options.flush.into());
            add(
                &"the option measure_norm of the apply",
                self.options.measure_norm.into(),
            );
        };
        let updates_all = self.optimizer.rule().factors().is_some();
        Exchange::begin(
            ranks,
            &self.gradients,
            &sources,
            &purpose,
            &options,
            updates_all,
        )
    }

    /// Prepares the addition of this run's gradients to those of earlier runs.
    fn prepare_accumulation(
        &self,
        apply: &mut Preparation<'_, '_>,
    ) -> Result<(ApplyDecision, GradientFindings)> {
        apply.refresh_plan(self.optimizer.id(), &self.gradients)?;
        let Preparation {
            state,
            plan,
            sources,
            work,
            rule,
            launcher,
        } = apply;
        sources.merge_own_rows(&|index| plan.updates(index), Summing::AtOnce)?;
        let contributions = sources.contributions;
        let kept = state.kept_by(*rule);
        work.select(sources, plan, kept, None, |index| {
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
        launcher.reserve_sum(work, sources)?;
        Ok((ApplyDecision::Accumulate, GradientFindings::default()))
    }

    /// Prepares an update by the gradients of this process, or, with an `exchange`, of all ranks.
    fn prepare_update(
        &self,
        apply: &mut Preparation<'_, '_>,
        mut exchange: Option<&mut Exchange<'_>>,
        learning_rate: f64,
    ) -> Result<(ApplyDecision, GradientFindings)> {
        if apply.sources.total_weight == 0.0 {
            return Ok((ApplyDecision::Drop, GradientFindings::default()));
        }
        apply.refresh_plan(self.optimizer.id(), &self.gradients)?;
        match &mut exchange {
            Some(exchange) => exchange.exchange(apply, self.measures(apply.state))?,
            None => apply.select_own(self.summing(apply))?,
        }
        let measured = self.measure(apply)?;
        match (&measured.non_finite, self.non_finite(apply.state)) {
            (Some(index), NonFinite::Fail) => return Err(not_finite(apply.sources, *index)),
            (Some(_), NonFinite::Skip) => return Ok((ApplyDecision::Skip, measured)),
            _ => {}
        }
        let clipping = clipping(&apply.state.settings, measured.norm);

        let Preparation {
            state,
            plan,
            sources,
            work,
            rule,
            launcher,
        } = apply;
        let prepared = work.prepare(state, sources, plan, *rule, learning_rate);
        let context = UpdateContext {
            variables: &state.variables,
            sources,
            rule: *rule,
            clipping,
        };
        let settings = |work: &ApplyWorkspace, add: &mut AddQuantity<'_>| {
            add_settings(state, plan, work, sources, *rule, learning_rate, add);
        };
        let reserved = match exchange {
            Some(exchange) if exchange.divides() => {
                exchange.exchange_weights(prepared, work, context, *launcher, &settings)
            }
            exchange => {
                let reserved = prepared.and_then(|()| launcher.reserve_update(work, context));
                match exchange {
                    Some(exchange) => exchange.agree(reserved, work, &settings),
                    None => reserved,
                }
            }
        };
        if let Err(error) = reserved {
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

    /// The treatment of gradients that are not finite. Strict mode fails where a warning would be
    /// logged.
    fn non_finite(&self, state: &OptimizerMemory) -> NonFinite {
        match state.settings.non_finite() {
            NonFinite::Ignore if self.gradients.is_strict() => NonFinite::Fail,
            other => other,
        }
    }

    /// Whether norm or finiteness of the gradients matter.
    fn measures(&self, state: &OptimizerMemory) -> bool {
        self.options.measure_norm
            || state.settings.global_clip_norm.is_some()
            || self.non_finite(state) != NonFinite::Ignore
    }

    /// The place where rows are added up: the update in host memory, unless they are measured
    /// before.
    fn summing(&self, apply: &Preparation<'_, '_>) -> Summing {
        match apply.launcher {
            Launcher::Host(_) if !self.measures(apply.state) => Summing::InUpdate,
            _ => Summing::AtOnce,
        }
    }

    /// Norm and finiteness of the gradients of all variables that will be updated, if they matter.
    fn measure(&self, apply: &mut Preparation<'_, '_>) -> Result<GradientFindings> {
        if !self.measures(apply.state) {
            return Ok(GradientFindings::default());
        }
        let settings = apply.state.settings;
        let wanted = self.options.measure_norm || settings.global_clip_norm.is_some();
        let mut non_finite = None;
        let mut sum = 0.0;
        apply
            .launcher
            .measure(apply.work, apply.sources, Keep::WherePossible)?;
        apply.work.for_each_squares(|index, squares| {
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

/// The locks of an apply that is prepared.
struct PreparationLocks<'a, 'o, 'g> {
    state: &'a mut MutexGuard<'o, OptimizerMemory>,
    accumulation: &'a mut MutexGuard<'g, Accumulation>,
}

impl PreparationLocks<'_, '_, '_> {
    /// The learning rate that a schedule gives for the next update; `None` without a schedule.
    fn scheduled_rate(&mut self) -> Result<Option<f64>> {
        let due = DueRate::of(self.state);
        due.map(|due| self.during(|| due.rate())).transpose()
    }

    /// Calls `function` without them.
    fn during<R>(&mut self, function: impl FnOnce() -> R) -> R {
        // They are taken again in the order in which others take them.
        MutexGuard::unlocked(self.accumulation, || {
            MutexGuard::unlocked(self.state, function)
        })
    }
}

/// The learning rate that a schedule is about to give.
struct DueRate {
    schedule: RateSource,
    /// The updates before this one.
    iterations: u64,
}

impl DueRate {
    /// That of the next update; `None` without a schedule.
    fn of(state: &OptimizerMemory) -> Option<DueRate> {
        Some(DueRate {
            schedule: state.schedule.clone()?,
            // Those that wait for the same commit point come before this one.
            iterations: state.iterations + state.pending,
        })
    }

    fn rate(&self) -> Result<f64> {
        let iterations = self.iterations;
        let learning_rate = self.schedule.rate(iterations)?;
        if check_not_negative("learning_rate", learning_rate).is_err() {
            return Err(invalid!(
                "learning_rate",
                "the schedule gave {learning_rate} for update {iterations}; it must be finite and \
                 at least 0. Nothing was changed"
            ));
        }
        Ok(learning_rate)
    }
}

impl CommitAction for ApplyAction {
    fn prepare(&mut self) -> Result<()> {
        check_same_strategy(&self.optimizer, &self.gradients)?;
        let mut state = self.optimizer.lock();
        self.optimizer
            .check_weights(state.shows_average, "apply gradients")?;
        let prepared = self
            .gradients
            .applicable(self.committing, self.options.flush)
            .and_then(|contributions| Ok((self.gradients.claim()?, contributions)))
            .and_then(|(claim, contributions)| {
                let prepared = self.prepare_claimed(contributions, &mut state)?;
                claim.keep();
                Ok(prepared)
            });
        match prepared {
            Ok(prepared) => self.prepared = Some(prepared),
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
        let step = prepared.step;
        let outcome = prepared.outcome;
        let state = &mut *self.optimizer.lock();
        state.pending -= outcome.updates();
        let mut commit = ApplyCommit::new(state, &self.gradients, prepared);
        match outcome {
            ApplyDecision::Accumulate => commit.accumulate(&self.gradients.plan()),
            ApplyDecision::Drop => commit.forget(),
            ApplyDecision::Skip => commit.skip(),
            ApplyDecision::Update {
                learning_rate,
                clipping,
            } => commit.update(self.optimizer.rule(), learning_rate, clipping),
        }
        let committed = commit.end();
        self.gradients.release(Some(step));
        self.report = committed.report;
        self.warning = committed.warning;
        self.failure = committed.failure;
    }

    fn failure(&mut self) -> Option<Error> {
        self.failure.take()
    }
}

/// The gradient of an update is multiplied so that its `norm` is at most the global clip norm.
fn clipping(settings: &Settings, norm: Option<f64>) -> Clipping {
    let norm = norm.unwrap_or(0.0);
    let factor = match settings.global_clip_norm {
        Some(largest) if norm > largest => largest / norm,
        _ => 1.0,
    };
    Clipping {
        factor: if settings.maximize { -factor } else { factor },
        limit: settings.clip_value.unwrap_or(f64::INFINITY),
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
        "made for a strategy other than the optimizer; make both for one"
    ))
}
