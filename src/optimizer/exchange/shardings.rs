//! How dense gradients are sharded: which part each rank adds up.

use crate::strategy::ranks::Ranks;
use crate::values::sharding::{Loads, VariableSharding};
use crate::values::variable::Variable;

/// The shardings of the variables that are not row-sparse and that `is_selected` selects. Variables that each rank
/// updates as a whole are summed in shards, too.
pub(in crate::optimizer) fn shardings(
    ranks: &Ranks,
    variables: &[Variable],
    is_row_sparse: impl Fn(usize) -> bool,
    is_selected: impl Fn(usize) -> bool,
) -> impl Iterator<Item = (usize, VariableSharding)> {
    // A rank's shard must be the same in all runs that are accumulated.
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
