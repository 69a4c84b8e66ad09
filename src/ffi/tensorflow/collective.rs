//! Reductions to several destinations, and copies to one.

use crate::ffi::boundary::{array, boundary, collect, out};
use crate::ffi::collective::{destination_from, op_from, umbo_destination, umbo_reduce_op};
use crate::ffi::handle::{get, make};
use crate::ffi::object::{umbo_strategy, umbo_value};
use crate::ffi::status::umbo_status;

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
