//! The positions of iterators in their data, as text.

use crate::machinery::prelude::*;

/// Writes down the position of an iterator, a JSON text that can be kept in a file.
///
/// @param[out] buffer The position. `buffer` may be NULL if `capacity` is 0.
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION, as for umbo_iterator_next().
///
/// The position is just after the element that umbo_iterator_next() gave last, or its failure, but
/// before an element that umbo_train_epoch() repeats. It does not contain the data.
#[c_call(out(length), buffer(buffer, capacity), get(iterator))]
pub fn umbo_iterator_save_position(
    iterator: *mut umbo_iterator,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) {
    buffer.write(&iterator.save_position()?, length)
}

/// Takes an iterator, new or in use, to a position.
///
/// @param[in] position The text, of any length, that umbo_iterator_save_position() wrote for an
///   iterator of the same pipeline, in this process or another.
/// @return As umbo_iterator_next(), and the iterator stays where it was, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a position of another pipeline (the message names the first
///   stage that differs) or another version, a damaged text, or data that have become fewer.
///
/// Pipelines may differ in the seed of a shuffle, in what is made ahead, in parallel calls and,
/// where whole batches are split over the replicas, in their number and in how they are split; a
/// dataset from a function gives each replica elements of its own, so that the numbers must be the
/// same. The elements that follow are those that followed the saved position, also in later passes.
///
/// The library makes again what stages hold, a batch that is being re-split or a cache, and what a
/// shuffle has taken in its round; a map right in front of a shuffle is called for the shuffle's
/// buffer only. Of a generator it calls `begin`, `reset` as often as before, and `next` for each
/// element of the pass. It does not compare the data.
#[c_call(long_text(position), get(iterator))]
pub fn umbo_iterator_restore_position(iterator: *mut umbo_iterator, position: *const c_char) {
    iterator.restore_position(position)
}
