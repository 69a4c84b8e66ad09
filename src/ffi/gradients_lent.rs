//! Gradients that lie in memory of the program's, and what a replica takes back.

use super::prelude::*;

/// Lets this replica's gradient of a variable stay in memory of the program: it is read from there,
/// without a copy, in place of the buffer of umbo_gradients_view().
///
/// @param[in] view All elements: of the variable's shape and the gradient's dtype, row-major, in
///   memory of the replica's device.
/// @param[in] destroy Gets `user_data` when nothing reads the elements any more. NULL: none.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: a view that does not fit.
///   UMBO_STATUS_NOT_FOUND: no such device. UMBO_STATUS_FAILED_PRECONDITION: also if the replica has
///   viewed or attached this gradient in this step (umbo_gradients_discard() takes that back).
///
/// The replica writes the elements until it submits. After that nobody writes them until `destroy`
/// is called: after the apply that uses the gradient, a run that fails, or a discard; at the latest
/// when a later step replaces it or the gradients end. The thread that runs or applies may call
/// `destroy` in that call; then it cannot run or change anything of this strategy.
#[c_call(gives(user_data, destroy), borrow(gradients), index(index), within(ctx))]
pub fn umbo_gradients_attach(
    gradients: *mut umbo_gradients,
    ctx: *mut umbo_replica_context,
    index: i64,
    view: *const umbo_view,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
) {
    // SAFETY: the caller gives NULL or a view whose elements are there until the user_data is dropped.
    let gradient = unsafe { tensor_over_view(view, "view", Box::new(user_data)) }?;
    gradients.attach_in(ctx, index, gradient)
}

/// Discards what this replica has contributed to a variable in this step, as if it had not viewed,
/// added or attached anything. It may do so again before it submits.
///
/// So a replica says that the step does not use a parameter. If no replica contributes to it, an
/// apply leaves the variable alone: no weight decay, no momentum. If others do, this one is zero.
#[c_call(borrow(gradients), index(index), within(ctx))]
pub fn umbo_gradients_discard(
    gradients: *mut umbo_gradients,
    ctx: *mut umbo_replica_context,
    index: i64,
) {
    gradients.discard_in(ctx, index)
}
