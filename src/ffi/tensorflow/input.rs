//! Input under the names of the reference.

use std::ptr;

use crate::ffi::boundary::{boundary, check, out};
use crate::ffi::distribution::umbo_input_context;
use crate::ffi::handle::{get, make, reserve};
use crate::ffi::object::{umbo_dataset, umbo_iterator, umbo_strategy, umbo_value};
use crate::ffi::options;
use crate::ffi::status::umbo_status;
use crate::input::{InputContext, make_numpy_dataset};

/// The elements of a batch of one replica, if all replicas together have `global_batch_size`.
/// INVALID_ARGUMENT if the number of replicas does not divide it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_input_context_per_replica_batch_size(
    context: *const umbo_input_context,
    global_batch_size: i64,
    size: *mut i64,
) -> umbo_status {
    boundary("umbo_input_context_per_replica_batch_size", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let size = unsafe { out(size, "size") }?;
        check(context, "context", "a struct is expected")?;
        // SAFETY: the caller gives a struct of the size that it states.
        let context = unsafe { options::read(context, "context") }?;
        let context = InputContext {
            num_input_pipelines: context.num_input_pipelines,
            input_pipeline_id: context.input_pipeline_id,
            num_replicas_in_sync: context.num_replicas_in_sync,
        };
        size.write(context.per_replica_batch_size(global_batch_size)?);
        Ok(())
    })
}

/// A dataset of the slices of arrays along dimension 0, as of umbo_dataset_from_tensor_slices(), of
/// copies that are made at this call: the arrays may be changed afterwards. It is an ordinary
/// dataset, to be batched and then distributed.
///
/// FAILED_PRECONDITION in a replica's callback and in another strategy's scope. INVALID_ARGUMENT: a
/// scalar, dimensions 0 that differ, a per-replica value, a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_make_numpy_dataset(
    strategy: *mut umbo_strategy,
    arrays: *const umbo_value,
    dataset: *mut *mut umbo_dataset,
) -> umbo_status {
    boundary("umbo_strategy_make_numpy_dataset", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let dataset = unsafe { out(dataset, "dataset") }?;
        let (strategy, arrays) = (get(strategy, "strategy")?, get(arrays, "arrays")?);
        dataset.write(make(make_numpy_dataset(&strategy, &arrays)?)?);
        Ok(())
    })
}

/// As umbo_iterator_next(), with a word on whether there was an element: `*has_value` is 1, or 0 at
/// the end of the pass and ever after; then `*element` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_iterator_next_as_optional(
    iterator: *mut umbo_iterator,
    has_value: *mut i32,
    element: *mut *mut umbo_value,
) -> umbo_status {
    boundary("umbo_iterator_next_as_optional", || {
        // SAFETY: the caller gives NULL or places for the outputs.
        let (has_value, element) =
            unsafe { (out(has_value, "has_value")?, out(element, "element")?) };
        let handle = reserve()?;
        let next = get(iterator, "iterator")?.next()?;
        let handle: *mut umbo_value = next.map_or(ptr::null_mut(), |next| handle.make(next));
        has_value.write(i32::from(!handle.is_null()));
        element.write(handle);
        Ok(())
    })
}
