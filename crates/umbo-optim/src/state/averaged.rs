//! Averages of weights in the place of the weights, for an evaluation or an export.

use crate::exchange::slots;
use crate::state::Optimizer;
use crate::state::average::AVERAGE;
use crate::state::stored_state::LocalSlot;
use umbo_base::error::{Error, Result};
use umbo_strategy::Strategy;
use umbo_strategy::commit::exclusion::StepExclusion;
use umbo_strategy::variables::reading::read;
use umbo_tensor::Tensor;
use umbo_tensor::values::variable::Variable;

impl Optimizer {
    /// Calls `function` while the variables that this optimizer has updated have the averages of
    /// their weights as values. They have their weights again when it returns, whatever was
    /// assigned to them meanwhile. With several ranks, each of which keeps a part of the averages,
    /// all ranks make this call, between two steps.
    ///
    /// Meanwhile applies of this optimizer fail, and its state is neither saved nor restored.
    ///
    /// FAILED_PRECONDITION if it keeps no averages, inside of `function`, and inside of a step.
    /// Without memory for a copy of all weights it fails, and `function` is not called.
    pub fn with_average<R>(&self, function: impl FnOnce() -> Result<R>) -> Result<R> {
        let scope = AverageScope::enter(self)?;
        let result = function();
        scope.leave()?;
        result
    }

    /// Whether it keeps averages, and the variables do not have them as values already.
    pub fn has_average_to_show(&self) -> bool {
        let state = self.lock();
        state.settings.averaging.is_some() && !state.shows_average
    }

    /// Fails while the variables have averages in the place of their weights. `advice` says
    /// when it can be done.
    pub(crate) fn check_weights(&self, shows_average: bool, advice: &str) -> Result<()> {
        if !shows_average {
            return Ok(());
        }
        Err(Error::precondition(format!(
            "optimizer: its variables have the averages of their weights as values until \
             the function that is called with them returns; {advice} after that"
        )))
    }

    fn strategy_of_average(&self) -> Result<Strategy> {
        Strategy::with_id(self.strategy()).ok_or_else(|| {
            Error::precondition("optimizer: its strategy was released; keep that until then")
        })
    }
}

/// The time in which the variables have averages as values. It ends with [`AverageScope::leave`];
/// dropping it, as a panic does, ends it, too.
struct AverageScope<'a> {
    optimizer: &'a Optimizer,
    /// The values that the variables had before.
    weights: Vec<(Variable, Tensor)>,
    has_left: bool,
}

impl AverageScope<'_> {
    fn enter(optimizer: &Optimizer) -> Result<AverageScope<'_>> {
        let strategy = optimizer.strategy_of_average()?;
        let between_steps = strategy.lock_between_steps()?;
        let averages = optimizer.averages()?;
        let mut weights = Vec::with_capacity(averages.len());
        let mut values = Vec::with_capacity(averages.len());
        for kept in averages {
            weights.push((kept.variable.clone(), read(&kept.variable)?));
            values.push(match kept.variable.sharding() {
                Some(_) => slots::whole(strategy.ranks(), AVERAGE, &kept)?,
                None => kept.tensor,
            });
        }
        let shown = weights.iter().map(|(variable, _)| variable).zip(&values);
        if let Err(error) = replace_all(&between_steps, shown) {
            // A device that refused one value may take the others back; the first error is told.
            let _ = replace_all(&between_steps, pairs_of(&weights));
            return Err(error);
        }
        optimizer.lock().shows_average = true;
        Ok(AverageScope {
            optimizer,
            weights,
            has_left: false,
        })
    }

    fn leave(mut self) -> Result<()> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<()> {
        self.has_left = true;
        let strategy = self.optimizer.strategy_of_average()?;
        let between_steps = strategy.lock_between_steps()?;
        replace_all(&between_steps, pairs_of(&self.weights))?;
        self.optimizer.lock().shows_average = false;
        Ok(())
    }
}

/// Gives all variables their values; readers see all of them or none.
fn replace_all<'v>(
    between_steps: &StepExclusion<'_>,
    values: impl Iterator<Item = (&'v Variable, &'v Tensor)>,
) -> Result<()> {
    let values: Vec<_> = values.collect();
    between_steps.changing(|access| access.replace_all(&values))
}

fn pairs_of(values: &[(Variable, Tensor)]) -> impl Iterator<Item = (&Variable, &Tensor)> {
    values.iter().map(|(variable, value)| (variable, value))
}

impl Drop for AverageScope<'_> {
    fn drop(&mut self) {
        if !self.has_left {
            // The error or the panic that ends the scope is the one that is reported.
            let _ = self.put_back();
        }
    }
}

impl Optimizer {
    /// The averages of all variables that were updated.
    fn averages(&self) -> Result<Vec<LocalSlot>> {
        let state = self.lock();
        self.check_weights(state.shows_average, "call this")?;
        let index = state.variables.list().average().ok_or_else(|| {
            Error::precondition(
                "optimizer: it keeps no average of weights; configure \
                 one before the first update",
            )
        })?;
        let updated = state.variables.updated();
        Ok(updated
            .map(|(_, _, mut slots)| slots.swap_remove(index))
            .collect())
    }
}
