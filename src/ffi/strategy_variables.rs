//! The variables of a strategy, for programs that did not keep a list of their own.

use super::prelude::*;

/// Gives one of the variables of a strategy.
///
/// @param[in] index The place of the variable among those in use, in the order in which they were made.
/// @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: there are not so many variables.
///
/// Places move up when a variable before them is released for the last time: take the list while nobody
/// makes or releases variables. Variables that code of others has made, such as an adapter for an engine,
/// are there too, so that a loop over all of them adds everything to a checkpoint.
#[c_call(out(variable), index(index), get(strategy))]
pub fn umbo_strategy_variable(
    strategy: *const umbo_strategy,
    index: i64,
    variable: *mut *mut umbo_variable,
) {
    let mut all = strategy.variables();
    let variables = (all.len(), "the variables of the strategy");
    let found = at(index as i64, "index", variables, |index| Some(all.swap_remove(index)))?;
    variable.write(make(found)?);
}
