//! Reducing and gathering in cross-replica context.

use crate::machinery::prelude::*;
use umbo_core::collectives::ReduceOp;
use umbo_core::device::registry;
use umbo_core::strategy::values::collective::{ReductionOptions, ReductionOutput};

/// How values are reduced.
pub type umbo_reduce_op = i32;

/// The sum. Integers wrap. Floats are added in replica order, 16-bit ones in 32 bits and 32-bit
/// ones in 64, and rounded once.
pub const UMBO_REDUCE_SUM: umbo_reduce_op = 601;
/// The sum divided by the count. The mean of integers is a float: float32 for 8 and 16 bits,
/// float64 for wider ones.
pub const UMBO_REDUCE_MEAN: umbo_reduce_op = 602;

/// The smallest element, of the same dtype. If any element is NaN, the result is the quiet NaN; -0
/// is less than +0. The MIN of bool is true if all are.
pub const UMBO_REDUCE_MIN: umbo_reduce_op = 603;
/// The largest element, by the rules of UMBO_REDUCE_MIN. The MAX of bool is true if any is.
pub const UMBO_REDUCE_MAX: umbo_reduce_op = 604;

constants! {
    ReduceOp {
        UMBO_REDUCE_SUM = Sum, UMBO_REDUCE_MEAN = Mean,
        UMBO_REDUCE_MIN = Min, UMBO_REDUCE_MAX = Max,
    }
}

/// How a value is reduced or gathered.
#[c_struct]
pub struct umbo_reduce_options {
    /// The number of elements of `axes`.
    pub axis_count: i64,
    /// Axes to reduce along within each replica; negative ones count from the back. NULL: over the
    /// replicas only.
    #[counted_by(axis_count)]
    pub axes: *const i32,
    /// The name of the device of the result. NULL: CPU:0, but a plain value that needs no reduction
    /// stays where it is.
    pub destination: *const c_char,
    /// A tensor of the dtype and shape of the result, which gets it. It shares no memory with the
    /// value. NULL: a new tensor. Not for nests and indexed slices.
    pub output: *mut umbo_tensor,
}

/// # Safety
/// As for [`options::read`]; texts and arrays in the struct are what the header says.
pub(crate) unsafe fn reduction(
    pointer: *const umbo_reduce_options,
    argument: &'static str,
) -> Result<ReductionOptions> {
    // SAFETY: the caller's promise is the same.
    let given = unsafe { options::read(pointer, argument) }?;
    // SAFETY: the caller promises an array, or NULL.
    let axes = unsafe {
        optional_array(
            given.axes,
            Count::new(given.axis_count, "options.axis_count"),
            "options.axes",
        )
    }?;
    let axes = axes
        .map(|axes| {
            let axes = axes.iter().map(|&axis| Ok(i64::from(axis)));
            collect(axes, "options.axes")
        })
        .transpose()?;
    // SAFETY: the caller promises NULL or a text.
    let destination = unsafe { optional_text(given.destination, "options.destination") }?;
    let output = get_optional(given.output, "options.output")?;
    Ok(ReductionOptions {
        axes,
        destination: destination
            .map(|name| registry::REGISTRY.resolve(name, "options.destination"))
            .transpose()?,
        // SAFETY: the caller gives a tensor that nothing but the call touches as long as that
        // lasts.
        output: output.map(|tensor| unsafe { ReductionOutput::new(tensor) }),
        over_replicas_only: false,
    })
}

/// Reduces a value over the replicas, leaf by leaf.
///
/// @param[in] options May be NULL.
/// @return
/// - UMBO_STATUS_INVALID_ARGUMENT: shapes that differ (the message lists all), the SUM or MEAN of
///   bool, the MIN or MAX of no elements, the SUM of a plain value over several replicas without
///   axes, or an output that does not fit.
/// - UMBO_STATUS_OUT_OF_RANGE: no such axis, or an index outside the shape of indexed slices.
/// - UMBO_STATUS_NOT_FOUND: no such destination.
/// - UMBO_STATUS_FAILED_PRECONDITION: the call comes from a replica's callback, which uses
///   umbo_replica_context_all_reduce(), or from another strategy's scope.
///
/// Without axes, components of one shape and dtype are added element by element. MEAN divides by
/// the number of components.
///
/// With axes, each component is summed along them, then the sums are added. Components may differ
/// in these dimensions: axis 0 is right for a last, partial batch. MEAN divides by the number of
/// elements that were added; the mean of none is NaN. MIN and MAX ignore components that are empty,
/// and fail if all are.
///
/// A plain tensor or variable counts once for each replica if there are axes, else it is its own
/// MEAN, MIN and MAX. The mean of integers is a float, with one replica too.
///
/// Indexed slices without axes are concatenated in replica order; an index may occur several times,
/// and MEAN divides the values by the number of components. With axes, by MIN and MAX, and where
/// other components are tensors, they are reduced as dense tensors. Collective.
#[c_call(
    out(result),
    reduction(options),
    get(strategy),
    constant(op),
    get(value)
)]
pub fn umbo_strategy_reduce(
    strategy: *mut umbo_strategy,
    value: *const umbo_value,
    op: umbo_reduce_op,
    options: *const umbo_reduce_options,
    result: *mut *mut umbo_value,
) {
    result.write(make(strategy.reduce(op, &value, &options)?)?);
}

/// Concatenates the components of a per-replica value in replica order, leaf by leaf.
///
/// @param[in] axis Negative ones count from the back.
/// @param[in] options Without axes. May be NULL.
/// @return
/// - UMBO_STATUS_INVALID_ARGUMENT: scalars, axes in the options, an output that does not fit, or
///   components that differ in number of dimensions, dtype or another dimension.
/// - UMBO_STATUS_OUT_OF_RANGE: no such axis.
/// - UMBO_STATUS_NOT_FOUND: no such destination.
/// - UMBO_STATUS_UNIMPLEMENTED: indexed slices outside a per-replica value, where they are made
///   dense.
/// - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_strategy_reduce().
///
/// Components may be empty. Plain values and values of one component come back as they are.
/// Collective.
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
    result.write(make(strategy.gather(
        &get(value, "value")?,
        axis.into(),
        &options,
    )?)?);
}

/// Makes a tuple of the components of a value in this process, in every context.
///
/// @param[out] results A tuple of the components of a per-replica value, of a nest for each
///   replica, or of the plain value alone.
#[c_call(out(results), get(strategy), get(value))]
pub fn umbo_strategy_local_results(
    strategy: *const umbo_strategy,
    value: *const umbo_value,
    results: *mut *mut umbo_value,
) {
    results.write(make(strategy.local_results(&value)?)?);
}
