//! An apply in preparation.

use crate::apply::launcher::Launcher;
use crate::apply::plan::TreatmentPlan;
use crate::apply::sources::GradientSources;
use crate::apply::workspace::ApplyWorkspace;
use crate::gradients::Gradients;
use crate::gradients::row_sums::Summing;
use crate::rules::UpdateRule;
use crate::state::memory::OptimizerMemory;
use umbo_base::error::Result;

/// An apply in preparation: the optimizer's state, the gradients, and what works on them.
pub(crate) struct Preparation<'a, 'g> {
    pub(crate) state: &'a mut OptimizerMemory,
    pub(crate) plan: &'a mut TreatmentPlan,
    pub(crate) sources: &'a mut GradientSources<'g>,
    pub(crate) work: &'a mut ApplyWorkspace,
    pub(crate) rule: &'a dyn UpdateRule,
    pub(crate) launcher: Launcher,
}

impl Preparation<'_, '_> {
    /// Looks up how the optimizer with this id treats each variable, unless the plan says it. Fails
    /// if another variable has taken the place of one.
    pub(crate) fn refresh_plan(&mut self, optimizer: u64, gradients: &Gradients) -> Result<()> {
        self.state.refresh(self.plan, optimizer, gradients)
    }

    /// Merges the rows of this process's replicas, and selects the variables that they have
    /// contributed to.
    pub(crate) fn select_own(&mut self, summing: Summing) -> Result<()> {
        let plan = &*self.plan;
        let updates = |index| plan.updates(index);
        self.sources.merge_own_rows(&updates, summing)?;
        self.state.variables.refresh_layout();
        self.work.select(
            self.sources,
            self.plan,
            self.state.kept_by(self.rule),
            Some(&self.state.variables),
            |index| self.sources.has_variable(index),
        )
    }
}
