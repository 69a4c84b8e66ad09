//! What an optimizer does with each of the variables of a list of gradients, looked up once.

use crate::optimizer::settings::Group;

/// One optimizer's treatment of a list of variables. It is kept with the gradients, for as long as
/// the same optimizer applies them and its groups stay, so that an apply of thousands of small
/// variables looks nothing up.
#[derive(Default)]
pub(super) struct Plan {
    /// The optimizer and the revision of its groups; nobody's at first.
    of: Option<(u64, u64)>,
    treatments: Vec<Treatment>,
}

/// What an optimizer does with one variable.
pub(super) struct Treatment {
    /// The group, or what a variable of no group has.
    pub(super) group: Group,
    /// Where the optimizer keeps the variable's state, once there is any.
    pub(super) position: Option<usize>,
}

impl Plan {
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

    /// Whether variable `index` is treated as the one before, and where the optimizer keeps its state, if that is
    /// right behind.
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
