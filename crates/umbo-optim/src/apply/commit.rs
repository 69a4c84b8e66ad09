//! The commit of an apply: what its preparation has decided is carried out, and cannot fail.

use std::mem;

use crate::apply::launcher::Launcher;
use crate::apply::plan::TreatmentPlan;
use crate::apply::report::ApplyReport;
use crate::apply::sources::GradientSources;
use crate::apply::workspace::ApplyWorkspace;
use crate::gradients::Gradients;
use crate::gradients::contributions::Contributions;
use crate::rules::UpdateRule;
use crate::state::memory::OptimizerMemory;
use umbo_base::error::Error;
use umbo_kernels::update::weighted_sum::Clipping;
use umbo_tensor::values::variable::Variable;

/// A prepared apply, which `commit` carries out.
pub(super) struct PreparedApply {
    pub(super) step: u64,
    /// The number of runs it adds to those that are accumulated: one, or none if it only flushes.
    pub(super) runs: u64,
    /// The weight of this run and of the accumulated runs.
    pub(super) total_weight: f64,
    /// The factor that undoes the loss scale.
    pub(super) unscale: f64,
    pub(super) outcome: ApplyDecision,
    pub(super) measured: GradientFindings,
    pub(super) work: Box<ApplyWorkspace>,
    /// The launcher that works on the variables.
    pub(super) launcher: Launcher,
}

#[derive(Clone, Copy)]
pub(super) enum ApplyDecision {
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
    pub(super) fn updates(&self) -> u64 {
        u64::from(matches!(self, ApplyDecision::Update { .. }))
    }
}

/// The measurements of the gradients.
#[derive(Default)]
pub(super) struct GradientFindings {
    pub(super) norm: Option<f64>,
    /// The first variable whose gradient was not finite.
    pub(super) non_finite: Option<usize>,
}

/// The commit of a prepared apply. It cannot fail, except for a device that breaks.
pub(super) struct ApplyCommit<'a> {
    state: &'a mut OptimizerMemory,
    sources: GradientSources<'a>,
    work: Box<ApplyWorkspace>,
    launcher: Launcher,
    report: ApplyReport,
    warning: Option<(Variable, u64)>,
    failure: Option<Error>,
}

/// The results of a commit; see the fields of [`ApplyAction`](super::action::ApplyAction).
pub(super) struct CommittedApply {
    pub(super) report: ApplyReport,
    pub(super) warning: Option<(Variable, u64)>,
    pub(super) failure: Option<Error>,
}

impl<'a> ApplyCommit<'a> {
    pub(super) fn new(
        state: &'a mut OptimizerMemory,
        gradients: &'a Gradients,
        prepared: PreparedApply,
    ) -> ApplyCommit<'a> {
        let contributions = match prepared.runs {
            0 => Contributions::none(prepared.step),
            _ => gradients.contributions(prepared.step),
        };
        let sources = GradientSources::new(
            gradients,
            contributions,
            prepared.total_weight,
            prepared.unscale,
        );
        let non_finite = prepared.measured.non_finite;
        let report = ApplyReport {
            gradient_norm: prepared.measured.norm,
            non_finite: non_finite.map(|index| sources.variables()[index].clone()),
            total_weight: prepared.total_weight,
            ..ApplyReport::default()
        };
        ApplyCommit {
            state,
            sources,
            work: prepared.work,
            launcher: prepared.launcher,
            report,
            warning: None,
            failure: None,
        }
    }

    /// Adds the contributions to those of earlier runs.
    pub(super) fn accumulate(&mut self, plan: &TreatmentPlan) {
        let sources = &mut self.sources;
        self.failure = self.work.accumulate(self.launcher, sources).err();
        let frozen = (0..sources.variables().len()).filter(|&index| !plan.updates(index));
        frozen.for_each(|index| sources.accumulation.leave_out(index));
        sources.accumulation.runs += 1;
        sources.accumulation.weight += sources.contributions.total_weight();
    }

    /// Forgets all contributions.
    pub(super) fn forget(&mut self) {
        self.sources.accumulation.reset();
    }

    /// Drops the contributions, of which one was not finite.
    pub(super) fn skip(&mut self) {
        self.forget();
        self.state.back_off(self.sources.contributions.step);
        self.report.skipped = true;
    }

    /// Updates the variables.
    pub(super) fn update(&mut self, rule: &dyn UpdateRule, learning_rate: f64, clipping: Clipping) {
        let variables = &mut self.state.variables;
        let updated = self
            .work
            .update(self.launcher, variables, &self.sources, rule, clipping);
        let found = updated.unwrap_or_else(|error| {
            self.failure = Some(error);
            None
        });
        let report = &mut self.report;
        if report.non_finite.is_none() {
            report.non_finite = found.map(|index| self.sources.variables()[index].clone());
        }
        if let Some(variable) = &report.non_finite
            && !mem::replace(&mut self.state.has_warned, true)
        {
            self.warning = Some((variable.clone(), self.sources.shown_step()));
        }
        report.variables_updated = self.work.len();
        report.applied = true;
        report.clipped = clipping.factor.abs() != 1.0;
        report.learning_rate = learning_rate;
        self.forget();
        let step = self.sources.contributions.step;
        self.state.count_update(step, learning_rate);
    }

    /// Keeps the memory for the next apply, and completes the report.
    pub(super) fn end(mut self) -> CommittedApply {
        if let Some(error) = &self.failure {
            let why = format!("an update was begun and not finished: {error}");
            self.launcher.give_up(&why);
        }
        self.state.give_back(self.work);
        self.report.accumulated_runs = self.sources.accumulation.runs;
        self.report.loss_scale = self.state.loss_scale;
        self.report.iterations = self.state.iterations;
        self.state.last_report = Some(self.report.clone());
        CommittedApply {
            report: self.report,
            warning: self.warning,
            failure: self.failure,
        }
    }
}
