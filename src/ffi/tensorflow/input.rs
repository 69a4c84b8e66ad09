//! Input under the names of the reference.

use std::ptr;

use crate::ffi::boundary::{c_call, check};
use crate::ffi::distribution::umbo_input_context;
use crate::ffi::handle::{get, make, reserve};
use crate::ffi::object::{umbo_dataset, umbo_iterator, umbo_strategy, umbo_value};
use crate::ffi::options;
use crate::ffi::status::umbo_status;
use crate::input::{InputContext, make_numpy_dataset};

/// Computes the batch size of one replica.
///
/// @param[in] context The input context that a dataset function was given.
/// @param[in] global_batch_size The number of examples of all replicas together.
/// @param[out] size The number of examples of one replica.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer, or the number of
///   replicas does not divide `global_batch_size`.
#[c_call(out(size))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_input_context_per_replica_batch_size(
    context: *const umbo_input_context,
    global_batch_size: i64,
    size: *mut i64,
) -> umbo_status {
    check(context, "context", "a struct is expected")?;
    // SAFETY: the caller gives a struct of the size that it states.
    let context = unsafe { options::read(context, "context") }?;
    let context = InputContext {
        num_input_pipelines: context.num_input_pipelines,
        input_pipeline_id: context.input_pipeline_id,
        num_replicas_in_sync: context.num_replicas_in_sync,
    };
    size.write(context.per_replica_batch_size(global_batch_size)?);
}

/// Makes a dataset of the slices of arrays along dimension 0.
///
/// @param[in] strategy The strategy.
/// @param[in] arrays A tensor or a nest of tensors, which are copied. They may be changed after the
///   call.
/// @param[out] dataset The new dataset, to be batched and then distributed. The caller releases it.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer, a scalar, arrays that differ in
///   dimension 0, a per-replica value, or a variable.
/// - UMBO_STATUS_FAILED_PRECONDITION: the call comes from a replica's callback or from another
///   strategy's scope.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is not enough memory.
///
/// Its elements are those of umbo_dataset_from_tensor_slices().
#[c_call(out(dataset), get(strategy), get(arrays))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_make_numpy_dataset(
    strategy: *mut umbo_strategy,
    arrays: *const umbo_value,
    dataset: *mut *mut umbo_dataset,
) -> umbo_status {
    dataset.write(make(make_numpy_dataset(&strategy, &arrays)?)?);
}

/// Gives the next element and tells whether there was one.
///
/// @param[in] iterator The iterator.
/// @param[out] has_value 1 if there is an element; 0 at the end of the pass and in each later call.
/// @param[out] element The element, which the caller releases. Without one `*element` gets NULL.
/// @return UMBO_OK, or the statuses of umbo_iterator_next().
#[c_call(out(has_value), out(element))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_iterator_next_as_optional(
    iterator: *mut umbo_iterator,
    has_value: *mut i32,
    element: *mut *mut umbo_value,
) -> umbo_status {
    let handle = reserve()?;
    let next = get(iterator, "iterator")?.next()?;
    let handle: *mut umbo_value = next.map_or(ptr::null_mut(), |next| handle.make(next));
    has_value.write(i32::from(!handle.is_null()));
    element.write(handle);
}
