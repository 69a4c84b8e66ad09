//! Batches that a program has already, split over replicas.

use crate::machinery::prelude::*;
use umbo_core::input::split_for;

/// Splits a global batch over the replicas.
///
/// @param[in] value A tensor or a nest of tensors; each is split along dimension 0.
/// @param[out] per_replica The nest with per-replica values; with tensors if this process has one
///   replica.
/// @return UMBO_STATUS_INVALID_ARGUMENT: a leaf that is not a tensor, or a scalar for several
///   replicas.
///
/// Rows are split as umbo_strategy_distribute_dataset() splits them by default (UMBO_SPLIT_CEIL).
/// The parts are views of the batch, which must not be written while they are in use, and know how
/// many examples they hold. With several ranks the batch is the same on all, and each takes the
/// parts of its replicas; a rank that has a batch of its own uses
/// umbo_strategy_values_from_function().
#[c_call(out(per_replica), get(strategy), get(value))]
pub fn umbo_strategy_split(
    strategy: *const umbo_strategy,
    value: *const umbo_value,
    per_replica: *mut *mut umbo_value,
) {
    per_replica.write(make(split_for(&strategy, &value)?)?);
}
