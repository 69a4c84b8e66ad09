//! Reductions to destinations, and copies to them.

use crate::machinery::prelude::*;
use umbo_core::device::registry;
use umbo_core::strategy::values::collective::Destination;

/// The destination of a value. Set exactly one field.
#[c_struct]
pub struct umbo_destination {
    /// The name of a device.
    pub device: *const c_char,
    /// A value, whose device gets the result. With a per-replica value the device of each component
    /// gets a copy.
    pub like: *const umbo_value,
    /// A variable, whose device gets the result.
    pub variable: *const umbo_variable,
}

/// # Safety
/// As for [`options::read`]; texts in the struct are what the header says.
pub(crate) unsafe fn destination(
    pointer: *const umbo_destination,
    argument: &'static str,
) -> Result<Destination> {
    if pointer.is_null() {
        return Err(invalid!(argument, "is NULL; a destination is expected"));
    }
    // SAFETY: the caller's promise is the same.
    let given = unsafe { options::read(pointer, argument) }?;
    // SAFETY: the caller promises NULL or a text.
    let device = unsafe { optional_text(given.device, "destination.device") }?;
    let like = get_optional(given.like, "destination.like")?;
    let variable = get_optional(given.variable, "destination.variable")?;
    match (device, like, variable) {
        (Some(""), None, None) => Err(invalid!(
            "destination.device",
            "is empty; name a device, such as CPU:0"
        )),
        (Some(name), None, None) => Ok(Destination::Device(
            registry::REGISTRY.resolve(name, "destination.device")?,
        )),
        (None, Some(like), None) => Ok(Destination::Like(like)),
        (None, None, Some(variable)) => Ok(Destination::Like(Value::Variable(variable))),
        _ => Err(invalid!(
            "destination",
            "set exactly one of device, like and variable"
        )),
    }
}

/// Reduces a value over the replicas onto a destination, as umbo_strategy_reduce() does without
/// axes.
///
/// @param[out] result A plain value; with a per-replica destination, a per-replica value.
/// @return
/// - UMBO_STATUS_INVALID_ARGUMENT: not exactly one field of the destination is set.
/// - The others of umbo_strategy_reduce().
///
/// Collective.
#[c_call(
    part(tensorflow),
    out(result),
    destination(destination),
    get(strategy),
    constant(op),
    get(value)
)]
pub fn umbo_strategy_reduce_to(
    strategy: *mut umbo_strategy,
    value: *const umbo_value,
    op: umbo_reduce_op,
    destination: *const umbo_destination,
    result: *mut *mut umbo_value,
) {
    result.write(make(strategy.reduce_to(op, &value, &destination)?)?);
}

/// Reduces several values, each onto its own destination, as umbo_strategy_reduce_to() does, but a
/// plain value counts as one component: its SUM is the value itself.
///
/// @param[in] count 1 or more.
/// @param[out] results A tuple of the results.
/// @return That of umbo_strategy_reduce_to().
///
/// Collective.
#[c_call(
    part(tensorflow),
    out(results),
    array(values, count),
    array(destinations, count),
    get(strategy)
)]
pub fn umbo_strategy_batch_reduce_to(
    strategy: *mut umbo_strategy,
    count: i64,
    values: *const *mut umbo_value,
    op: umbo_reduce_op,
    destinations: *const *const umbo_destination,
    results: *mut *mut umbo_value,
) {
    let pairs = collect(
        values
            .iter()
            .zip(destinations)
            .map(|(&value, &destination)| {
                // SAFETY: the caller gives NULL or a struct of the size that it states.
                let destination = unsafe { arguments::destination(destination, "destination") }?;
                Ok((get(value, "values")?, destination))
            }),
        "values",
    )?;
    results.write(make(
        strategy.batch_reduce_to(constant(op, "op")?, &pairs)?,
    )?);
}

/// Copies a tensor, indexed slices or a variable to a destination.
///
/// @param[out] result A plain value; with a per-replica destination, a per-replica value.
/// @return
/// - UMBO_STATUS_INVALID_ARGUMENT: another kind of value, or not exactly one field of the
///   destination is set.
/// - UMBO_STATUS_NOT_FOUND: no such device.
/// - UMBO_STATUS_UNIMPLEMENTED: the default strategy, which has no devices of its own.
/// - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_strategy_reduce().
#[c_call(
    part(tensorflow),
    out(result),
    destination(destination),
    get(strategy),
    get(value)
)]
pub fn umbo_strategy_broadcast_to(
    strategy: *mut umbo_strategy,
    value: *const umbo_value,
    destination: *const umbo_destination,
    result: *mut *mut umbo_value,
) {
    result.write(make(strategy.broadcast_to(&value, &destination)?)?);
}
