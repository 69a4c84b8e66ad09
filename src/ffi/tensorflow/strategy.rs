//! Other names for what a strategy does, and lists of its devices.

use std::ffi::{c_char, c_void};
use std::ptr;

use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::ffi::boundary::{array, boundary, out};
use crate::ffi::handle::{borrow, get, make};
use crate::ffi::object::{umbo_iterator, umbo_strategy, umbo_tensor, umbo_value, umbo_variable};
use crate::ffi::run::{run, umbo_replica_fn};
use crate::ffi::scope::present;
use crate::ffi::status::umbo_status;
use crate::ffi::text::device_name;

/// An independent strategy with the same devices. Variables stay those of the strategy they were
/// made in. FAILED_PRECONDITION for the default strategy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_copy(
    strategy: *const umbo_strategy,
    copy: *mut *mut umbo_strategy,
) -> umbo_status {
    boundary("umbo_strategy_copy", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let copy = unsafe { out(copy, "copy") }?;
        copy.write(make(get(strategy, "strategy")?.deep_copy()?)?);
        Ok(())
    })
}

/// umbo_strategy_run() without options. `args` may be NULL. `result` may be NULL, which discards the
/// results.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_call_for_each_replica(
    strategy: *mut umbo_strategy,
    function: umbo_replica_fn,
    user_data: *mut c_void,
    args: *const umbo_value,
    result: *mut *mut umbo_value,
) -> umbo_status {
    let name = "umbo_strategy_call_for_each_replica";
    // SAFETY: the caller's promises are the same.
    unsafe { run(name, strategy, function, user_data, args, ptr::null(), result) }
}

/// Not offered by this strategy: UNIMPLEMENTED. Call umbo_strategy_run() for each element of the
/// iterator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_run_steps_on_iterator(
    strategy: *mut umbo_strategy,
    function: umbo_replica_fn,
    user_data: *mut c_void,
    iterator: *mut umbo_iterator,
    steps: i64,
    result: *mut *mut umbo_value,
) -> umbo_status {
    boundary("umbo_strategy_run_steps_on_iterator", || {
        // SAFETY: the caller gives NULL or a place for the output, which is never written.
        unsafe { out(result, "result") }?;
        borrow(strategy, "strategy", |_| ())?;
        present(function, "function")?;
        borrow(iterator, "iterator", |_| ())?;
        let _ = (user_data, steps);
        Err(Error::Unimplemented(
            "not offered by this strategy; call umbo_strategy_run for each element of the iterator"
                .into(),
        ))
    })
}

/// The value that the variable has now; see umbo_variable_read(). In every context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_read_var(
    strategy: *const umbo_strategy,
    variable: *const umbo_variable,
    value: *mut *mut umbo_tensor,
) -> umbo_status {
    boundary("umbo_strategy_read_var", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let value = unsafe { out(value, "value") }?;
        let (strategy, variable) = (get(strategy, "strategy")?, get(variable, "variable")?);
        value.write(make(strategy.read_variable(&variable)?)?);
        Ok(())
    })
}

/// The value that contains `value`: itself, since a variable has one copy, which is it. A new
/// handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_value_container(
    strategy: *const umbo_strategy,
    value: *const umbo_value,
    container: *mut *mut umbo_value,
) -> umbo_status {
    boundary("umbo_strategy_value_container", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let container = unsafe { out(container, "container") }?;
        borrow(strategy, "strategy", |_| ())?;
        container.write(make(get(value, "value")?)?);
        Ok(())
    })
}

/// # Safety
/// `names` leads to room for `capacity` texts, or is NULL if there is none; `count` is NULL or a
/// place for the output.
unsafe fn write_names(
    given: &[DeviceId],
    capacity: i64,
    names: *mut *const c_char,
    count: *mut i64,
) -> Result<()> {
    // SAFETY: the caller's promise is the same.
    let (count, room) = unsafe { (out(count, "count")?, array(names, capacity, "names")?) };
    for (position, &device) in given.iter().take(room.len()).enumerate() {
        // SAFETY: `array` has checked the room, and the position is within it.
        unsafe { names.add(position).write(device_name(device)) };
    }
    count.write(given.len() as i64);
    Ok(())
}

/// The canonical names of the compute devices, in replica order: as many of them as `names`, which
/// is an array of `capacity` pointers, has room for (NULL if it has none). `count` gets how many
/// there are. Names live as long as the process. FAILED_PRECONDITION for the default strategy, which was given none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_worker_devices(
    strategy: *const umbo_strategy,
    capacity: i64,
    names: *mut *const c_char,
    count: *mut i64,
) -> umbo_status {
    boundary("umbo_strategy_worker_devices", || {
        let strategy = get(strategy, "strategy")?;
        // SAFETY: the caller keeps the header's promise on pointers.
        unsafe { write_names(strategy.worker_devices()?, capacity, names, count) }
    })
}

/// The canonical names of the devices that hold variables, of which there is one; otherwise as
/// umbo_strategy_worker_devices().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_parameter_devices(
    strategy: *const umbo_strategy,
    capacity: i64,
    names: *mut *const c_char,
    count: *mut i64,
) -> umbo_status {
    boundary("umbo_strategy_parameter_devices", || {
        let strategy = get(strategy, "strategy")?;
        // SAFETY: the caller keeps the header's promise on pointers.
        unsafe { write_names(&strategy.parameter_devices()?, capacity, names, count) }
    })
}
