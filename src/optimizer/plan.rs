//! How an optimizer treats each variable of a list of gradients. It is looked up once.

use crate::optimizer::settings::VariableGroup;

/// One optimizer's treatment of a list of variables. It is kept with the gradients, for as long as
/// the same optimizer applies them and its groups stay, so that an apply of thousands of small
/// variables looks nothing up.
#[derive(Default)]
pub(super) struct TreatmentPlan {
    /// The optimizer's id and the revision of its groups; none at first.
    of: Option<(u64, u64)>,
    treatments: Vec<Treatment>,
}

/// How an optimizer treats one variable.
pub(super) struct Treatment {
    /// The variable's group, or the default group.
    pub(super) group: VariableGroup,
    /// The position of the variable's state in the optimizer, if it has any.
    pub(super) position: Option<usize>,
}

impl TreatmentPlan {
    /// Makes this the plan `of` an optimizer with some revision of its groups, if it is not: then its
    /// `treatments` are those of each variable.
    pub(super) fn refresh(&mut self, of: (u64, u64), treatments: impl Iterator<Item = Treatment>) {
        if self.of == Some(of) {
            return;
        }
        self.treatments.clear();
        self.treatments.extend(treatments);
        self.of = Some(of);
    }

    /// Whether it updates variable `index`.
    pub(super) fn updates(&self, index: usize) -> bool {
        !self.treatments[index].group.frozen
    }

    /// The position of the state of variable `index`, if the variable is treated as the one before it and its
    /// state follows that one's.
    pub(super) fn follows(&self, index: usize) -> Option<usize> {
        let [before, this] = self.treatments.get(index.checked_sub(1)?..=index)? else {
            return None;
        };
        let position = this.position?;
        (before.group == this.group && before.position? + 1 == position).then_some(position)
    }

    /// The treatment of variable `index`, to be looked at.
    pub(super) fn treatment(&self, index: usize) -> &Treatment {
        &self.treatments[index]
    }

    /// The treatment of variable `index`.
    pub(super) fn of_variable(&mut self, index: usize) -> &mut Treatment {
        &mut self.treatments[index]
    }
}
