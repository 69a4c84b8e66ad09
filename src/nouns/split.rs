//! Batches that a program has already, split over replicas.

use crate::machinery::prelude::*;
use umbo_core::input::{split_arrays_for, split_for};

/// Splits a global batch over the replicas.
///
/// @param[in] value A tensor or a nest of tensors; each is split along dimension 0, by its own
///   number of rows.
/// @param[out] per_replica The nest with per-replica values; with tensors if this process has one
///   replica.
/// @return UMBO_STATUS_INVALID_ARGUMENT: a leaf that is not a tensor, or a scalar for several
///   replicas.
///
/// Rows are split as umbo_strategy_distribute_dataset() splits them by default (UMBO_SPLIT_CEIL).
/// The parts are views of the batch, which must not be written while they are in use, and know how
/// many examples they hold; those of replicas on GPUs are copies that this call makes. With several
/// ranks the batch is the same on all, and each takes the parts of its replicas; a rank that has a
/// batch of its own uses umbo_strategy_values_from_function().
#[c_call(out(per_replica), get(strategy), get(value))]
pub fn umbo_strategy_split(
    strategy: *const umbo_strategy,
    value: *const umbo_value,
    per_replica: *mut *mut umbo_value,
) {
    per_replica.write(make(split_for(&strategy, &value)?)?);
}

/// Splits a batch in arrays of the program over the replicas, without a copy on processors.
///
/// @param[in] count How many arrays there are, 1 or more.
/// @param[in] names A name for each array, all different: the batch is a struct. `names` may be
///   NULL: the batch is a tuple or, of a single array, a tensor.
/// @param[in] views The arrays, all with the same size of dimension 0. umbo_view_of_memory() makes
///   the view of an array. They stay where they are until the batch and what was taken out of it
///   are released.
/// @param[out] per_replica As of umbo_strategy_split().
///
/// A program that fills the same arrays again for each batch splits them once: between two runs it
/// may write them, and replicas then see the new elements. Replicas on GPUs do not, since their
/// parts are copies: with GPUs it splits each batch.
#[c_call(
    counted(count),
    out(per_replica),
    get(strategy),
    optional_texts(names, count),
    array(views, count)
)]
pub fn umbo_strategy_split_arrays(
    strategy: *const umbo_strategy,
    count: i64,
    names: *const *const c_char,
    views: *const umbo_view,
    per_replica: *mut *mut umbo_value,
) {
    let lent = collect(
        views.iter().map(|view| {
            // SAFETY: the caller promises that the elements are where the views say, until nothing
            // is left of the batch.
            unsafe { tensor_over_view(view, "views", Box::new(())) }
        }),
        "views",
    )?;
    per_replica.write(make(split_arrays_for(&strategy, lent, names.as_deref())?)?);
}
