//! The memory of an optimizer: the state that its applies change, and what they work in.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::apply::plan::{PlanOrigin, Treatment, TreatmentPlan};
use crate::apply::report::ApplyReport;
use crate::apply::workspace::{ApplyWorkspace, KeptBy};
use crate::gradients::Gradients;
use crate::rules::{Rates, UpdateRule};
use crate::state::Schedule;
use crate::state::schedule::{NamedSchedule, PlateauState, ScheduleKind};
use crate::state::settings::{Settings, VariableGroup};
use crate::state::variable_states::Variables;
use umbo_base::error::Result;
use umbo_tensor::values::variable::Variable;

/// Stands for "no run", since step numbers start at 1. (An `Option` would do, but its compiled code
/// reads the scale of a `None`, which valgrind reports.)
const NO_RUN: (u64, f64) = (0, 0.0);

/// The source of the learning rate of each update, if it is not a number.
#[derive(Clone)]
pub(crate) enum RateSource {
    /// A function of the program's.
    Function(Arc<Schedule>),
    /// A schedule with a name, and its observations.
    Named(NamedSchedule, PlateauState),
}

impl RateSource {
    /// The learning rate of the update after `before` others. Calls the program's function.
    pub(crate) fn rate(&self, before: u64) -> Result<f64> {
        match self {
            RateSource::Function(schedule) => schedule(before),
            RateSource::Named(schedule, plateau) => Ok(schedule.rate(before, plateau)),
        }
    }
}

/// The state that applies change, and the memory that they work in.
#[derive(Default)]
pub(crate) struct OptimizerMemory {
    /// The learning rate of the next apply; with a schedule, that of the last one.
    pub(crate) learning_rate: f64,
    pub(crate) schedule: Option<RateSource>,
    pub(crate) iterations: u64,
    pub(crate) settings: Settings,
    /// The loss scale of the next run.
    pub(crate) loss_scale: f64,
    /// A run, and the loss scale that it and those before it had; later ones have `loss_scale`.
    pub(super) earlier_scale: (u64, f64),
    /// The number of updates that are prepared and wait for the commit point.
    pub(crate) pending: u64,
    /// How many applies in a row took effect with this loss scale.
    pub(crate) applies_at_scale: u64,
    /// The positions by [`Variable::key`], with a reference that keeps the key from naming another.
    pub(super) groups: HashMap<usize, (Variable, VariableGroup)>,
    /// Grows with every group.
    pub(super) groups_revision: u64,
    /// A warning about an applied gradient that is not finite was logged.
    pub(crate) has_warned: bool,
    pub(crate) last_report: Option<ApplyReport>,
    pub(crate) variables: Variables,
    /// The variables have their averages in place of the weights, for a while.
    pub(crate) shows_average: bool,
    /// The gradients that it has applied, as long as they exist.
    pub(super) applied: Vec<Weak<Gradients>>,
    /// The memory that applies worked in, for the next ones.
    #[expect(
        clippy::vec_box,
        reason = "an apply takes and moves the box, and no copy"
    )]
    pub(super) works: Vec<Box<ApplyWorkspace>>,
}

impl OptimizerMemory {
    /// The schedule, if it has a name, and its observations.
    pub(crate) fn named_schedule(&self) -> Option<(NamedSchedule, PlateauState)> {
        match &self.schedule {
            Some(RateSource::Named(schedule, plateau)) => Some((*schedule, *plateau)),
            Some(RateSource::Function(_)) | None => None,
        }
    }

    /// Takes over the schedule of a saved training: as a whole if there is none here; of one of
    /// the same kind only the observations, since its numbers are the program's. Another one stays.
    /// Returns the schedule with a name that is followed in place of another one.
    pub(crate) fn restore_schedule(
        &mut self,
        saved: Option<(NamedSchedule, PlateauState)>,
    ) -> Option<NamedSchedule> {
        let (present, observed) = match &mut self.schedule {
            Some(RateSource::Named(present, observed)) => (present, observed),
            Some(RateSource::Function(_)) => return None,
            none @ None => {
                *none = saved.map(|(schedule, plateau)| RateSource::Named(schedule, plateau));
                return None;
            }
        };
        if let Some((schedule, plateau)) = saved
            && matches!(present.kind, ScheduleKind::Plateau(_))
            && matches!(schedule.kind, ScheduleKind::Plateau(_))
        {
            *observed = plateau;
        }
        let is_saved = saved.is_some_and(|(schedule, _)| schedule == *present);
        (!is_saved).then_some(*present)
    }

    /// How a variable is treated.
    pub(crate) fn group(&self, variable: &Variable) -> VariableGroup {
        self.groups
            .get(&variable.key())
            .map(|(_, group)| *group)
            .unwrap_or_default()
    }

    /// The choices that say which variables `rule`, that of the optimizer, can update.
    pub(crate) fn kept_by<'a>(&'a self, rule: &'a dyn UpdateRule) -> KeptBy<'a> {
        KeptBy {
            rule,
            list: self.variables.list(),
            rounds: self.settings.stochastic_rounding.is_some(),
        }
    }

    /// Refreshes `plan` for the optimizer `id`, whose state this is, and for `gradients`, whose
    /// plan it is. Fails if another variable has taken the place of one.
    pub(crate) fn refresh(
        &self,
        plan: &mut TreatmentPlan,
        id: u64,
        gradients: &Gradients,
    ) -> Result<()> {
        let treatments = gradients.variables().iter().map(|variable| {
            variable.check_not_replaced()?;
            Ok(Treatment {
                group: self.group(variable),
                position: self.variables.position(variable),
            })
        });
        let follows =
            |index, position| gradients.follows(index) && self.variables.follows(position);
        let origin = PlanOrigin {
            optimizer: id,
            groups: self.groups_revision,
            states: self.variables.revision,
            replaced: Variable::replaced_count(),
        };
        plan.refresh(origin, treatments, follows)
    }

    /// Remembers the gradients that it applies. Allocates nothing for known ones.
    pub(crate) fn remember(&mut self, gradients: &Arc<Gradients>) {
        let applied = &mut self.applied;
        if applied
            .iter()
            .all(|known| known.as_ptr() != Arc::as_ptr(gradients))
        {
            applied.retain(|known| known.strong_count() > 0);
            applied.push(Arc::downgrade(gradients));
        }
    }

    /// Takes the memory for an apply to work in. The apply returns it at its end.
    pub(crate) fn take_work(&mut self) -> Box<ApplyWorkspace> {
        self.works.pop().unwrap_or_default()
    }

    /// Keeps the memory that an apply worked in.
    pub(crate) fn give_back(&mut self, mut work: Box<ApplyWorkspace>) {
        // Received elements are in the gradients' memory, which may be freed earlier.
        work.exchange.shards = None;
        self.works.push(work);
    }

    /// The loss scale that run `step` had. Several gradients of one run may be applied, and the
    /// first of these applies may change the scale.
    pub(crate) fn loss_scale_of(&self, step: u64) -> f64 {
        let (last, scale) = self.earlier_scale;
        if last != 0 && step <= last {
            scale
        } else {
            self.loss_scale
        }
    }

    /// Notes that an apply of what run `step` submitted took effect, with this learning rate.
    pub(crate) fn count_update(&mut self, step: u64, learning_rate: f64) {
        self.iterations += 1;
        if self.schedule.is_some() {
            self.learning_rate = learning_rate;
        }
        self.applies_at_scale += 1;
        if let Some(scaling) = self.settings.loss_scaling {
            let (scale, applies) = scaling.grown(self.loss_scale, self.applies_at_scale);
            self.applies_at_scale = applies;
            self.change_scale(step, scale);
        }
    }

    /// Notes that an apply of what run `step` submitted was skipped.
    pub(crate) fn back_off(&mut self, step: u64) {
        self.applies_at_scale = 0;
        if let Some(scaling) = self.settings.loss_scaling {
            self.change_scale(step, scaling.backed_off(self.loss_scale));
        }
    }

    /// Sets the loss scale of all runs, and how many applies in a row have taken effect with it.
    pub(crate) fn put_loss_scale(&mut self, scale: f64, applies: u64) {
        self.loss_scale = scale;
        self.applies_at_scale = applies;
        self.earlier_scale = NO_RUN;
    }

    /// Runs after `step` have the loss scale `scale`.
    fn change_scale(&mut self, step: u64, scale: f64) {
        if scale == self.loss_scale {
            return;
        }
        self.earlier_scale = (step, self.loss_scale_of(step));
        self.loss_scale = scale;
    }

    /// The rates of an update of a variable in `group`, at the optimizer's learning rate
    /// `learning_rate`.
    pub(crate) fn rates(
        &self,
        group: &VariableGroup,
        rule: &dyn UpdateRule,
        learning_rate: f64,
    ) -> Rates {
        let decay = group.weight_decay.or(self.settings.weight_decay);
        Rates {
            learning_rate: learning_rate * group.learning_rate_factor,
            weight_decay: decay.unwrap_or_else(|| rule.default_weight_decay()),
        }
    }
}
