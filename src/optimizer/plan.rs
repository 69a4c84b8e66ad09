//! What an optimizer does with each of the variables of a list of gradients, looked up once.

use crate::error::{Error, Result};
use crate::optimizer::settings::Group;
use crate::optimizer::state::State;
use crate::values::variable::Variable;

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
    /// Makes this the plan of the optimizer `id` for `variables`, if it is not.
    pub(super) fn refresh(&mut self, id: u64, state: &State, variables: &[Variable]) -> Result<()> {
        let of = Some((id, state.groups_revision()));
        if self.of == of {
            return Ok(());
        }
        self.of = None;
        self.treatments.clear();
        self.treatments.try_reserve(variables.len()).map_err(|_| {
            Error::ResourceExhausted(format!("memory to plan {} updates", variables.len()))
        })?;
        self.treatments.extend(variables.iter().map(|variable| Treatment {
            group: state.group(variable),
            position: state.variables.position(variable),
        }));
        self.of = of;
        Ok(())
    }

    /// The treatment of variable `index`.
    pub(super) fn of_variable(&mut self, index: usize) -> &mut Treatment {
        &mut self.treatments[index]
    }
}
