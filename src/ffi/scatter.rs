//! Scatter updates of variables.

use super::boundary::boundary;
use super::handle::get;
use super::object::{umbo_value, umbo_variable};
use super::status::umbo_status;
use crate::strategy::scatter::{self, ScatterOp};

fn scatter(
    function: &'static str,
    variable: *const umbo_variable,
    op: ScatterOp,
    slices: *const umbo_value,
) -> umbo_status {
    boundary(function, || {
        scatter::scatter(&get(variable, "variable")?, op, &get(slices, "slices")?)
    })
}

/// Adds each row of the slices to the row of the variable that it belongs to.
///
/// `slices` is indexed slices of the variable's dtype and shape (INVALID_ARGUMENT if they differ).
/// Rows are taken in order; one that is named several times is changed several times. An index
/// that is no row of the variable is OUT_OF_RANGE. Whatever is wrong, nothing is changed then.
/// Integers wrap; bool is INVALID_ARGUMENT.
///
/// In cross-replica and default context it acts once, and a per-replica value is INVALID_ARGUMENT. In a
/// replica's callback it is a synchronising call that all replicas make (see
/// umbo_replica_context_merge_call()), and the variable's aggregation says which slices count: with
/// SUM all replicas' in replica order, with MEAN the same with the values divided by the number of
/// replicas, with ONLY_FIRST_REPLICA replica 0's; NONE is INVALID_ARGUMENT with several replicas.
/// The very same value on all replicas is INVALID_ARGUMENT with SUM and counts once with MEAN.
/// Later reads in the step see the result; it becomes central state when the run succeeds, and is
/// dropped when it fails. Other errors as for umbo_variable_assign().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_scatter_add(
    variable: *mut umbo_variable,
    slices: *const umbo_value,
) -> umbo_status {
    scatter("umbo_variable_scatter_add", variable, ScatterOp::Add, slices)
}

/// Subtracts each row of the slices; otherwise as umbo_variable_scatter_add().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_scatter_sub(
    variable: *mut umbo_variable,
    slices: *const umbo_value,
) -> umbo_status {
    scatter("umbo_variable_scatter_sub", variable, ScatterOp::Subtract, slices)
}

/// Multiplies by each row of the slices; otherwise as umbo_variable_scatter_add().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_scatter_mul(
    variable: *mut umbo_variable,
    slices: *const umbo_value,
) -> umbo_status {
    scatter("umbo_variable_scatter_mul", variable, ScatterOp::Multiply, slices)
}

/// Divides by each row of the slices; otherwise as umbo_variable_scatter_add(). Integers are
/// truncated towards zero; a divisor of 0 is INVALID_ARGUMENT for them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_scatter_div(
    variable: *mut umbo_variable,
    slices: *const umbo_value,
) -> umbo_status {
    scatter("umbo_variable_scatter_div", variable, ScatterOp::Divide, slices)
}

/// Takes the smaller of each pair of elements, NaN if either is; otherwise as
/// umbo_variable_scatter_add().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_scatter_min(
    variable: *mut umbo_variable,
    slices: *const umbo_value,
) -> umbo_status {
    scatter("umbo_variable_scatter_min", variable, ScatterOp::Minimum, slices)
}

/// Takes the larger of each pair of elements, NaN if either is; otherwise as
/// umbo_variable_scatter_add().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_scatter_max(
    variable: *mut umbo_variable,
    slices: *const umbo_value,
) -> umbo_status {
    scatter("umbo_variable_scatter_max", variable, ScatterOp::Maximum, slices)
}

/// Replaces the rows of the variable by those of the slices; otherwise as
/// umbo_variable_scatter_add(). Takes bool as well.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_scatter_update(
    variable: *mut umbo_variable,
    slices: *const umbo_value,
) -> umbo_status {
    scatter("umbo_variable_scatter_update", variable, ScatterOp::Update, slices)
}
