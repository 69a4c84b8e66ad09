//! Which part of dense gradients each rank adds up.

use crate::strategy::ranks::Ranks;
use crate::values::sharding::{Loads, Sharding};
use crate::values::variable::Variable;

/// How the variables that are not row-sparse are divided of which `is_selected` says that an update is about
/// them, and maybe others. What each rank updates as a whole is added up in parts all the same.
pub(in crate::optimizer) fn shardings(
    ranks: &Ranks,
    variables: &[Variable],
    is_row_sparse: impl Fn(usize) -> bool,
    is_selected: impl Fn(usize) -> bool,
) -> impl Iterator<Item = (usize, Sharding)> {
    // What each rank accumulates of its own part must be its part in all runs.
    let is_fixed = ranks.has_fixed_replicas();
    let mut loads = Loads::new(ranks.size());
    let dense = (0..variables.len())
        .filter(move |&index| (is_fixed || is_selected(index)) && !is_row_sparse(index));
    dense.map(move |index| {
        let (variable, rank) = (&variables[index], ranks.rank());
        let elements = variable.shape().elements();
        let sharding = match variable.sharding() {
            Some(sharding) => sharding.clone(),
            None => loads.divide(rank, elements, variable.dtype().size()),
        };
        (index, sharding)
    })
}
