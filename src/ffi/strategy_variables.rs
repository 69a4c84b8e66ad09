//! The variables of a strategy, for programs that did not keep a list of their own.

use super::prelude::*;

/// Gets a variable of a strategy.
///
/// @param[in] index Its position among those in use, in the order in which they were made. It changes when one before
///   it ends.
/// @return UMBO_STATUS_OUT_OF_RANGE: no such variable.
///
/// A loop over all of them adds those of adapters to a checkpoint, too.
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
