//! Values made replica by replica, copies to destinations, and the rest of the strategy's interface.

use std::ffi::{c_char, c_void};

use super::boundary::{array, boundary, collect, out};
use super::collective::{destination_from, op_from, umbo_destination, umbo_reduce_op};
use super::handle::{borrow, get, make};
use super::object::{umbo_iterator, umbo_strategy, umbo_tensor, umbo_value, umbo_variable};
use super::options::Extensible;
use super::replica_context::take_result;
use super::run::{run, umbo_replica_fn};
use super::scope::present;
use super::status::umbo_status;
use super::text::lasting;
use crate::error::{Error, Result};
use crate::strategy::Strategy;
use crate::strategy::extended::ValueContext;
use crate::tensor::Tensor;

/// For which replica a value is made.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_value_context {
    /// sizeof(umbo_value_context).
    pub struct_size: usize,
    /// The replica's id.
    pub replica_id_in_sync_group: i32,
    /// How many replicas run in sync.
    pub num_replicas_in_sync: i64,
}

// SAFETY: `repr(C)`, `struct_size` first, then numbers, pointers and optional functions.
unsafe impl Extensible for umbo_value_context {}

/// Makes the value of one replica. `context` lives as long as the call. `*value` is NULL on entry;
/// the value stored there, which must be one, is taken over by the library.
pub type umbo_value_fn = Option<
    unsafe extern "C-unwind" fn(
        context: *const umbo_value_context,
        user_data: *mut c_void,
        value: *mut *mut umbo_value,
    ) -> umbo_status,
>;

/// Calls `function` once for each replica, in order, on this thread and in this thread's context,
/// and makes a per-replica value of the results. Structures are merged leaf by leaf (INVALID_ARGUMENT
/// if they differ); shapes and dtypes may differ. Leaves are always wrapped, even the very same
/// tensor, and also with one replica; the default strategy wraps nothing. Components stay on the
/// device they were made on. In every context.
///
/// If `function` fails, so does this, with its status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_values_from_function(
    strategy: *mut umbo_strategy,
    function: umbo_value_fn,
    user_data: *mut c_void,
    result: *mut *mut umbo_value,
) -> umbo_status {
    boundary("umbo_strategy_values_from_function", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let result = unsafe { out(result, "result") }?;
        let strategy = get(strategy, "strategy")?;
        let function = present(function, "function")?;
        let mut call = |context: ValueContext| {
            let given = umbo_value_context {
                struct_size: size_of::<umbo_value_context>(),
                replica_id_in_sync_group: context.replica_id_in_sync_group as i32,
                num_replicas_in_sync: context.num_replicas_in_sync as i64,
            };
            let value = take_result("value", |value| {
                // SAFETY: the caller gives a function of this type and its user data.
                unsafe { function(&raw const given, user_data, value) }
            })?;
            value.ok_or_else(|| {
                let replica = context.replica_id_in_sync_group;
                Error::invalid("value_fn", format!("stored no value for replica {replica}"))
            })
        };
        result.write(make(strategy.values_from_function(&mut call)?)?);
        Ok(())
    })
}

/// Reduces each of `count` values onto its destination, as umbo_strategy_reduce_to() does; `results`
/// gets a tuple. A plain value counts as one component, so that its SUM is itself.
/// INVALID_ARGUMENT if `count` is less than 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_batch_reduce_to(
    strategy: *mut umbo_strategy,
    op: umbo_reduce_op,
    count: i64,
    values: *const *const umbo_value,
    destinations: *const *const umbo_destination,
    results: *mut *mut umbo_value,
) -> umbo_status {
    boundary("umbo_strategy_batch_reduce_to", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (results, values) =
            unsafe { (out(results, "results")?, array(values, count, "values")?) };
        // SAFETY: as above.
        let destinations = unsafe { array(destinations, count, "destinations") }?;
        let strategy = get(strategy, "strategy")?;
        let pairs = collect(values.iter().zip(destinations).map(|(&value, &destination)| {
            // SAFETY: the caller gives NULL or a struct of the size that it states.
            let destination = unsafe { destination_from(destination) }?;
            Ok((get(value, "values")?, destination))
        }))?;
        results.write(make(strategy.batch_reduce_to(op_from(op)?, &pairs)?)?);
        Ok(())
    })
}

/// Copies a tensor, indexed slices or a variable's value to a destination: a plain value on one
/// device, or a per-replica value with one copy for each component of a per-replica destination.
/// INVALID_ARGUMENT for other values; UNIMPLEMENTED for the default strategy. Contexts as for
/// umbo_strategy_reduce().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_broadcast_to(
    strategy: *mut umbo_strategy,
    value: *const umbo_value,
    destination: *const umbo_destination,
    result: *mut *mut umbo_value,
) -> umbo_status {
    boundary("umbo_strategy_broadcast_to", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let result = unsafe { out(result, "result") }?;
        // SAFETY: the caller keeps the header's promise on pointers.
        let destination = unsafe { destination_from(destination) }?;
        let strategy = get(strategy, "strategy")?;
        result.write(make(strategy.broadcast_to(&get(value, "value")?, &destination)?)?);
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
    unsafe { run(name, strategy, function, user_data, args, std::ptr::null(), result) }
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

/// # Safety
/// `names` leads to room for `capacity` texts, or is NULL if there is none; `count` is NULL or a
/// place for the output.
unsafe fn write_names(
    given: &[&str],
    capacity: i64,
    names: *mut *const c_char,
    count: *mut i64,
) -> Result<()> {
    // SAFETY: the caller's promise is the same.
    let (count, room) = unsafe { (out(count, "count")?, array(names, capacity, "names")?) };
    for (position, name) in given.iter().take(room.len()).enumerate() {
        // SAFETY: `array` has checked the room, and the position is within it.
        unsafe { names.add(position).write(lasting(name)) };
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
        let devices: Vec<&str> = strategy.worker_devices()?.iter().map(String::as_str).collect();
        // SAFETY: the caller keeps the header's promise on pointers.
        unsafe { write_names(&devices, capacity, names, count) }
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

fn annotate(
    function: &'static str,
    strategy: *const umbo_strategy,
    tensor: *const umbo_tensor,
    annotated: *mut *mut umbo_tensor,
    annotation: impl FnOnce(&Strategy, &Tensor) -> Result<()>,
) -> umbo_status {
    boundary(function, || {
        // SAFETY: the caller gives NULL or a place for the output.
        let annotated = unsafe { out(annotated, "annotated") }?;
        let (strategy, tensor) = (get(strategy, "strategy")?, get(tensor, "tensor")?);
        annotation(&strategy, &tensor)?;
        annotated.write(make(tensor)?);
        Ok(())
    })
}

/// Annotates a tensor with the logical device, of those of its replica, that it is to lie on. A
/// central storage strategy has one logical device per replica: OUT_OF_RANGE for an id other than
/// 0, else UNIMPLEMENTED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_assign_to_logical_device(
    strategy: *const umbo_strategy,
    tensor: *const umbo_tensor,
    logical_device_id: i32,
    annotated: *mut *mut umbo_tensor,
) -> umbo_status {
    annotate(
        "umbo_strategy_assign_to_logical_device",
        strategy,
        tensor,
        annotated,
        |strategy, tensor| strategy.assign_to_logical_device(tensor, logical_device_id.into()),
    )
}

/// Annotates a tensor as replicated to all logical devices of its replica. UNIMPLEMENTED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_replicate_to_logical_devices(
    strategy: *const umbo_strategy,
    tensor: *const umbo_tensor,
    annotated: *mut *mut umbo_tensor,
) -> umbo_status {
    annotate(
        "umbo_strategy_replicate_to_logical_devices",
        strategy,
        tensor,
        annotated,
        |strategy, tensor| strategy.replicate_to_logical_devices(tensor),
    )
}

/// Annotates a tensor as split over the logical devices of its replica, dimension i in
/// `partition_dimensions[i]` parts. INVALID_ARGUMENT if there is not one number, of 1 or more, for
/// each dimension, if a dimension is not divisible by its number, or if the product is not 1, the
/// number of logical devices of a replica; else UNIMPLEMENTED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_split_to_logical_devices(
    strategy: *const umbo_strategy,
    tensor: *const umbo_tensor,
    count: i64,
    partition_dimensions: *const i64,
    annotated: *mut *mut umbo_tensor,
) -> umbo_status {
    annotate(
        "umbo_strategy_split_to_logical_devices",
        strategy,
        tensor,
        annotated,
        |strategy, tensor| {
            // SAFETY: the caller promises `count` numbers.
            let partitions = unsafe { array(partition_dimensions, count, "partition_dimensions") }?;
            strategy.split_to_logical_devices(tensor, partitions)
        },
    )
}
