//! Input under the names of the reference.

use crate::ffi::prelude::*;
use crate::input::{InputContext, make_numpy_dataset};

/// Computes the batch size of one replica.
///
/// @param[in] context The input context that a dataset function was given.
/// @param[in] global_batch_size The number of examples of all replicas together.
/// @param[out] size The number of examples of one replica.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: the number of replicas does not divide
///   `global_batch_size`.
#[c_call(out(size), structure(context))]
pub fn umbo_input_context_per_replica_batch_size(
    context: *const umbo_input_context,
    global_batch_size: i64,
    size: *mut i64,
) {
    let context = InputContext {
        num_input_pipelines: context.pipeline_count,
        input_pipeline_id: context.pipeline_index,
        num_replicas_in_sync: context.replica_count,
    };
    size.write(context.per_replica_batch_size(global_batch_size)?);
}

/// Makes a dataset of the slices of arrays along dimension 0.
///
/// @param[in] arrays A tensor or a nest of tensors, which are copied. They may be changed after the
///   call.
/// @param[out] dataset The new dataset, to be batched and then distributed. The caller releases it.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a scalar, arrays that differ in dimension 0, a per-replica value, or a
///   variable.
/// - UMBO_STATUS_FAILED_PRECONDITION: the call comes from a replica's callback or from another
///   strategy's scope.
///
/// Its elements are those of umbo_dataset_from_tensor_slices().
#[c_call(out(dataset), get(strategy), get(arrays))]
pub fn umbo_strategy_make_numpy_dataset(
    strategy: *mut umbo_strategy,
    arrays: *const umbo_value,
    dataset: *mut *mut umbo_dataset,
) {
    dataset.write(make(make_numpy_dataset(&strategy, &arrays)?)?);
}

/// Gives the next element and tells whether there was one.
///
/// @param[out] has_value 1 if there is an element; 0 at the end of the pass and in each later call.
/// @param[out] element The element, which the caller releases. Without one `*element` gets NULL.
/// @return UMBO_OK, or the statuses of umbo_iterator_next().
#[c_call(out(has_value), out(element), get(iterator))]
pub fn umbo_iterator_next_as_optional(
    iterator: *mut umbo_iterator,
    has_value: *mut i32,
    element: *mut *mut umbo_value,
) {
    let handle = reserve()?;
    let next = iterator.next()?;
    let handle: *mut umbo_value = next.map_or(ptr::null_mut(), |next| handle.make(next));
    has_value.write(i32::from(!handle.is_null()));
    element.write(handle);
}
