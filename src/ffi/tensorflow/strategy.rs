//! Other names for what a strategy does, and lists of its devices.

use crate::device::DeviceId;
use crate::ffi::prelude::*;
use crate::strategy::run::Limits;

/// Makes an independent strategy with the same devices.
///
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: the default strategy, which cannot be copied.
///
/// Variables stay those of the strategy that they were made in.
///
/// With several ranks a call that all of them make: it fails on all if it fails on one. Then
/// UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and UMBO_STATUS_UNAVAILABLE
/// for ranks that cannot meet any more.
#[c_call(out(copy), get(strategy))]
pub fn umbo_strategy_copy(strategy: *const umbo_strategy, copy: *mut *mut umbo_strategy) {
    copy.write(make(strategy.deep_copy()?)?);
}

/// Calls umbo_strategy_run() without options.
///
/// @param[in] function What to call, once on each replica.
/// @param[in] user_data Passed to `function` unchanged; may be anything.
/// @param[in] args The arguments; `args` may be NULL.
/// @param[out] result The merged results, which the caller releases; `result` may be NULL, which
///   discards them.
/// @return UMBO_OK, or the statuses of umbo_strategy_run().
#[c_call(optional_value(result), get(strategy), present(function), get_optional(args))]
pub fn umbo_strategy_call_for_each_replica(
    strategy: *mut umbo_strategy,
    function: umbo_replica_fn,
    user_data: *mut c_void,
    args: *const umbo_value,
    result: *mut *mut umbo_value,
) {
    let user_data = UserData::kept(user_data);
    result.write(run(&strategy, function, user_data, args, Limits::default())?);
}

/// Not available: use umbo_strategy_run().
///
/// @param[in] function A function.
/// @param[in] user_data Not used.
/// @param[in] iterator An iterator.
/// @param[in] steps Not used.
/// @param[out] result Never written.
/// @return Why it fails, in every case:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
/// - UMBO_STATUS_UNIMPLEMENTED: in all other cases. Call umbo_strategy_run() for each element of
///   the iterator.
#[c_call(out(result), borrow(strategy), present(function), borrow(iterator))]
pub fn umbo_strategy_run_steps_on_iterator(
    strategy: *mut umbo_strategy,
    function: umbo_replica_fn,
    user_data: *mut c_void,
    iterator: *mut umbo_iterator,
    steps: i64,
    result: *mut *mut umbo_value,
) {
    let _ = (result, strategy, function, iterator, user_data, steps);
    Err(Error::Unimplemented(
        "not offered by this strategy; call umbo_strategy_run for each element of the iterator"
            .into(),
    ))
}

/// Copies the value of a variable, as umbo_variable_read() does.
///
/// @param[in] strategy A strategy; any one.
/// @param[out] value A new tensor on the variable's device. The caller releases it.
///
/// It may be called in every context.
#[c_call(out(value), get(strategy), get(variable))]
pub fn umbo_strategy_read_var(
    strategy: *const umbo_strategy,
    variable: *const umbo_variable,
    value: *mut *mut umbo_tensor,
) {
    value.write(make(strategy.read_variable(&variable)?)?);
}

/// Gives the value that contains a value: itself.
///
/// A variable has one copy only, and that copy is the variable.
#[c_call(out(container), borrow(strategy), get(value))]
pub fn umbo_strategy_value_container(
    strategy: *const umbo_strategy,
    value: *const umbo_value,
    container: *mut *mut umbo_value,
) {
    let _ = strategy;
    container.write(make(value)?);
}

/// # Safety
/// `names` leads to room for `capacity` texts, or is NULL if there is none; `count` is NULL or a
/// place for the output.
unsafe fn write_names(given: &[DeviceId], capacity: i64, names: *mut *const c_char) -> Result<i64> {
    // SAFETY: the caller's promise is the same.
    let room = unsafe { array(names, (capacity, "capacity"), "names") }?;
    for (position, &device) in given.iter().take(room.len()).enumerate() {
        // SAFETY: the room was checked, and the position is within it.
        unsafe { names.add(position).write(device_name(device)) };
    }
    Ok(given.len() as i64)
}

/// Lists the names of the compute devices in replica order.
///
/// @param[in] capacity How many names there is room for; 0 or more.
/// @param[out] names An array with room for `capacity` pointers, which gets the canonical names, as
///   many as fit; NULL if `capacity` is 0. The names live as long as the process.
/// @param[out] count The number of compute devices, which may be more than `capacity`.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a negative capacity.
/// - UMBO_STATUS_FAILED_PRECONDITION: the default strategy, which was given no devices.
#[c_call(out(count), get(strategy))]
pub fn umbo_strategy_worker_devices(
    strategy: *const umbo_strategy,
    capacity: i64,
    names: *mut *const c_char,
    count: *mut i64,
) {
    // SAFETY: the caller keeps the header's promise on pointers.
    count.write(unsafe { write_names(strategy.worker_devices()?, capacity, names) }?);
}

/// Lists the name of the device of the variables.
///
/// @param[in] capacity How many names there is room for; 0 or more.
/// @param[out] names An array with room for `capacity` pointers, which gets the canonical names, as
///   many as fit; NULL if `capacity` is 0. The names live as long as the process.
/// @param[out] count The number of devices: 1.
/// @return UMBO_OK, or the statuses of umbo_strategy_worker_devices().
#[c_call(out(count), get(strategy))]
pub fn umbo_strategy_parameter_devices(
    strategy: *const umbo_strategy,
    capacity: i64,
    names: *mut *const c_char,
    count: *mut i64,
) {
    // SAFETY: the caller keeps the header's promise on pointers.
    count.write(unsafe { write_names(&strategy.parameter_devices()?, capacity, names) }?);
}
