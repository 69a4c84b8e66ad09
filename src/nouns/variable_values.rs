//! Reading variables and assigning to them, also from the program's memory: `umbo/variable.h`.

use super::tensor::from_host;
use crate::machinery::prelude::*;
use umbo_core::collectives::Assignment;
use umbo_core::strategy::context::with_current_replica;
use umbo_core::strategy::variables::assign_all::assign_all;
use umbo_core::strategy::variables::in_place::create_in_place;
use umbo_core::strategy::variables::{self, current_copy, refreshed_copy};

/// Calls with the context of a handle; if that is NULL, with that of the thread's own replica, if
/// it runs one.
fn in_place<R>(
    ctx: *const umbo_replica_context,
    body: impl FnOnce(Option<&ReplicaContext>) -> Result<R>,
) -> Result<R> {
    match ctx.is_null() {
        // A copy: what waits for the ends of uses in `body` (`hazard::call_when_unused`) may enter
        // a context.
        true => body(with_current_replica(|current| current.cloned()).as_ref()),
        false => within(ctx, "ctx", |context| body(Some(context))),
    }
}

/// A view of the present value of a handle's variable, in the variable's dtype or another one.
fn current_view(
    handle: *const umbo_variable,
    argument: &'static str,
    context: Option<&ReplicaContext>,
    dtype: Option<DType>,
) -> Result<umbo_view> {
    let ready = borrow(handle, argument, |variable| {
        // SAFETY: the program reads the view as the contract of `umbo_variable_view` says.
        unsafe { current_copy(context, variable, dtype.unwrap_or(variable.dtype())) }
            .map(|copy| copy.map(view_to_read))
    })??;
    if let Some(ready) = ready {
        return Ok(ready);
    }
    let variable = get(handle, argument)?;
    // SAFETY: as above; and nobody writes the variable meanwhile, which outside of runs is the
    // program's promise.
    let copy = unsafe { refreshed_copy(context, &variable, dtype.unwrap_or(variable.dtype())) };
    copy.map(view_to_read)
}

/// Gets a view of a variable's value, for reading.
///
/// @param[in] ctx The replica's context in a replica's callback. `ctx` may be NULL outside of runs.
/// @param[in] dtype The variable's type, as a check, or UMBO_DTYPE_NONE. For a float32 variable
///   also UMBO_DTYPE_FLOAT16 or UMBO_DTYPE_BFLOAT16: a copy in that type.
/// @param[out] view In a callback valid until it returns or the variable is written; outside of
///   runs until the variable is written or released.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: `dtype` is none of these.
/// - UMBO_STATUS_FAILED_PRECONDITION: `ctx` is not the context of this thread.
///
/// In a callback the view is on the replica's device and shows what the step has written so far. A
/// run that assigns may change the address: get the view again in each run. Updates, and
/// assignments outside of runs, keep the address.
///
/// A 16-bit copy is contiguous and rounded to the nearest, ties to even. The first call for a type
/// makes the copy, which stays. From then on optimizers write it along with the variable; after any
/// other write, the next call converts the whole variable. Replicas may call at the same time.
#[c_call(out(view))]
pub fn umbo_variable_view(
    variable: *const umbo_variable,
    ctx: *const umbo_replica_context,
    dtype: umbo_dtype,
    view: *mut umbo_view,
) {
    let dtype = dtype_or_any(dtype, "dtype")?;
    view.write(in_place(ctx, |context| {
        current_view(variable, "variable", context, dtype)
    })?);
}

/// Copies the value of a variable to a new tensor on the variable's device.
///
/// In a run and in a merge call, the copy has what the step has written so far.
#[c_call(out(value), get(variable))]
pub fn umbo_variable_read(variable: *const umbo_variable, value: *mut *mut umbo_tensor) {
    value.write(make(variables::read(&variable)?)?);
}

/// Gives a variable a new value.
///
/// @param[in] value A value of the variable's dtype and shape. Outside of callbacks a per-replica
///   value stands for its first component, with a warning.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: another dtype or shape, or values that the aggregation cannot
///   combine, such as the very same tensor on all replicas for UMBO_AGGREGATION_SUM.
/// - UMBO_STATUS_FAILED_PRECONDITION: the scope or a run of another strategy, a strategy that is
///   draining, or replicas that made different synchronising calls.
/// - UMBO_STATUS_CANCELLED: another replica has failed, or the run has ended.
#[c_call(get(variable), get(value))]
pub fn umbo_variable_assign(variable: *mut umbo_variable, value: *const umbo_value) {
    variables::assign(&variable, Assignment::Assign, &value)
}

/// Adds to a variable.
///
/// @param[in] value As for umbo_variable_assign().
/// @return As umbo_variable_assign().
#[c_call(get(variable), get(value))]
pub fn umbo_variable_assign_add(variable: *mut umbo_variable, value: *const umbo_value) {
    variables::assign(&variable, Assignment::Add, &value)
}

/// Subtracts from a variable.
///
/// @param[in] value As for umbo_variable_assign().
/// @return As umbo_variable_assign().
#[c_call(get(variable), get(value))]
pub fn umbo_variable_assign_sub(variable: *mut umbo_variable, value: *const umbo_value) {
    variables::assign(&variable, Assignment::Subtract, &value)
}

/// Gives a variable a new value from host memory, as umbo_variable_assign() does.
///
/// @param[in] data All elements, in row-major order. `data` may be NULL if there are none.
/// @param[in] bytes The size of `data`, which must be that of all elements.
/// @return As umbo_variable_assign().
#[c_call(get(variable))]
pub fn umbo_variable_upload(variable: *mut umbo_variable, data: *const c_void, bytes: usize) {
    let (dtype, shape) = (variable.dtype(), variable.shape());
    // SAFETY: the caller promises as many bytes.
    let value = unsafe { from_host(dtype, shape, variable.device(), data, bytes, "data") }?;
    variables::assign(&variable, Assignment::Assign, &Value::Tensor(value))
}

/// Copies the value that umbo_variable_read() gives to host memory, in row-major order.
///
/// @param[out] data Memory at a multiple of an element's size. `data` may be NULL if there are no
///   elements.
/// @param[in] bytes The size of `data`, which must be that of all elements.
#[c_call(get(variable))]
pub fn umbo_variable_download(variable: *const umbo_variable, data: *mut c_void, bytes: usize) {
    let dtype = variable.dtype();
    let shape = variable.shape();
    // SAFETY: the caller promises `bytes` bytes there, which may be written for this call.
    unsafe {
        write_to_host(dtype, shape, data, bytes, "data", |to| {
            variables::read_into(&variable, to)
        })
    }
}

/// Gets views of several variables, as umbo_variable_view() does without a dtype.
///
/// @param[in] ctx The replica's context in a replica's callback. `ctx` may be NULL outside of runs.
/// @param[out] views One for each variable.
/// @return As umbo_variable_view().
#[c_call(array(variables, count), array_out(views, count))]
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
            let view = current_view(variable, "variables", context, None)?;
            // SAFETY: the caller gives a place for as many views as there are variables.
            unsafe { views.add(index).write(view) };
        }
        Ok(())
    })
}

/// Gives several variables new values, from replicas that count by their examples or by a weight.
///
/// @param[in] count How many variables there are. All replicas give the same, in the same order.
/// @param[in] views Each variable's new value on this replica, of its dtype and shape. They are
///   copied.
/// @param[in] weight Finite and 0 or more. UMBO_AUTO: the number of this replica's examples in the
///   run's arguments.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: another dtype or shape, UMBO_AGGREGATION_NONE with several
///   replicas, or UMBO_AGGREGATION_MEAN of other elements than float32 and float64.
/// - UMBO_STATUS_FAILED_PRECONDITION: UMBO_AUTO, and the run's arguments have no number of
///   examples; a variable of another strategy; or replicas that made different synchronising calls.
/// - UMBO_STATUS_CANCELLED: another replica has failed, or the run has ended.
///
/// This is for the statistics of a batch, such as running means of a batch normalisation: a
/// synchronising call at the end of the callback. UMBO_AGGREGATION_MEAN gives the sum of weight *
/// value, in float64 and in replica order, divided by the sum of the weights; UMBO_AGGREGATION_SUM
/// the sum of the values; UMBO_AGGREGATION_ONLY_FIRST_REPLICA the first of them. Replicas of weight
/// 0 make the call, and their values do not count. If all weights are 0, nothing is assigned. All
/// variables change with the run, or none.
#[c_call(handles(variables, count), array(views, count), context(ctx))]
pub fn umbo_variable_assign_all(
    count: i64,
    variables: *const *mut umbo_variable,
    ctx: *mut umbo_replica_context,
    views: *const umbo_view,
    weight: f64,
) {
    // SAFETY: the caller promises that the elements are where the views say.
    let values = collect(
        views
            .iter()
            .map(|view| unsafe { tensor_of_view(view, "views") }),
        "views",
    )?;
    let weight = unless(weight, UMBO_AUTO, "weight")?;
    assign_all(&ctx, &variables, values, weight)
}

/// Makes variables over memory of the program, such as the weights of an engine. Collective; the
/// values are those of rank 0.
///
/// @param[in] count How many variables there are.
/// @param[in] names `names` may be NULL: all are called "Variable".
/// @param[in] views Where each of them lies: host memory for writing, row-major, without common
///   elements. The elements are the initial values.
/// @param[in] destroy Releases the memory of all, when the last of the variables is gone. NULL:
///   nothing to release.
/// @param[in] options The properties of all, without `initializer` and `initial`; `options` may be
///   NULL.
/// @param[out] variables Gets `count` variables. The caller releases each.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: memory that is not as it must be.
/// - UMBO_STATUS_UNIMPLEMENTED: the parameter device is a GPU.
/// - UMBO_STATUS_FAILED_PRECONDITION: a replica's callback, or another strategy's scope.
///
/// The value is in this memory whenever no run or assignment is in progress: updates and
/// assignments outside of runs write it in place, and what a run assigns is copied there at its
/// end. So an engine may read its weights there between steps; only assignments write them.
/// Variable creators are not called.
#[c_call(
    owned(user_data, destroy),
    get(strategy),
    counted(count),
    array(views, count),
    array_out(variables, count),
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
    if options.initializer.is_some() || distribution(&options)?.is_some() {
        return Err(invalid!(
            "options",
            "initializer or initial is set, but the memory has the initial value"
        ));
    }
    let tensors = views.iter().enumerate().map(|(index, view)| {
        let new = new_variable(names.as_ref().map(|names| names[index]), &options)?;
        let owner = Box::new(Arc::clone(&owner));
        // SAFETY: the caller gives views whose elements are there until the owner is dropped.
        Ok((new, unsafe { tensor_over_view(view, "views", owner) }?))
    });
    let tensors = collect(tensors, "views")?;
    let handles = collect(views.iter().map(|_| reserve()), "variables")?;
    // SAFETY: the caller keeps the header's promise on who writes and reads the memory.
    let made = unsafe { create_in_place(&strategy, tensors) }?;
    for (index, (handle, variable)) in handles.into_iter().zip(made).enumerate() {
        // SAFETY: the caller gives a place for as many variables.
        unsafe { variables.add(index).write(handle.make(variable)) };
    }
    Ok(())
}
