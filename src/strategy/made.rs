//! Which variables a strategy has: those that were made in its scope and are in use.

use super::central_storage::Strategy;
use crate::error::Result;
use crate::values::variable::{Variable, WeakVariable};

/// The variables of a strategy, in the order in which they were made.
#[derive(Default)]
pub(super) struct Made {
    variables: Vec<WeakVariable>,
    /// When there are so many, those that are gone are forgotten.
    limit: usize,
}

impl Made {
    /// Notes a variable, if there is memory for it.
    pub fn add(&mut self, variable: &Variable) -> Result<()> {
        const FEWEST: usize = 64;
        if self.variables.len() >= self.limit {
            self.variables.retain(WeakVariable::is_alive);
            self.limit = FEWEST.max(2 * self.variables.len());
        }
        crate::memory::room(&mut self.variables, 1, "the list of variables")?;
        self.variables.push(variable.downgrade());
        Ok(())
    }

    /// Those that are in use.
    fn alive(&self) -> Result<Vec<Variable>> {
        let mut alive = crate::memory::list(self.variables.len(), "the list of variables")?;
        alive.extend(self.variables.iter().filter_map(WeakVariable::upgrade));
        Ok(alive)
    }
}

impl Strategy {
    /// All variables that were made in this strategy's scope and are in use, in the order in which they
    /// were made.
    pub fn variables(&self) -> Result<Vec<Variable>> {
        self.inner().made.lock().alive()
    }

    /// Adds one to the list.
    pub(super) fn note_made(&self, variable: &Variable) -> Result<()> {
        self.inner().made.lock().add(variable)
    }
}
