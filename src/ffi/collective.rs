//! Reducing and gathering in cross-replica context.

use super::prelude::*;
use crate::collectives::ReduceOp;
use crate::device::registry;
use crate::strategy::collective::{Destination, Output, Reduction};

/// How values are reduced.
pub type umbo_reduce_op = i32;

/// The sum. Integers wrap. Floats are added in replica order and rounded once: 16-bit ones in 32
/// bits, 32-bit ones in 64.
pub const UMBO_REDUCE_SUM: umbo_reduce_op = 1;
/// The sum divided by the count. The mean of integers is a float: float32 for 8 and 16 bits,
/// float64 for wider ones.
pub const UMBO_REDUCE_MEAN: umbo_reduce_op = 2;

constants! { ReduceOp { UMBO_REDUCE_SUM = ReduceOp::Sum, UMBO_REDUCE_MEAN = ReduceOp::Mean } }

/// How a value is reduced or gathered. Start from UMBO_REDUCE_OPTIONS_INIT.
#[c_struct]
#[repr(C)]
pub struct umbo_reduce_options {
    /// sizeof(umbo_reduce_options).
    pub struct_size: usize,
    /// An array of `axis_count` axes to reduce along within each replica; negative ones count from
    /// the back. NULL: reduce over the replicas only.
    pub axes: *const i32,
    /// The number of axes. If it is 0 and `axes` is not NULL, only the replicas are reduced over.
    pub axis_count: i64,
    /// The name of the result's device. NULL: CPU:0, but a plain value that needs no reduction
    /// stays where it is. Where a device is named, such a value is copied to it.
    pub destination: *const c_char,
    /// A tensor of the result's dtype and shape, into which the result is written. It must not
    /// share memory with the value, and nobody else may use it during the call. NULL: a new tensor.
    /// Not possible for nests and indexed slices.
    pub output: *mut umbo_tensor,
}

/// # Safety
/// As for [`options::read`]; texts and arrays in the struct are what the header says.
pub(crate) unsafe fn reduction(
    pointer: *const umbo_reduce_options,
    argument: &'static str,
) -> Result<Reduction> {
    // SAFETY: the caller's promise is the same.
    let given = unsafe { options::read(pointer, argument) }?;
    // SAFETY: the caller promises an array, or NULL.
    let axes = unsafe {
        optional_array(given.axes, (given.axis_count, "options.axis_count"), "options.axes")
    }?;
    // SAFETY: the caller promises NULL or a text.
    let destination = unsafe { optional_text(given.destination, "options.destination") }?;
    let output = get_optional(given.output, "options.output")?;
    Ok(Reduction {
        axes: axes.map(|axes| axes.iter().copied().map(i64::from).collect()),
        destination: destination
            .map(|name| registry::resolve(name, "options.destination"))
            .transpose()?,
        // SAFETY: the caller gives a tensor that nothing but the call touches as long as that
        // lasts.
        output: output.map(|tensor| unsafe { Output::new(tensor) }),
        over_replicas_only: false,
    })
}

/// Adds up or averages a value over the replicas.
///
/// @param[in] op UMBO_REDUCE_SUM or UMBO_REDUCE_MEAN.
/// @param[in] value The value, of which each leaf is reduced by itself. It stays as it is.
/// @param[in] options Axes, device and output; `options` may be NULL: all defaults.
/// @param[out] result The reduced value. The caller releases it.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an unknown `op`, shapes that differ (the message lists all of them), bool,
///   the SUM of a plain value over several replicas without axes, or an output that does not fit.
/// - UMBO_STATUS_OUT_OF_RANGE: no such axis, or an index outside of the dense shape of indexed
///   slices.
/// - UMBO_STATUS_NOT_FOUND: a destination that does not exist.
/// - UMBO_STATUS_FAILED_PRECONDITION: the call comes from a replica's callback, which uses
///   umbo_replica_context_all_reduce(), or from another strategy's scope.
///
/// Without axes, the components of a per-replica value are added element by element. They must
/// agree in shape and dtype. MEAN divides by the number of components.
///
/// With axes, each component is summed along them, and then the sums are added. So components may
/// differ in those dimensions: axis 0 is right for a last, partial batch. MEAN divides by the
/// number of elements that were added, over all replicas. An empty component adds nothing. The mean
/// of no elements is NaN.
///
/// A plain tensor or variable counts once for each replica if there are axes. Without axes it is
/// its own mean; the mean of integers is a float here too, so that the dtype does not depend on the
/// number of replicas.
///
/// Indexed slices without axes are concatenated in replica order. Their dense shapes must agree. An
/// index may occur several times; its row is then the sum of these slices. MEAN divides the values
/// by the number of components. With axes, or if some components are tensors, indexed slices are
/// reduced as the dense tensors that they stand for, and the result is dense.
///
/// With several ranks a call that all of them make: it fails on all if it fails on one. Then
/// UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and UMBO_STATUS_UNAVAILABLE
/// for ranks that cannot meet any more.
#[c_call(out(result), reduction(options), get(strategy), constant(op), get(value))]
pub fn umbo_strategy_reduce(
    strategy: *mut umbo_strategy,
    op: umbo_reduce_op,
    value: *const umbo_value,
    options: *const umbo_reduce_options,
    result: *mut *mut umbo_value,
) {
    result.write(make(strategy.reduce(op, &value, &options)?)?);
}

/// Concatenates the components of a per-replica value.
///
/// @param[in] value The value, of which each leaf is gathered by itself. It stays as it is.
/// @param[in] axis The axis to concatenate along; negative ones count from the back.
/// @param[in] options Device and output; its axes must not be set. `options` may be NULL: all
///   defaults.
/// @param[out] result The concatenation in replica order. The caller releases it.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: scalars, axes in the options, an output that does not fit, or components
///   that differ in rank, dtype or another dimension (the message names the replicas).
/// - UMBO_STATUS_OUT_OF_RANGE: no such axis.
/// - UMBO_STATUS_NOT_FOUND: a destination that does not exist.
/// - UMBO_STATUS_UNIMPLEMENTED: indexed slices outside of a per-replica value.
/// - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_strategy_reduce().
///
/// Components may be empty. Plain values and values of one component come back as they are. Indexed
/// slices in a per-replica value are made dense first.
///
/// With several ranks a call that all of them make: it fails on all if it fails on one. Then
/// UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and UMBO_STATUS_UNAVAILABLE
/// for ranks that cannot meet any more.
#[c_call(out(result), reduction(options))]
pub fn umbo_strategy_gather(
    strategy: *mut umbo_strategy,
    value: *const umbo_value,
    axis: i32,
    options: *const umbo_reduce_options,
    result: *mut *mut umbo_value,
) {
    if options.axes.is_some() {
        let problem = "a gathering has one axis, its own argument; leave options.axes NULL";
        return Err(Error::invalid("options.axes", problem));
    }
    let strategy = get(strategy, "strategy")?;
    result.write(make(strategy.gather(&get(value, "value")?, axis.into(), &options)?)?);
}

/// Gives the components of a value as a tuple.
///
/// @param[out] results A tuple: of the components of a per-replica value, of one nest for each
///   replica of a nest, or of the value alone. The caller releases it.
///
/// It may be called in every context.
#[c_call(out(results), get(strategy), get(value))]
pub fn umbo_strategy_local_results(
    strategy: *const umbo_strategy,
    value: *const umbo_value,
    results: *mut *mut umbo_value,
) {
    results.write(make(strategy.local_results(&value)?)?);
}

/// Where a reduced value goes. Start from UMBO_DESTINATION_INIT and set exactly one field.
#[c_struct]
#[repr(C)]
pub struct umbo_destination {
    /// sizeof(umbo_destination).
    pub struct_size: usize,
    /// The name of a device.
    pub device: *const c_char,
    /// A value on whose device the result shall lie: a tensor or indexed slices. With a per-replica
    /// value the devices of all its components count, and each gets a copy.
    pub like: *const umbo_value,
    /// A variable on whose device the result shall lie.
    pub variable: *const umbo_variable,
}

/// # Safety
/// As for [`options::read`]; texts in the struct are what the header says.
pub(crate) unsafe fn destination(
    pointer: *const umbo_destination,
    argument: &'static str,
) -> Result<Destination> {
    if pointer.is_null() {
        return Err(Error::invalid(argument, "is NULL; a destination is expected"));
    }
    // SAFETY: the caller's promise is the same.
    let given = unsafe { options::read(pointer, argument) }?;
    // SAFETY: the caller promises NULL or a text.
    let device = unsafe { optional_text(given.device, "destination.device") }?;
    let like = get_optional(given.like, "destination.like")?;
    let variable = get_optional(given.variable, "destination.variable")?;
    match (device, like, variable) {
        (Some(""), None, None) => {
            Err(Error::invalid("destination.device", "is empty; name a device, such as CPU:0"))
        }
        (Some(name), None, None) => {
            Ok(Destination::Device(registry::resolve(name, "destination.device")?))
        }
        (None, Some(like), None) => Ok(Destination::Like(like)),
        (None, None, Some(variable)) => Ok(Destination::Like(Value::Variable(variable))),
        _ => Err(Error::invalid("destination", "set exactly one of device, like and variable")),
    }
}

/// Reduces a value over the replicas onto a destination.
///
/// @param[in] op UMBO_REDUCE_SUM or UMBO_REDUCE_MEAN.
/// @param[in] value The value. It stays as it is.
/// @param[in] destination Where the result goes.
/// @param[out] result A plain value on one device; with a per-replica destination, a per-replica
///   value with one copy for each of its components. The caller releases it.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: as for umbo_strategy_reduce(), or a destination with no field or
///   several fields set.
/// - UMBO_STATUS_NOT_FOUND: a device that does not exist.
/// - the others of umbo_strategy_reduce().
///
/// The numbers are those of umbo_strategy_reduce() without axes.
///
/// With several ranks a call that all of them make: it fails on all if it fails on one. Then
/// UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and UMBO_STATUS_UNAVAILABLE
/// for ranks that cannot meet any more.
#[c_call(out(result), destination(destination), get(strategy), constant(op), get(value))]
pub fn umbo_strategy_reduce_to(
    strategy: *mut umbo_strategy,
    op: umbo_reduce_op,
    value: *const umbo_value,
    destination: *const umbo_destination,
    result: *mut *mut umbo_value,
) {
    result.write(make(strategy.reduce_to(op, &value, &destination)?)?);
}
