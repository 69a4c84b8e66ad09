//! Variables and the caller's memory: writing from it, copying to it, and views of several at once.

use super::prelude::*;
use crate::collectives::Assignment;
use crate::strategy::assign_all::assign_all;
use crate::strategy::in_place::create_in_place;
use crate::strategy::variables::{self, current_tensor};

/// Gives a variable a new value from host memory.
///
/// @param[in] data All elements, in the variable's dtype and in row-major order, in host memory. They are copied
///   before the call returns. `data` may be NULL if there are none.
/// @param[in] bytes The size of `data` in bytes, which must be that of all elements.
/// @return UMBO_OK, or the statuses of umbo_variable_assign(), and UMBO_STATUS_INVALID_ARGUMENT: `bytes` is not the
///   size of all elements.
///
/// It does what umbo_variable_assign() does with a value of these elements, in every context. In a replica's callback
/// it is a synchronising call, and each replica writes its own memory: the replicas' elements are combined by the
/// variable's aggregation.
#[c_call(get(variable))]
pub fn umbo_variable_write(variable: *mut umbo_variable, data: *const c_void, bytes: usize) {
    if bytes > 0 {
        check(data.cast::<u8>(), "data", "the elements are expected")?;
    }
    check_bytes(variable.dtype(), variable.shape(), bytes)?;
    // SAFETY: the caller promises as many bytes.
    let data = unsafe { array(data.cast::<u8>(), (bytes as i64, "bytes"), "data") }?;
    let (dtype, shape, device) = (variable.dtype(), variable.shape(), variable.device());
    let value = Value::Tensor(Tensor::from_bytes(dtype, shape, data, device)?);
    variables::assign(&variable, Assignment::Assign, &value)
}

/// Copies the value of a variable to host memory, in row-major order.
///
/// @param[out] data Where the elements are written, at an address that is a multiple of the size of an element. It
///   belongs to the program. `data` may be NULL if there are none.
/// @param[in] bytes The size of `data` in bytes, which must be that of all elements.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: `bytes` is not the size of all elements, the address of `data` is not a
///   multiple of an element's size.
/// - UMBO_STATUS_UNAVAILABLE: a GPU that is needed for it cannot be used, or is lost.
///
/// It is the value that umbo_variable_read() gives.
#[c_call(get(variable))]
pub fn umbo_variable_copy_to_host(variable: *const umbo_variable, data: *mut c_void, bytes: usize) {
    let (dtype, shape) = (variable.dtype(), variable.shape());
    // SAFETY: the caller promises `bytes` bytes there, which may be written for this call.
    unsafe {
        write_to_host(dtype, shape, data, bytes, "data", |to| variables::read_into(&variable, to))
    }
}

/// Shows where the values of several variables lie, for reading.
///
/// @param[in] count How many variables there are.
/// @param[in] ctx The replica's context in a replica's callback. `ctx` may be NULL outside of runs.
/// @param[out] views The values, one view for each variable, in the order of the variables. Never write through them.
/// @return UMBO_OK, or the statuses of umbo_variable_view().
///
/// It does what umbo_variable_view() does for each variable, in one call.
#[c_call(array(variables, count), room(views, count))]
pub fn umbo_variable_views(
    count: i64,
    variables: *const *mut umbo_variable,
    ctx: *const umbo_replica_context,
    views: *mut umbo_view,
) {
    // Nothing is written if a handle is stale, and no list is made, since steps allocate nothing.
    for &variable in variables {
        borrow(variable, "variables", |_| ())?;
    }
    in_place(ctx, |context| {
        for (index, &variable) in variables.iter().enumerate() {
            let view = borrow(variable, "variables", |variable| {
                // SAFETY: the program reads the views as the contract of `umbo_variable_view` says.
                unsafe { current_tensor(context, variable) }.map(view_to_read)
            })??;
            // SAFETY: the caller gives a place for as many views as there are variables.
            unsafe { views.add(index).write(view) };
        }
        Ok(())
    })
}

/// Gives several variables new values at once, from replicas that count by their examples or by a weight.
///
/// @param[in] count How many variables there are; on all replicas the same, in the same order.
/// @param[in] variables The variables, of the strategy that runs.
/// @param[in] ctx The replica's context.
/// @param[in] views Each variable's new value on this replica: of the variable's dtype and shape, with any
///   strides, in host memory or on a GPU. Copied before the call returns.
/// @param[in] weight The weight of this replica, finite and 0 or more. UMBO_AUTO: the number of
///   examples in its part of the run's arguments.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: another dtype or shape, a variable with UMBO_AGGREGATION_NONE among
///   several replicas, one with UMBO_AGGREGATION_MEAN that is neither float32 nor float64, or a weight that
///   is out of range.
/// - UMBO_STATUS_FAILED_PRECONDITION: with UMBO_AUTO the run's arguments contain no per-replica
///   value that has the number of examples, a variable is of another strategy, or the replicas made
///   different synchronising calls.
/// - UMBO_STATUS_CANCELLED: another replica has failed, or the run has ended.
///
/// It is one synchronising call (see umbo_replica_context_merge_call()). This is what statistics of a batch need:
/// running means and variances of a batch normalisation are made with UMBO_AGGREGATION_MEAN and assigned at the end of
/// the callback.
///
/// UMBO_AGGREGATION_MEAN gives the sum of weight * value, in float64 and in replica order, divided by the sum of the weights;
/// UMBO_AGGREGATION_SUM the sum of the values; UMBO_AGGREGATION_ONLY_FIRST_REPLICA the first of them.
/// Replicas of weight 0, those without examples, make the call too, and their values count nowhere. If all
/// weights are 0 nothing is assigned. All of the variables change with the run, or none does.
///
/// With several ranks a call of the replicas of all of them. Then UMBO_STATUS_FAILED_PRECONDITION is also
/// for ranks that make different calls, and UMBO_STATUS_UNAVAILABLE for ranks that cannot meet any more.
#[c_call(handles(variables, count), array(views, count), context(ctx))]
pub fn umbo_variable_assign_all(
    count: i64,
    variables: *const *mut umbo_variable,
    ctx: *mut umbo_replica_context,
    views: *const umbo_view,
    weight: f64,
) {
    // SAFETY: the caller promises that the elements are where the views say.
    let values = collect(views.iter().map(|view| unsafe { tensor_of_view(view, "views") }))?;
    let weight = unless(weight, UMBO_AUTO);
    assign_all(&ctx, &variables, values, weight)
}

/// Makes variables over the program's own memory, such as the weights of an engine, or parts of one flat
/// block of them.
///
/// @param[in] strategy The strategy; its parameter device has host memory.
/// @param[in] count How many variables there are.
/// @param[in] names Their names. `names` may be NULL: all are called "Variable".
/// @param[in] views Where each of them lies: row-major host memory that may be written (`mutable_data`),
///   whose elements are the initial value. No two have elements in common; they may lie next to each other.
/// @param[in] user_data What `destroy` is given.
/// @param[in] destroy Releases the memory of all of them, exactly once, on any thread: when the last of the
///   variables is gone, and also if this function fails. NULL: nothing to release.
/// @param[in] options The properties of all of them; `options` may be NULL: all defaults. `initializer` and
///   `initial` stay unset.
/// @param[out] variables Gets `count` new variables. The caller releases each.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a view that is read-only, not row-major, or not in host memory, two views
///   with elements in common, or an option that is out of range.
/// - UMBO_STATUS_UNIMPLEMENTED: the strategy's parameter device is a GPU.
/// - UMBO_STATUS_FAILED_PRECONDITION: a replica's callback, or another strategy's scope.
///
/// The value of such a variable is in this memory whenever no run or assignment is in progress: updates and
/// assignments outside of runs write it in place, and what a run assigns is copied there at its end. So an
/// engine may read its weights there between steps. It never writes them: umbo_variable_assign() does.
/// Variable creators are not asked.
///
/// With several ranks a call that all of them make: it fails on all if it fails on one. Then
/// UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and UMBO_STATUS_UNAVAILABLE
/// for ranks that cannot meet any more. The values are those of rank 0.
#[c_call(
    gives(user_data, destroy),
    get(strategy),
    counted(count),
    array(views, count),
    room(variables, count),
    optional_texts(names, count),
    options(options)
)]
pub fn umbo_variable_create_in_memory(
    strategy: *mut umbo_strategy,
    count: i64,
    names: *const *const c_char,
    views: *const umbo_view,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
    options: *const umbo_variable_options,
    variables: *mut *mut umbo_variable,
) {
    let owner = Arc::new(user_data);
    if options.initializer.is_some() || options.initial != UMBO_INITIAL_NONE {
        return Err(Error::invalid(
            "options",
            "initializer or initial is set, but the memory has the initial value",
        ));
    }
    let tensors = collect(views.iter().enumerate().map(|(index, view)| {
        let new = new_variable(names.as_ref().map(|names| names[index]), &options)?;
        let owner = Box::new(Arc::clone(&owner));
        // SAFETY: the caller gives views whose elements are there until the owner is dropped.
        Ok((new, unsafe { tensor_over_view(view, "views", owner) }?))
    }))?;
    let handles = collect(views.iter().map(|_| reserve()))?;
    // SAFETY: the caller keeps the header's promise on who writes and reads the memory.
    let made = unsafe { create_in_place(&strategy, tensors) }?;
    for (index, (handle, variable)) in handles.into_iter().zip(made).enumerate() {
        // SAFETY: the caller gives a place for as many variables.
        unsafe { variables.add(index).write(handle.make(variable)) };
    }
    Ok(())
}
