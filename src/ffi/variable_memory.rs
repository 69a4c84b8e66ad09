//! Variables and the caller's memory: writing from it, copying to it, and views of several at once.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use super::boundary::{array, boundary, c_call, check, collect};
use super::callback::{UserData, umbo_destroy_fn};
use super::handle::{borrow, get, reserve};
use super::initial::UMBO_INITIAL_NONE;
use super::object::{umbo_replica_context, umbo_strategy, umbo_variable};
use super::options;
use super::replica_context::in_context;
use super::status::umbo_status;
use super::tensor::{check_bytes, write_to_host};
use super::text::text;
use super::variable::{new_variable, umbo_variable_options};
use super::view::{tensor_of_view, tensor_over_view, umbo_view, view_to_read};
use crate::collectives::Assignment;
use crate::error::{Error, Result};
use crate::strategy::assign_all::assign_all;
use crate::strategy::context::with_current_replica;
use crate::strategy::in_place::create_in_place;
use crate::strategy::variables;
use crate::tensor::Tensor;
use crate::values::Value;

/// Gives a variable a new value from host memory.
///
/// @param[in] variable The variable.
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
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_write(
    variable: *mut umbo_variable,
    data: *const c_void,
    bytes: usize,
) -> umbo_status {
    if bytes > 0 {
        check(data.cast::<u8>(), "data", "the elements are expected")?;
    }
    check_bytes(variable.dtype(), variable.shape(), bytes)?;
    // SAFETY: the caller promises as many bytes.
    let data = unsafe { array(data.cast::<u8>(), bytes as i64, "data") }?;
    let (dtype, shape, device) = (variable.dtype(), variable.shape(), variable.device());
    let value = Value::Tensor(Tensor::from_bytes(dtype, shape, data, device)?);
    variables::assign(&variable, Assignment::Assign, &value)
}

/// Copies the value of a variable to host memory, in row-major order.
///
/// @param[in] variable The variable.
/// @param[out] data Where the elements are written, at an address that is a multiple of the size of an element. It
///   belongs to the program. `data` may be NULL if there are none.
/// @param[in] bytes The size of `data` in bytes, which must be that of all elements.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: `bytes` is not the size of all elements, the address of `data` is not a multiple of
///   an element's size, or an invalid handle or pointer.
/// - UMBO_STATUS_UNAVAILABLE: a GPU that is needed for it cannot be used, or is lost.
///
/// It is the value that umbo_variable_read() gives.
#[c_call(get(variable))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_copy_to_host(
    variable: *const umbo_variable,
    data: *mut c_void,
    bytes: usize,
) -> umbo_status {
    let (dtype, shape) = (variable.dtype(), variable.shape());
    // SAFETY: the caller promises `bytes` bytes there, which may be written for this call.
    unsafe {
        write_to_host(dtype, shape, data, bytes, "data", |to| variables::read_into(&variable, to))
    }
}

/// Shows where the values of several variables lie, for reading.
///
/// @param[in] count How many variables there are.
/// @param[in] variables The variables.
/// @param[in] ctx The replica's context in a replica's callback. `ctx` may be NULL outside of runs.
/// @param[out] views The values, one view for each variable, in the order of the variables. Never write through them.
/// @return UMBO_OK, or the statuses of umbo_variable_view().
///
/// It does what umbo_variable_view() does for each variable, in one call.
#[c_call]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_views(
    count: i64,
    variables: *const *mut umbo_variable,
    ctx: *const umbo_replica_context,
    views: *mut umbo_view,
) -> umbo_status {
    // SAFETY: the caller keeps the header's promise on pointers.
    let given = unsafe { array(variables, count, "variables") }?;
    if !given.is_empty() {
        check(views.cast_const(), "views", "a place for each view is expected")?;
    }
    // Nothing is written if a handle is stale, and no list is made, since steps allocate nothing.
    for &variable in given {
        borrow(variable.cast_const(), "variables", |_| ())?;
    }
    let look = |context: Option<&_>| -> Result<()> {
        for (index, &variable) in given.iter().enumerate() {
            let view = borrow(variable.cast_const(), "variables", |variable| {
                // SAFETY: the program reads the views as the contract of `umbo_variable_view` says.
                unsafe { variables::current_tensor(context, variable) }.map(view_to_read)
            })??;
            // SAFETY: the caller gives a place for as many views as there are variables.
            unsafe { views.add(index).write(view) };
        }
        Ok(())
    };
    match ctx.is_null() {
        true => with_current_replica(look),
        false => in_context(ctx, |own| look(Some(own))),
    }
}

/// Gives several variables new values at once, from replicas that count by their examples.
///
/// @param[in] count How many variables there are; on all replicas the same, in the same order.
/// @param[in] variables The variables, of the strategy that runs.
/// @param[in] ctx The replica's context.
/// @param[in] views Each variable's new value on this replica: of the variable's dtype and shape, with any
///   strides, in host memory or on a GPU. Copied before the call returns.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer, another dtype or shape, a variable with
///   UMBO_AGGREGATION_NONE among several replicas, or one with UMBO_AGGREGATION_MEAN that is neither float32
///   nor float64.
/// - UMBO_STATUS_FAILED_PRECONDITION: the run's arguments contain no per-replica value that tells the number
///   of examples (umbo_variable_assign_all_weighted() takes a weight), a variable is of another strategy,
///   or the replicas made different synchronising calls.
/// - UMBO_STATUS_CANCELLED: another replica has failed, or the run has ended.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is not enough memory.
///
/// It is one synchronising call (see umbo_replica_context_merge_call()). This is what statistics of a batch need:
/// running means and variances of a batch normalisation are made with UMBO_AGGREGATION_MEAN and assigned at the end of
/// the callback.
///
/// Each replica's weight is the number of examples in its part of the run's arguments. UMBO_AGGREGATION_MEAN
/// gives the sum of weight * value, in float64 and in replica order, divided by the sum of the weights;
/// UMBO_AGGREGATION_SUM the sum of the values; UMBO_AGGREGATION_ONLY_FIRST_REPLICA the first of them.
/// Replicas of weight 0, those without examples, make the call too, and their values count nowhere. If all
/// weights are 0 nothing is assigned. All of the variables change with the run, or none does.
///
/// With several ranks a call of the replicas of all of them. Then UMBO_STATUS_FAILED_PRECONDITION is also
/// for ranks that make different calls, and UMBO_STATUS_UNAVAILABLE for ranks that cannot meet any more.
#[c_call]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_assign_all(
    count: i64,
    variables: *const *mut umbo_variable,
    ctx: *mut umbo_replica_context,
    views: *const umbo_view,
) -> umbo_status {
    // SAFETY: the caller's promise is the same.
    unsafe { assign_views(count, variables, ctx, views, None) }
}

/// Gives several variables new values at once, from replicas with given weights.
///
/// @param[in] count How many variables there are; on all replicas the same, in the same order.
/// @param[in] variables The variables, of the strategy that runs.
/// @param[in] ctx The replica's context.
/// @param[in] views Each variable's new value on this replica, as for umbo_variable_assign_all().
/// @param[in] weight The weight of this replica; finite and 0 or more.
/// @return UMBO_OK, or the statuses of umbo_variable_assign_all(), and UMBO_STATUS_INVALID_ARGUMENT: a weight that is
///   negative or not finite.
///
/// All else is as for umbo_variable_assign_all().
#[c_call]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_assign_all_weighted(
    count: i64,
    variables: *const *mut umbo_variable,
    ctx: *mut umbo_replica_context,
    views: *const umbo_view,
    weight: f64,
) -> umbo_status {
    // SAFETY: the caller's promise is the same.
    unsafe { assign_views(count, variables, ctx, views, Some(weight)) }
}

/// # Safety
/// `variables` and `views` are NULL or lead to `count` items, and the views to initialised elements.
unsafe fn assign_views(
    count: i64,
    variables: *const *mut umbo_variable,
    ctx: *mut umbo_replica_context,
    views: *const umbo_view,
    weight: Option<f64>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    let given = unsafe { array(variables, count, "variables") }?;
    let variables = collect(given.iter().map(|&variable| get(variable.cast_const(), "variables")))?;
    if count > 0 {
        check(views, "views", "a view for each variable is expected")?;
    }
    let context = in_context(ctx, |own| Ok(own.clone()))?;
    // SAFETY: the caller gives as many views as variables.
    let value = |index| unsafe { tensor_of_view(views.add(index), "views") };
    let values = collect((0..variables.len()).map(value))?;
    assign_all(&context, &variables, values, weight)
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
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer, a view that is read-only, not row-major, or
///   not in host memory, two views with elements in common, or an option that is out of range.
/// - UMBO_STATUS_UNIMPLEMENTED: the strategy's parameter device is a GPU.
/// - UMBO_STATUS_FAILED_PRECONDITION: a replica's callback, or another strategy's scope.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is not enough memory.
///
/// The value of such a variable is in this memory whenever no run or assignment is in progress: updates and
/// assignments outside of runs write it in place, and what a run assigns is copied there at its end. So an
/// engine may read its weights there between steps. It never writes them: umbo_variable_assign() does.
/// Variable creators are not asked.
///
/// With several ranks a call that all of them make: it fails on all if it fails on one. Then
/// UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and UMBO_STATUS_UNAVAILABLE
/// for ranks that cannot meet any more. The values are those of rank 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_create_in_memory(
    strategy: *mut umbo_strategy,
    count: i64,
    names: *const *const c_char,
    views: *const umbo_view,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
    options: *const umbo_variable_options,
    variables: *mut *mut umbo_variable,
) -> umbo_status {
    // SAFETY: the caller gives the user data and its function away.
    let owner = Arc::new(unsafe { UserData::new(user_data, destroy) });
    boundary("umbo_variable_create_in_memory", move || {
        let strategy = get(strategy.cast_const(), "strategy")?;
        if count < 1 {
            return Err(Error::invalid("count", format!("{count}; must be 1 or more")));
        }
        check(views, "views", "a view for each variable is expected")?;
        check(variables.cast_const(), "variables", "a place for each variable is expected")?;
        let given = match names.is_null() {
            true => &[][..],
            // SAFETY: not NULL, so the caller gives as many names as variables.
            false => unsafe { array(names, count, "names") }?,
        };
        // SAFETY: the caller gives NULL or a struct of the size that it states.
        let options = unsafe { options::read(options, "options") }?;
        if options.initializer.is_some() || options.initial != UMBO_INITIAL_NONE {
            return Err(Error::invalid(
                "options",
                "initializer or initial is set, but the memory has the initial value",
            ));
        }
        let tensors = collect((0..count as usize).map(|index| {
            let name = match given.get(index) {
                // SAFETY: the caller gives texts.
                Some(&name) => Some(unsafe { text(name, "names") }?),
                None => None,
            };
            let new = new_variable(name, &options)?;
            let owner = Box::new(Arc::clone(&owner));
            // SAFETY: the caller gives views whose elements are there until the owner is dropped.
            Ok((new, unsafe { tensor_over_view(views.add(index), "views", owner) }?))
        }))?;
        let handles = collect((0..count as usize).map(|_| reserve()))?;
        // SAFETY: the caller keeps the header's promise on who writes and reads the memory.
        let made = unsafe { create_in_place(&strategy, tensors) }?;
        for (index, (handle, variable)) in handles.into_iter().zip(made).enumerate() {
            // SAFETY: the caller gives a place for as many variables.
            unsafe { variables.add(index).write(handle.make(variable)) };
        }
        Ok(())
    })
}
