//! Input under the names of the reference.

use crate::machinery::prelude::*;
use umbo_core::input::{InputContext, make_numpy_dataset};

/// Computes the batch size of one replica.
///
/// @param[in] context What a dataset function was given.
/// @return UMBO_STATUS_INVALID_ARGUMENT: the number of replicas does not divide
///   `global_batch_size`.
#[c_call(part(tensorflow), out(batch_size), structure(context))]
pub fn umbo_input_context_per_replica_batch_size(
    context: *const umbo_input_context,
    global_batch_size: i64,
    batch_size: *mut i64,
) {
    let context = InputContext {
        num_input_pipelines: context.pipeline_count,
        input_pipeline_id: context.pipeline_index,
        num_replicas_in_sync: context.replica_count,
    };
    batch_size.write(context.per_replica_batch_size(global_batch_size)?);
}

/// Makes a dataset of the slices of copies of arrays along dimension 0, as
/// umbo_dataset_from_tensor_slices() does.
///
/// @param[in] arrays A tensor or a nest of tensors. Lists of arrays are stacked.
/// @return
/// - UMBO_STATUS_INVALID_ARGUMENT: a scalar, arrays that differ in dimension 0, a per-replica
///   value, or a variable.
/// - UMBO_STATUS_FAILED_PRECONDITION: the call comes from a replica's callback or from another
///   strategy's scope.
#[c_call(part(tensorflow), out(dataset), get(strategy), get(arrays))]
pub fn umbo_strategy_make_numpy_dataset(
    strategy: *mut umbo_strategy,
    arrays: *const umbo_value,
    dataset: *mut *mut umbo_dataset,
) {
    dataset.write(make(make_numpy_dataset(&strategy, &arrays)?)?);
}
