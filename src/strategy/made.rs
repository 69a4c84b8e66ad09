//! Which variables a strategy has: those that were made in its scope and are in use.

use super::central_storage::Strategy;
use crate::values::variable::{Variable, WeakVariable};

/// The variables of a strategy, in the order in which they were made.
#[derive(Default)]
pub(super) struct Made {
    variables: Vec<WeakVariable>,
    /// When there are so many, those that are gone are forgotten.
    limit: usize,
}

impl Made {
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
    fn alive(&self) -> Vec<Variable> {
        self.variables.iter().filter_map(WeakVariable::upgrade).collect()
    }
}

impl Strategy {
    /// All variables that were made in this strategy's scope and are in use, in the order in which they
    /// were made.
    pub fn variables(&self) -> Vec<Variable> {
        self.inner().made.lock().alive()
    }

    /// How many there are, without a list of them.
    pub fn num_variables(&self) -> usize {
        let made = self.inner().made.lock();
        made.variables.iter().filter(|variable| variable.is_alive()).count()
    }

    /// Adds one to the list.
    pub(super) fn note_made(&self, variable: &Variable) {
        self.inner().made.lock().add(variable);
    }
}
