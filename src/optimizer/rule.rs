//! What an update rule tells the optimizer that runs it.

use std::fmt::Debug;

use crate::error::{Error, Result};
use crate::kernels::update::Pass;

/// One tensor of state that a rule keeps for each variable, of the variable's dtype and shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slot {
    /// The name under which the state can be read, such as `momentum`.
    pub name: &'static str,
    /// What every element is before the first update.
    pub initial: f64,
}

/// Scalars that a rule carries from one update of a variable to the next, such as powers of beta.
/// A rule uses as many as it needs, from the front.
pub type Running = [f64; 2];

/// The scalars of one update of one variable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalars {
    /// The learning rate of this update.
    pub learning_rate: f64,
    /// What the rule made of learning rate and running scalars; its own affair.
    pub derived: [f64; 4],
    /// The running scalars, once this update is done.
    pub running: Running,
}

/// A rule of gradient descent: which state it keeps, and what it does to one element.
///
/// A rule is immutable. What changes from update to update is held by the optimizer for each
/// variable: the slots and the running scalars. Both are per variable so that a variable whose
/// gradient comes seldom is treated as if its updates were all there are.
pub trait UpdateRule: Send + Sync + Debug {
    /// The name, such as `adam`.
    fn name(&self) -> &'static str;

    /// The state that it keeps for each variable.
    fn slots(&self) -> &[Slot];

    /// The running scalars before the first update.
    fn initial_running(&self) -> Running {
        Running::default()
    }

    /// The scalars of the next update of a variable whose running scalars are `running`. Fails if
    /// they cannot be computed; the apply then changes nothing.
    fn prepare(&self, learning_rate: f64, running: &Running) -> Result<Scalars>;

    /// Updates a variable's weights and slots, the latter in the order of [`UpdateRule::slots`].
    /// Cannot fail.
    fn update(&self, scalars: &Scalars, pass: Pass<'_>);
}

/// Refuses a decay factor outside of [0, 1).
pub(super) fn check_decay(argument: &'static str, value: f64) -> Result<()> {
    if (0.0..1.0).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid(argument, format!("{value}; must be at least 0 and less than 1")))
}
