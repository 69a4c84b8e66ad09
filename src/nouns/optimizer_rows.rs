//! Rows of variables that come and go: `umbo/expert.h`.

use crate::machinery::prelude::*;
use umbo_core::optimizer::state::rows::KeptRows;

/// Makes a variable with other rows of one, and puts it in that one's place in an optimizer: for
/// vocabularies that grow, tables whose entries expire, and sets of points.
///
/// @param[in] variable It keeps its value and its views until it is released, but optimizers refuse
///   it from now on.
/// @param[in] kept_count How many rows stay.
/// @param[in] kept_rows Their numbers, in their new order, each at most once. NULL: the first
///   `kept_count`.
/// @param[in] appended The rows after them: of the variable's dtype, and of its shape except for
///   the first dimension. NULL: none.
/// @param[out] changed Has the variable's name and properties, and replaces `variable`.
/// @return UMBO_OK, or as follows, and all is as before:
/// - UMBO_STATUS_OUT_OF_RANGE: a row that the variable does not have.
/// - UMBO_STATUS_FAILED_PRECONDITION: in a run, a merge call or umbo_optimizer_with_average();
///   while gradients that the optimizer has applied before hold runs that wait for an update; for a
///   variable that was replaced before, or lies in memory of the program's, as a trainer's do.
///
/// All that the optimizer keeps for a row (states and average) moves with it. The state of an
/// appended row is that before the first update, and its average is the row itself; how often the
/// variable was updated stays, and so does its group. Make new gradients: an apply of those of
/// `variable` fails. Add `changed` and them to a checkpoint by the same names, where they take the
/// place of those before; until then saving fails.
///
/// Collective: all ranks change the same rows, and rank 0's are appended.
#[c_call(
    out(changed),
    optional_array(kept_rows, kept_count),
    get_optional(appended),
    get(variable),
    get(optimizer)
)]
pub fn umbo_optimizer_change_rows(
    optimizer: *mut umbo_optimizer,
    variable: *const umbo_variable,
    kept_count: i64,
    kept_rows: *const i64,
    appended: *const umbo_tensor,
    changed: *mut *mut umbo_variable,
) {
    let kept = match kept_rows {
        Some(rows) => KeptRows::Numbered(rows),
        None => KeptRows::First(natural::<usize>(kept_count, "kept_count")?),
    };
    let handle = reserve()?;
    let made = optimizer.change_rows(&variable, kept, appended.as_ref())?;
    changed.write(handle.make(made));
}
