//! Scatter updates of variables.

use crate::machinery::prelude::*;
use umbo_core::strategy::variables::writing::{ScatterOp, scatter};

/// The operation of a scatter on a row of a variable. Integers wrap.
pub type umbo_scatter_op = i32;

/// Adds the values to the row.
pub const UMBO_SCATTER_ADD: umbo_scatter_op = 1101;
/// Subtracts the values from the row.
pub const UMBO_SCATTER_SUB: umbo_scatter_op = 1102;
/// Multiplies the row by the values.
pub const UMBO_SCATTER_MUL: umbo_scatter_op = 1103;
/// Divides the row by the values. Integers are rounded towards zero.
pub const UMBO_SCATTER_DIV: umbo_scatter_op = 1104;
/// Takes the smaller element of each pair; NaN, if one of them is NaN.
pub const UMBO_SCATTER_MIN: umbo_scatter_op = 1105;
/// Takes the larger element of each pair; NaN, if one of them is NaN.
pub const UMBO_SCATTER_MAX: umbo_scatter_op = 1106;
/// Replaces the row. The only one for bool.
pub const UMBO_SCATTER_UPDATE: umbo_scatter_op = 1107;

constants! { ScatterOp {
    UMBO_SCATTER_ADD = Add, UMBO_SCATTER_SUB = Subtract, UMBO_SCATTER_MUL = Multiply,
    UMBO_SCATTER_DIV = Divide, UMBO_SCATTER_MIN = Minimum, UMBO_SCATTER_MAX = Maximum,
    UMBO_SCATTER_UPDATE = Update,
} }

/// Changes rows of a variable, in the order of the slices. A row that is named several times is
/// changed several times.
///
/// @param[in] slices Indexed slices of the variable's dtype and shape.
/// @return As umbo_variable_assign(), or:
/// - UMBO_STATUS_INVALID_ARGUMENT: another kind of value, or an integer divided by 0.
/// - UMBO_STATUS_OUT_OF_RANGE: an index that is not a row. No row is changed.
///
/// In a replica's callback UMBO_AGGREGATION_SUM applies the slices of all replicas in replica
/// order; UMBO_AGGREGATION_MEAN does, with the values divided by the number of replicas, but
/// applies the very same value on all replicas once, as it is; UMBO_AGGREGATION_ONLY_FIRST_REPLICA
/// applies those of replica 0.
#[c_call(get(variable), constant(op), get(slices))]
pub fn umbo_variable_scatter(
    variable: *mut umbo_variable,
    slices: *const umbo_value,
    op: umbo_scatter_op,
) {
    scatter(&variable, op, &slices)
}
