//! Scatter updates of variables.

use super::prelude::*;
use crate::strategy::scatter::{ScatterOp, scatter};

/// What a scatter update does with a row of a variable.
pub type umbo_scatter_op = i32;

/// Adds the values to the row. Integers wrap.
pub const UMBO_SCATTER_ADD: umbo_scatter_op = 1;
/// Subtracts the values from the row. Integers wrap.
pub const UMBO_SCATTER_SUB: umbo_scatter_op = 2;
/// Multiplies the row by the values. Integers wrap.
pub const UMBO_SCATTER_MUL: umbo_scatter_op = 3;
/// Divides the row by the values. Quotients of integers are rounded towards zero.
pub const UMBO_SCATTER_DIV: umbo_scatter_op = 4;
/// Takes the smaller one of each pair of elements. If one of the two is NaN, so is the result.
pub const UMBO_SCATTER_MIN: umbo_scatter_op = 5;
/// Takes the larger one of each pair of elements. If one of the two is NaN, so is the result.
pub const UMBO_SCATTER_MAX: umbo_scatter_op = 6;
/// Replaces the row. Bool is allowed here.
pub const UMBO_SCATTER_UPDATE: umbo_scatter_op = 7;

constants! { ScatterOp {
    UMBO_SCATTER_ADD = ScatterOp::Add, UMBO_SCATTER_SUB = ScatterOp::Subtract,
    UMBO_SCATTER_MUL = ScatterOp::Multiply, UMBO_SCATTER_DIV = ScatterOp::Divide,
    UMBO_SCATTER_MIN = ScatterOp::Minimum, UMBO_SCATTER_MAX = ScatterOp::Maximum,
    UMBO_SCATTER_UPDATE = ScatterOp::Update,
} }

/// Changes rows of a variable by number.
///
/// @param[in] op What is done with each row.
/// @param[in] slices Indexed slices of the variable's dtype and shape: the row numbers, and a row of
///   values for each.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: another kind of value, another dtype or shape, bool with another operation
///   than UMBO_SCATTER_UPDATE, an integer that is divided by 0, a per-replica value outside of a replica's
///   callback, or slices that the variable's aggregation cannot combine.
/// - UMBO_STATUS_OUT_OF_RANGE: an index that is no row of the variable.
/// - UMBO_STATUS_FAILED_PRECONDITION, UMBO_STATUS_CANCELLED, UMBO_STATUS_RESOURCE_EXHAUSTED: as for
///   umbo_variable_assign().
///
/// Rows are processed in the order of the slices. A row that is named several times is changed
/// several times. If the call fails, no row is changed.
///
/// In cross-replica and default context the slices are applied once.
///
/// In a replica's callback this is a synchronising call (see umbo_replica_context_merge_call()).
/// The variable's aggregation says which slices are applied:
/// - UMBO_AGGREGATION_SUM: those of all replicas, in replica order. It is
///   UMBO_STATUS_INVALID_ARGUMENT to pass the very same value on all replicas.
/// - UMBO_AGGREGATION_MEAN: the same, with the values divided by the number of replicas. The very
///   same value on all replicas is applied once, as it is.
/// - UMBO_AGGREGATION_ONLY_FIRST_REPLICA: those of replica 0.
/// - UMBO_AGGREGATION_NONE: with several replicas UMBO_STATUS_INVALID_ARGUMENT.
///
/// Later reads in the step see the result. It becomes central state if the run succeeds and is
/// dropped if not.
///
/// With several ranks an assignment in a replica's callback is one of the replicas of all ranks. Then
/// UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and UMBO_STATUS_UNAVAILABLE
/// for ranks that cannot meet any more. Outside of callbacks each rank assigns for itself, and all must
/// assign the same.
#[c_call(get(variable), constant(op), get(slices))]
pub fn umbo_variable_scatter(
    variable: *mut umbo_variable,
    op: umbo_scatter_op,
    slices: *const umbo_value,
) {
    scatter(&variable, op, &slices)
}
