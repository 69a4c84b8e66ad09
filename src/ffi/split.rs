//! Batches that a program has already, split over replicas.

use super::prelude::*;
use crate::input::split_for;

/// Splits a global batch that the program has already over the replicas.
///
/// @param[in] value A tensor, or a nest of tensors; each of them is split along its own dimension 0.
/// @param[out] per_replica The same nest of per-replica values, or of tensors if this process has one replica. The
///   caller releases it.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: a leaf that is not a tensor, or, with several replicas,
///   a scalar.
///
/// Rows are split as umbo_strategy_distribute_dataset() splits the elements of a dataset by default: each replica
/// gets their number over that of the replicas, rounded up, until none are left. The parts are views of the batch,
/// which is not copied and must not be written as long as they are in use. They know how many examples they hold
/// (umbo_value_example_count(), umbo_replica_context_batch_position(), umbo_gradients_submit()).
///
/// With several ranks the batch is the same on all of them, and each takes the parts of its own replicas. Its number
/// of rows is compared when a run begins with the parts (UMBO_SHARDING_DATA says how). A rank
/// that has a batch of its own makes values of its own with umbo_strategy_values_from_function().
#[c_call(out(per_replica), get(strategy), get(value))]
pub fn umbo_strategy_split(
    strategy: *const umbo_strategy,
    value: *const umbo_value,
    per_replica: *mut *mut umbo_value,
) {
    per_replica.write(make(split_for(&strategy, &value)?)?);
}
