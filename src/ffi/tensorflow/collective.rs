//! Reductions to several destinations, and copies to one.

use crate::ffi::prelude::*;

/// Reduces several values, each onto its own destination.
///
/// @param[in] op UMBO_REDUCE_SUM or UMBO_REDUCE_MEAN, for all of them.
/// @param[in] count The number of values, 1 or more.
/// @param[in] values The values. They stay as they are.
/// @param[in] destinations As many destinations: where the result of each value goes.
/// @param[out] results A tuple of the results. The caller releases it.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: `count` is less than 1, or as for umbo_strategy_reduce_to().
/// - the others of umbo_strategy_reduce_to().
///
/// Each value is reduced as by umbo_strategy_reduce_to(), with one difference: a plain value counts
/// as one component, so its SUM is the value itself.
///
/// With several ranks a call that all of them make: it fails on all if it fails on one. Then
/// UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and UMBO_STATUS_UNAVAILABLE
/// for ranks that cannot meet any more.
#[c_call(out(results), array(values, count), array(destinations, count), get(strategy))]
pub fn umbo_strategy_batch_reduce_to(
    strategy: *mut umbo_strategy,
    op: umbo_reduce_op,
    count: i64,
    values: *const *const umbo_value,
    destinations: *const *const umbo_destination,
    results: *mut *mut umbo_value,
) {
    let pairs = collect(values.iter().zip(destinations).map(|(&value, &destination)| {
        // SAFETY: the caller gives NULL or a struct of the size that it states.
        let destination = unsafe { arguments::destination(destination, "destination") }?;
        Ok((get(value, "values")?, destination))
    }))?;
    results.write(make(strategy.batch_reduce_to(constant(op, "op")?, &pairs)?)?);
}

/// Copies a value to a destination.
///
/// @param[in] value A tensor, indexed slices or a variable.
/// @param[in] destination Where the copy goes.
/// @param[out] result A plain value on one device; with a per-replica destination, a per-replica
///   value with one copy for each of its components. The caller releases it.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: another kind of value, or a destination with no field or several fields
///   set.
/// - UMBO_STATUS_NOT_FOUND: a device that does not exist.
/// - UMBO_STATUS_UNIMPLEMENTED: the default strategy, which has no devices of its own.
/// - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_strategy_reduce().
#[c_call(out(result), destination(destination), get(strategy), get(value))]
pub fn umbo_strategy_broadcast_to(
    strategy: *mut umbo_strategy,
    value: *const umbo_value,
    destination: *const umbo_destination,
    result: *mut *mut umbo_value,
) {
    result.write(make(strategy.broadcast_to(&value, &destination)?)?);
}
