//! How an optimizer treats each variable of a list of gradients. It is looked up once.

use std::ops::Range;

use crate::state::settings::VariableGroup;
use umbo_base::error::Result;

/// One optimizer's treatment of a list of variables. It is kept with the gradients, for as long as
/// the same optimizer applies them, its groups stay and it meets no new variable, so that an apply
/// of thousands of small variables looks nothing up.
#[derive(Default)]
pub(crate) struct TreatmentPlan {
    /// The optimizer that it was made for, as it was then; none at first.
    origin: Option<PlanOrigin>,
    /// One for each variable.
    pub(crate) treatments: Vec<Treatment>,
    /// All variables, in order, and which of them can be updated as one.
    pub(crate) runs: Vec<Range<usize>>,
}

/// An optimizer at some time. While it is the same, so is the plan.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlanOrigin {
    /// The optimizer's id.
    pub(crate) optimizer: u64,
    /// The revision of its groups.
    pub(crate) groups: u64,
    /// The revision of its states.
    pub(crate) states: u64,
    /// The value of [`Variable::replaced_count`](umbo_tensor::values::variable::Variable).
    pub(crate) replaced: u64,
}

/// How an optimizer treats one variable.
pub(crate) struct Treatment {
    /// The variable's group, or the default group.
    pub(crate) group: VariableGroup,
    /// The position of the variable's state in the optimizer, if it has any.
    pub(crate) position: Option<usize>,
}

impl TreatmentPlan {
    /// Makes this the plan of `origin`, if it is not: then its `treatments` are those of each
    /// variable, and `follows` says whether the operands of a variable, whose state is at some
    /// position, lie right behind those of the variable before. Fails if one of the treatments is
    /// refused.
    pub(crate) fn refresh(
        &mut self,
        origin: PlanOrigin,
        treatments: impl Iterator<Item = Result<Treatment>>,
        follows: impl Fn(usize, usize) -> bool,
    ) -> Result<()> {
        if self.origin == Some(origin) {
            return Ok(());
        }
        self.origin = None;
        self.treatments.clear();
        for treatment in treatments {
            self.treatments.push(treatment?);
        }
        self.runs.clear();
        for index in 0..self.treatments.len() {
            let joins = self
                .position_behind(index)
                .is_some_and(|position| follows(index, position));
            match self.runs.last_mut().filter(|_| joins) {
                Some(run) => run.end += 1,
                None => self.runs.push(index..index + 1),
            }
        }
        self.origin = Some(origin);
        Ok(())
    }

    /// Calls `visit` with the variables of `run`, in order: all together if `alike` returns true,
    /// else in halves, and so on, so that few exceptions among thousands cost little. `alike`
    /// gets the position of the first variable's state, too; those of the others follow.
    pub(crate) fn divide(
        &self,
        run: Range<usize>,
        alike: &dyn Fn(&Range<usize>, usize) -> bool,
        visit: &mut dyn FnMut(Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let position = self.treatments[run.start].position;
        if run.len() == 1 || position.is_some_and(|position| alike(&run, position)) {
            return visit(run);
        }
        let middle = run.start + run.len() / 2;
        self.divide(run.start..middle, alike, visit)?;
        self.divide(middle..run.end, alike, visit)
    }

    /// Whether it updates variable `index`.
    pub(crate) fn updates(&self, index: usize) -> bool {
        !self.treatments[index].group.frozen
    }

    /// The position of the state of variable `index`, if the variable is treated as the one before
    /// it and its state follows that one's.
    fn position_behind(&self, index: usize) -> Option<usize> {
        let [before, this] = self.treatments.get(index.checked_sub(1)?..=index)? else {
            return None;
        };
        let position = this.position?;
        (before.group == this.group && before.position? + 1 == position).then_some(position)
    }
}
