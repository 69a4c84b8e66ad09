//! The gradients that replicas write or lend, and how they submit them: `umbo/gradients.h`.

use crate::machinery::prelude::*;
use umbo_core::optimizer::GradientMode;

/// The use that a replica makes of its gradient buffer.
pub type umbo_gradient_mode = i32;

/// It writes every element. The buffer contains old data before.
pub const UMBO_GRADIENT_OVERWRITE: umbo_gradient_mode = 701;
/// It adds to the elements, which are zero when it first views the buffer in a step. Each addition
/// is rounded to the buffer's type: in float16 2048 + 1 is 2048. A callback that adds often to
/// 16-bit floats adds in memory of its own and converts the sum (umbo_dtype_convert_from_float()).
pub const UMBO_GRADIENT_ADD: umbo_gradient_mode = 702;

/// Gets this replica's buffer for the gradient of a variable, to be written until it submits.
///
/// @param[out] view Of the variable's shape, on the replica's device; at the same address in every
///   step. To leave a gradient in memory of the program: umbo_gradients_attach().
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: also if the variable is row-sparse.
///
/// If a replica does not view a variable in a step, its gradient is zero. If no replica does, the
/// variable is not updated. Allocates nothing.
#[c_call(
    out(view),
    index(index),
    constant(mode),
    within(ctx),
    borrow(gradients)
)]
pub fn umbo_gradients_view(
    gradients: *mut umbo_gradients,
    ctx: *mut umbo_replica_context,
    index: i64,
    mode: umbo_gradient_mode,
    view: *mut umbo_view,
) {
    view.write(gradients.view_in(ctx, index, mode).map(view_to_write)?);
}

/// Gets this replica's buffers for the gradients of all variables, in their order.
///
/// @param[in] mode Of all buffers.
/// @param[in] count The number of variables, all of which get a view.
/// @param[out] views A row-sparse variable has no buffer: its view's `mutable_data` is NULL.
///
/// It does what umbo_gradients_view() does for each variable, or nothing if it fails.
#[c_call(
    constant(mode),
    array_out(views, count),
    within(ctx),
    borrow(gradients)
)]
pub fn umbo_gradients_views(
    gradients: *mut umbo_gradients,
    ctx: *mut umbo_replica_context,
    mode: umbo_gradient_mode,
    count: i64,
    views: *mut umbo_view,
) {
    let all = gradients.variables().len();
    if count != all as i64 {
        return Err(invalid!(
            "count",
            "{count}; must be {all}, as many as the gradients have variables"
        ));
    }
    let (replica, step) = gradients.join_current_step(ctx)?;
    gradients.check_views(replica, step)?;
    for index in 0..all {
        let view = match gradients.is_row_sparse(index) {
            true => NO_VIEW,
            false => gradients
                .view(replica, step, index, mode)
                .map(view_to_write)?,
        };
        // SAFETY: the caller gives room for `count` views, which is `all`.
        unsafe { views.add(index).write(view) };
    }
    Ok(())
}

constants! { GradientMode { UMBO_GRADIENT_OVERWRITE = Overwrite, UMBO_GRADIENT_ADD = Add } }

/// Adds rows to this replica's gradient of a row-sparse variable.
///
/// @param[out] indices Room for the numbers of the rows in the variable: int64, [row_count].
/// @param[out] values Room for their gradients: of the variable's shape, with `row_count` in place
///   of the first dimension. Both views contain old data; write all of them before submitting.
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: also if the variable is not row-sparse.
///
/// Rows come in any order, in one call or several. The gradient of a row that is named several
/// times is the sum, in replica order and the order of the calls, so that its bits do not depend on
/// timing. Indices are checked by the call that submits. Allocates nothing if an earlier step had
/// as many rows in as many calls.
///
/// The update is *lazy*: it changes only the rows that were named and the optimizer's state for
/// them, so momentum and weight decay act on these rows only. LAMB, LARS, Muon and Adafactor
/// cannot update rows. 0 rows count as an update of the variable.
#[c_call(
    out(indices),
    out(values),
    index(index),
    natural(row_count),
    within(ctx),
    borrow(gradients)
)]
pub fn umbo_gradients_add_rows(
    gradients: *mut umbo_gradients,
    ctx: *mut umbo_replica_context,
    index: i64,
    row_count: i64,
    indices: *mut umbo_view,
    values: *mut umbo_view,
) {
    let added = gradients.add_rows_in(ctx, index, row_count)?;
    indices.write(view_to_write(&added.indices));
    values.write(view_to_write(&added.values));
}

/// Adds copies of the rows of indexed slices, as umbo_gradients_add_rows() does.
///
/// @param[in] slices Indexed slices of the gradient's dtype and the variable's shape.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: another kind of value, dtype or shape.
#[c_call(index(index), get(slices), within(ctx), borrow(gradients))]
pub fn umbo_gradients_add_indexed_slices(
    gradients: *mut umbo_gradients,
    ctx: *mut umbo_replica_context,
    index: i64,
    slices: *const umbo_value,
) {
    let (replica, step) = gradients.join_current_step(ctx)?;
    gradients.add_indexed_slices(replica, step, index, slices_of(&slices, "slices")?)
}

/// Submits this replica's gradients, weighted by its number of examples: once in a step, when all
/// are written.
///
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: also if the run's arguments do not contain
///   the number of examples. UMBO_STATUS_OUT_OF_RANGE: a row that the variable does not have; the
///   replica has not submitted then.
///
/// A replica without examples submits too; what it wrote is not read. One that has examples and has
/// written no gradient submits zeros: the log gets a warning, once, and a strict strategy fails.
#[c_call(within(ctx), borrow(gradients))]
pub fn umbo_gradients_submit(gradients: *mut umbo_gradients, ctx: *mut umbo_replica_context) {
    gradients.submit_in(ctx, None)
}

/// Submits this replica's gradients with a weight of its own.
///
/// @param[in] weight Finite and 0 or more. With 0 nothing that this replica wrote is read.
/// @return As umbo_gradients_submit().
#[c_call(within(ctx), borrow(gradients))]
pub fn umbo_gradients_submit_weighted(
    gradients: *mut umbo_gradients,
    ctx: *mut umbo_replica_context,
    weight: f64,
) {
    gradients.submit_in(ctx, Some(weight))
}

/// Attaches memory of the program as this replica's gradient of a variable: it is read from there,
/// without a copy, in place of the buffer of umbo_gradients_view().
///
/// @param[in] view All elements: of the variable's shape and the gradient's dtype, row-major, in
///   memory of the replica's device.
/// @param[in] destroy Gets `user_data` when nothing reads the elements any more. NULL: none.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: a view that does not fit.
///   UMBO_STATUS_NOT_FOUND: no such device. UMBO_STATUS_FAILED_PRECONDITION: also if the replica
///   has viewed or attached this gradient in this step (umbo_gradients_discard() takes that back).
///
/// The replica writes the elements until it submits. After that nobody writes them until `destroy`
/// is called: after the apply that uses the gradient, a run that fails, or a discard; at the latest
/// when a later step replaces it or the gradients end. The thread that runs or applies may call
/// `destroy` in that call; then it cannot run or change anything of this strategy.
#[c_call(
    owned(user_data, destroy),
    borrow(gradients),
    index(index),
    within(ctx)
)]
pub fn umbo_gradients_attach(
    gradients: *mut umbo_gradients,
    ctx: *mut umbo_replica_context,
    index: i64,
    view: *const umbo_view,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
) {
    // SAFETY: the caller gives NULL or a view whose elements are there until the user_data is
    // dropped.
    let gradient = unsafe { tensor_over_view(view, "view", Box::new(user_data)) }?;
    gradients.attach_in(ctx, index, gradient)
}

/// Discards what this replica has contributed to a variable in this step, as if it had not viewed,
/// added or attached anything. It may do so again before it submits.
///
/// The declaration of a replica that the step does not use a parameter. If no replica contributes
/// to it, an apply leaves the variable alone: no weight decay, no momentum. If others do, this one
/// is zero.
#[c_call(borrow(gradients), index(index), within(ctx))]
pub fn umbo_gradients_discard(
    gradients: *mut umbo_gradients,
    ctx: *mut umbo_replica_context,
    index: i64,
) {
    gradients.discard_in(ctx, index)
}
