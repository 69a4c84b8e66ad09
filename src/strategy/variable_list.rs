//! Which variables a strategy has: those that were made in its scope and are in use.

use crate::values::variable::{Variable, WeakVariable};

/// The variables of a strategy, in the order in which they were made.
#[derive(Default)]
pub(super) struct VariableList {
    variables: Vec<WeakVariable>,
    /// When there are so many, those that are gone are forgotten.
    limit: usize,
}

impl VariableList {
    /// Notes a variable.
    pub fn add(&mut self, variable: &Variable) {
        const FEWEST: usize = 64;
        if self.variables.len() >= self.limit {
            self.variables.retain(WeakVariable::is_alive);
            self.limit = FEWEST.max(2 * self.variables.len());
        }
        self.variables.push(variable.downgrade());
    }

    /// Those that are in use.
    pub fn alive(&self) -> Vec<Variable> {
        self.variables.iter().filter_map(WeakVariable::upgrade).collect()
    }

    /// How many are in use.
    pub fn count(&self) -> usize {
        self.variables.iter().filter(|variable| variable.is_alive()).count()
    }
}
