//! What replicas write into gradients, and how they submit it: `umbo/gradients.h`.

use super::prelude::*;
use crate::optimizer::GradientMode;

/// What a replica does with its gradient buffer.
pub type umbo_gradient_mode = i32;

/// It writes every element. The buffer contains old data before.
pub const UMBO_GRADIENT_OVERWRITE: umbo_gradient_mode = 1;
/// It adds to the elements. They are zero when the replica first views the buffer in a step. Its own
/// additions are rounded to the type of the buffer each time: in float16 2048 + 1 is 2048. A callback
/// that adds often to a buffer of 16-bit floats adds in memory of its own and converts the sum
/// (umbo_convert_from_float()). The sums of the library, over rows, replicas and runs, are float64.
pub const UMBO_GRADIENT_ADD: umbo_gradient_mode = 2;

/// Gives this replica's buffer for the gradient of a variable.
///
/// @param[in] ctx The replica's context.
/// @param[in] index The place of the variable among those that the gradients were made for.
/// @param[in] mode UMBO_GRADIENT_OVERWRITE or UMBO_GRADIENT_ADD.
/// @param[out] view The buffer, to be written until the replica submits. It has the variable's
///   shape, and its dtype unless the options give another one. It is on the replica's device.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an unknown `mode`.
/// - UMBO_STATUS_OUT_OF_RANGE: no such variable.
/// - UMBO_STATUS_FAILED_PRECONDITION: the variable is row-sparse, this is not a run of the strategy
///   that the gradients were made for, the replica has submitted already, or what an earlier run
///   submitted was not applied.
/// - UMBO_STATUS_CANCELLED: the run has returned without this replica.
///
/// If a replica does not view a variable in a step, its gradient counts as zero. If no replica
/// views it, the variable is not updated. Replicas call at the same time; the call allocates
/// nothing and does not wait.
///
/// The buffer stays where it is: the view has the same address in every step as long as the gradients live.
/// umbo_gradients_attach() lets a gradient stay in the program's memory instead.
#[c_call(out(view), index(index), constant(mode), within(ctx), borrow(gradients))]
pub fn umbo_gradients_view(
    gradients: *mut umbo_gradients,
    ctx: *mut umbo_replica_context,
    index: i64,
    mode: umbo_gradient_mode,
    view: *mut umbo_view,
) {
    view.write(gradients.view_in(ctx, index, mode).map(view_to_write)?);
}

/// Gives this replica's buffers for the gradients of all variables.
///
/// @param[in] ctx The replica's context.
/// @param[in] mode UMBO_GRADIENT_OVERWRITE or UMBO_GRADIENT_ADD, for all buffers.
/// @param[in] capacity How many views there is room for.
/// @param[out] views The buffers, one for each variable, in the order of the variables; NULL if `capacity` is 0.
/// @param[out] count The number of variables, also if `capacity` is less.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_OUT_OF_RANGE: `capacity` is less than the number of variables.
/// - the others of umbo_gradients_view().
///
/// It does what umbo_gradients_view() does for each variable, in one call. A row-sparse variable has no buffer, and
/// gets a view of zeros, whose `mutable_data` is NULL. All others count as viewed, so with UMBO_GRADIENT_OVERWRITE all
/// of them are written in full. If the call fails, none of them counts as viewed because of it.
#[c_call(out(count), constant(mode), room(views, capacity), within(ctx), borrow(gradients))]
pub fn umbo_gradients_views(
    gradients: *mut umbo_gradients,
    ctx: *mut umbo_replica_context,
    mode: umbo_gradient_mode,
    capacity: i64,
    views: *mut umbo_view,
    count: *mut i64,
) {
    let all = gradients.variables().len();
    count.write(all as i64);
    if capacity < all as i64 {
        let problem = format!("{capacity}, but there are {all} variables");
        return Err(Error::out_of_range("capacity", problem));
    }
    gradients.check_views_in(ctx)?;
    for index in 0..all {
        let view = match gradients.is_row_sparse(index) {
            true => NO_VIEW,
            false => gradients.view_in(ctx, index, mode).map(view_to_write)?,
        };
        // SAFETY: the caller gives room for `capacity` views, which are as many or more.
        unsafe { views.add(index).write(view) };
    }
    Ok(())
}

constants! { GradientMode {
    UMBO_GRADIENT_OVERWRITE = GradientMode::Overwrite, UMBO_GRADIENT_ADD = GradientMode::Add,
} }

/// Adds rows to this replica's gradient of a row-sparse variable.
///
/// @param[in] ctx The replica's context.
/// @param[in] index The place of the variable among those that the gradients were made for.
/// @param[in] rows How many rows to add; 0 or more.
/// @param[out] indices Room for the numbers of the rows in the variable: int64, of shape [rows].
/// @param[out] values Room for their gradients: of the gradients' dtype, and of the variable's
///   shape with `rows` in place of the first dimension.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a negative number of rows.
/// - UMBO_STATUS_OUT_OF_RANGE: no such variable.
/// - UMBO_STATUS_FAILED_PRECONDITION: the variable is not row-sparse, or as for
///   umbo_gradients_view().
/// - UMBO_STATUS_CANCELLED: the run has returned without this replica.
///
/// Write all of both views before the replica submits; they contain old data before. They are on
/// the replica's device. A further call in the step adds further rows, and the earlier views stay
/// valid.
///
/// Rows may come in any order. A row may be named several times, in one call, in several calls or
/// by several replicas: its gradient is then the sum. Sums are in replica order, and for each
/// replica in the order in which it added the rows. So their bits do not depend on threads or
/// timing. Sums are then treated as the gradients of other variables are.
///
/// The update is *lazy*: it changes only the rows that were named and the optimizer's state for
/// them. So momentum and weight decay act on these rows only. Adam's t counts the updates of the
/// variable. An apply with LAMB is UMBO_STATUS_INVALID_ARGUMENT. A variable to which a replica adds
/// 0 rows counts as updated; one for which no replica makes this call does not.
///
/// Indices are checked by the call that submits, unless its weight is 0. An index that is no row of
/// the variable is UMBO_STATUS_OUT_OF_RANGE there.
///
/// Replicas call at the same time, and the call does not wait. It allocates nothing if an earlier
/// step had as many rows in as many calls.
#[c_call(out(indices), out(values), index(index), natural(rows), within(ctx), borrow(gradients))]
pub fn umbo_gradients_add_rows(
    gradients: *mut umbo_gradients,
    ctx: *mut umbo_replica_context,
    index: i64,
    rows: i64,
    indices: *mut umbo_view,
    values: *mut umbo_view,
) {
    let added = gradients.add_rows_in(ctx, index, rows)?;
    indices.write(view_to_write(&added.indices));
    values.write(view_to_write(&added.values));
}

/// Adds copies of indexed slices to a gradient.
///
/// @param[in] ctx The replica's context.
/// @param[in] index The place of the variable among those that the gradients were made for.
/// @param[in] slices Indexed slices of the gradients' dtype and the variable's shape. They stay the
///   caller's.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: another kind of value, or another dtype or shape.
/// - the others of umbo_gradients_add_rows().
///
/// The rows count as those of umbo_gradients_add_rows().
#[c_call(index(index), get(slices), within(ctx), borrow(gradients))]
pub fn umbo_gradients_add_indexed_slices(
    gradients: *mut umbo_gradients,
    ctx: *mut umbo_replica_context,
    index: i64,
    slices: *const umbo_value,
) {
    gradients.add_indexed_slices_in(ctx, index, slices_of(&slices, "slices")?)
}

/// Submits this replica's gradients, weighted by its number of examples.
///
/// @param[in] ctx The replica's context.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_FAILED_PRECONDITION: the run's arguments contain no per-replica value that tells
///   the number of examples (umbo_gradients_submit_weighted() takes a weight), the replica has
///   submitted already, or as for umbo_gradients_view().
/// - UMBO_STATUS_OUT_OF_RANGE: an index among the rows that this replica added is no row of its
///   variable. The replica has not submitted then.
/// - UMBO_STATUS_CANCELLED: the run has returned without this replica.
///
/// Each replica submits once in a step, after all of its gradients are written. The number of
/// examples is that of its part of the run's arguments. A replica without examples submits too;
/// what it wrote is not read. One that has examples, and has viewed, attached or added none of the
/// gradients in this step, submits zeros: the log gets a warning, once, and a strict strategy fails
/// with UMBO_STATUS_FAILED_PRECONDITION.
#[c_call(within(ctx), borrow(gradients))]
pub fn umbo_gradients_submit(gradients: *mut umbo_gradients, ctx: *mut umbo_replica_context) {
    gradients.submit_in(ctx, None)
}

/// Submits this replica's gradients with a given weight.
///
/// @param[in] ctx The replica's context.
/// @param[in] weight The weight of this replica; finite and 0 or more. With 0 nothing that this
///   replica wrote is read.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a weight that is negative or not finite.
/// - UMBO_STATUS_FAILED_PRECONDITION: the replica has submitted already, or as for
///   umbo_gradients_view().
/// - UMBO_STATUS_OUT_OF_RANGE: as for umbo_gradients_submit().
/// - UMBO_STATUS_CANCELLED: the run has returned without this replica.
#[c_call(within(ctx), borrow(gradients))]
pub fn umbo_gradients_submit_weighted(
    gradients: *mut umbo_gradients,
    ctx: *mut umbo_replica_context,
    weight: f64,
) {
    gradients.submit_in(ctx, Some(weight))
}
