//! Gradients that lie in memory of the program's, and what a replica takes back.

use super::prelude::*;

/// Lets a gradient stay where the program has it: this replica's gradient of a variable is read from the
/// memory of `view`, without a copy, instead of from the buffer that umbo_gradients_view() gives.
///
/// @param[in] ctx The replica's context.
/// @param[in] index The place of the variable among those that the gradients were made for.
/// @param[in] view All elements of the gradient: of the variable's shape, of the gradients' dtype
///   (`dtype` of umbo_gradient_info), in row-major order, in the memory of the replica's device.
/// @param[in] user_data What `destroy` is given.
/// @param[in] destroy Releases the memory, exactly once, on any thread, also if this function fails.
///   NULL: nothing to release.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a view of another dtype, shape, order of elements or device; the message
///   says which.
/// - UMBO_STATUS_OUT_OF_RANGE: no such variable.
/// - UMBO_STATUS_NOT_FOUND: the view's device does not exist.
/// - UMBO_STATUS_FAILED_PRECONDITION: the replica has viewed or attached this gradient in this step
///   already (umbo_gradients_withdraw() takes that back), or as for umbo_gradients_view().
/// - UMBO_STATUS_CANCELLED: the run has returned without this replica.
///
/// The replica may write the elements until it submits. From then on nobody writes them until the library
/// calls `destroy`. It does so when nothing reads them any more: after the apply that uses the gradient
/// up (or adds it to those of earlier runs), after a run that fails, when the replica withdraws it, at the
/// latest when a later step replaces it or the gradients are released. `destroy` may then be called by the
/// thread that runs or applies, in the middle of that call: it can use the library, but can't run or
/// change anything of this strategy.
///
/// On a GPU replica the memory is that of its GPU; what the callback has queued there when it returns is
/// waited for, as always.
#[c_call(gives(user_data, destroy), get(gradients), index(index), within(ctx))]
pub fn umbo_gradients_attach(
    gradients: *mut umbo_gradients,
    ctx: *mut umbo_replica_context,
    index: i64,
    view: *const umbo_view,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
) {
    // The gradients are not borrowed: what an earlier step has lent is let go of here, and may release them.
    // SAFETY: the caller gives NULL or a view whose elements are there until the user_data is dropped.
    let gradient = unsafe { tensor_over_view(view, "view", Box::new(user_data)) }?;
    gradients.attach_in(ctx, index, gradient)
}

/// Takes back what this replica has contributed to a variable in this step: the buffer that it viewed, the
/// rows that it added or the memory that it attached count no more, as if it had not touched them.
///
/// @param[in] ctx The replica's context.
/// @param[in] index The place of the variable among those that the gradients were made for.
/// @return UMBO_OK, also if there is nothing to take back, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
/// - UMBO_STATUS_OUT_OF_RANGE: no such variable.
/// - UMBO_STATUS_FAILED_PRECONDITION, UMBO_STATUS_CANCELLED: as for umbo_gradients_view().
///
/// This is how a replica says that the step does not use a parameter. If no replica contributes to a
/// variable, an apply leaves it alone: no weight decay, no momentum, and the optimizer's state for it
/// stays. If others do contribute, this replica counts as zero. What was attached is given to its
/// `destroy`. The replica may view, add or attach again before it submits.
#[c_call(get(gradients), index(index), within(ctx))]
pub fn umbo_gradients_withdraw(
    gradients: *mut umbo_gradients,
    ctx: *mut umbo_replica_context,
    index: i64,
) {
    gradients.withdraw_in(ctx, index)
}
