//! Scatter updates of variables.

use super::prelude::*;
use crate::strategy::scatter::{ScatterOp, scatter};

/// Adds rows to the rows of a variable.
///
/// @param[in] variable The variable.
/// @param[in] slices Indexed slices of the variable's dtype and shape: the row numbers, and what to
///   add to each.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer, another kind of value, another
///   dtype or shape, bool, a per-replica value outside of a replica's callback, or slices that the
///   variable's aggregation cannot combine.
/// - UMBO_STATUS_OUT_OF_RANGE: an index that is no row of the variable.
/// - UMBO_STATUS_FAILED_PRECONDITION, UMBO_STATUS_CANCELLED, UMBO_STATUS_RESOURCE_EXHAUSTED: as for
///   umbo_variable_assign().
///
/// Rows are processed in the order of the slices. A row that is named several times is changed
/// several times. If the call fails, no row is changed. Integers wrap.
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
#[c_call(get(variable), get(slices))]
pub fn umbo_variable_scatter_add(variable: *mut umbo_variable, slices: *const umbo_value) {
    scatter(&variable, ScatterOp::Add, &slices)
}

/// Subtracts rows from the rows of a variable.
///
/// @param[in] variable The variable.
/// @param[in] slices Indexed slices of the variable's dtype and shape: the row numbers, and what to
///   subtract from each.
/// @return UMBO_OK, or the statuses of umbo_variable_scatter_add().
///
/// Order, contexts, aggregation and commit are those of umbo_variable_scatter_add().
#[c_call(get(variable), get(slices))]
pub fn umbo_variable_scatter_sub(variable: *mut umbo_variable, slices: *const umbo_value) {
    scatter(&variable, ScatterOp::Subtract, &slices)
}

/// Multiplies the rows of a variable by rows.
///
/// @param[in] variable The variable.
/// @param[in] slices Indexed slices of the variable's dtype and shape: the row numbers, and what to
///   multiply each by.
/// @return UMBO_OK, or the statuses of umbo_variable_scatter_add().
///
/// Order, contexts, aggregation and commit are those of umbo_variable_scatter_add().
#[c_call(get(variable), get(slices))]
pub fn umbo_variable_scatter_mul(variable: *mut umbo_variable, slices: *const umbo_value) {
    scatter(&variable, ScatterOp::Multiply, &slices)
}

/// Divides the rows of a variable by rows.
///
/// @param[in] variable The variable.
/// @param[in] slices Indexed slices of the variable's dtype and shape: the row numbers, and what to
///   divide each by.
/// @return UMBO_OK, or the statuses of umbo_variable_scatter_add(), and
///   UMBO_STATUS_INVALID_ARGUMENT: an integer is divided by 0.
///
/// Order, contexts, aggregation and commit are those of umbo_variable_scatter_add().
///
/// Quotients of integers are rounded towards zero.
#[c_call(get(variable), get(slices))]
pub fn umbo_variable_scatter_div(variable: *mut umbo_variable, slices: *const umbo_value) {
    scatter(&variable, ScatterOp::Divide, &slices)
}

/// Takes the smaller one of each pair of elements.
///
/// @param[in] variable The variable.
/// @param[in] slices Indexed slices of the variable's dtype and shape: the row numbers, and what to
///   compare each with.
/// @return UMBO_OK, or the statuses of umbo_variable_scatter_add().
///
/// Order, contexts, aggregation and commit are those of umbo_variable_scatter_add().
///
/// If one of the two is NaN, so is the result.
#[c_call(get(variable), get(slices))]
pub fn umbo_variable_scatter_min(variable: *mut umbo_variable, slices: *const umbo_value) {
    scatter(&variable, ScatterOp::Minimum, &slices)
}

/// Takes the larger one of each pair of elements.
///
/// @param[in] variable The variable.
/// @param[in] slices Indexed slices of the variable's dtype and shape: the row numbers, and what to
///   compare each with.
/// @return UMBO_OK, or the statuses of umbo_variable_scatter_add().
///
/// Order, contexts, aggregation and commit are those of umbo_variable_scatter_add().
///
/// If one of the two is NaN, so is the result.
#[c_call(get(variable), get(slices))]
pub fn umbo_variable_scatter_max(variable: *mut umbo_variable, slices: *const umbo_value) {
    scatter(&variable, ScatterOp::Maximum, &slices)
}

/// Replaces rows of a variable.
///
/// @param[in] variable The variable.
/// @param[in] slices Indexed slices of the variable's dtype and shape: the row numbers, and the new
///   rows.
/// @return UMBO_OK, or the statuses of umbo_variable_scatter_add().
///
/// Order, contexts, aggregation and commit are those of umbo_variable_scatter_add().
///
/// Bool is allowed here.
#[c_call(get(variable), get(slices))]
pub fn umbo_variable_scatter_update(variable: *mut umbo_variable, slices: *const umbo_value) {
    scatter(&variable, ScatterOp::Update, &slices)
}
