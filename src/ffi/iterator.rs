//! Iterators over datasets, plain or distributed.

use super::first_batch::next_noted;
use super::prelude::*;

/// Gets the next element of a pass, and waits until it is there.
///
/// @param[out] element The element. At the end of the pass, and in all later calls, it gets NULL.
/// @return UMBO_OK, also at the end of the pass, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: elements are not as a transformation or a spec needs them.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: no element is lost; the next call tries again.
/// - UMBO_STATUS_FAILED_PRECONDITION: a function that this iterator calls; more than 32 iterators
///   whose functions call each other; over a distributed dataset, a replica's callback or another
///   strategy's scope.
/// - Any other status of a function of the program or of a source of the dataset.
///
/// After a failure the next call continues after the element that failed. An element that
/// umbo_train_epoch() would repeat because a step has failed is passed over.
///
/// *Collective* over a distributed dataset whose ranks have data of their own: UMBO_SHARDING_OFF,
/// UMBO_SHARDING_FILE, or from a function.
#[c_call(out(element), get(iterator))]
pub fn umbo_iterator_next(iterator: *mut umbo_iterator, element: *mut *mut umbo_value) {
    let handle = reserve()?;
    let next = next_noted(&iterator)?;
    element.write(next.map_or(ptr::null_mut(), |next| handle.make(next)));
}

/// Gets the spec of the elements.
#[c_call(out(spec), get(iterator))]
pub fn umbo_iterator_element_spec(
    iterator: *const umbo_iterator,
    spec: *mut *mut umbo_element_spec,
) {
    spec.write(make(Arc::new(iterator.element_spec().clone()))?);
}

/// Starts a new pass from the beginning.
///
/// @return As umbo_iterator_next(), or UMBO_STATUS_FAILED_PRECONDITION: 1,048,576 resets without an
///   element, if elements are made ahead.
///
/// The iterator keeps its memory and threads. A shuffled dataset has another order, unless its
/// options say otherwise.
#[c_call(get(iterator))]
pub fn umbo_iterator_reset(iterator: *mut umbo_iterator) {
    iterator.reset()
}

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
/// Pipelines may differ in the seed of a shuffle, in what is made ahead, in parallel calls and in
/// the number of replicas. The elements that follow are those that followed the saved position,
/// also in later passes.
///
/// The library makes again what stages hold: the buffer of a shuffle, the batch that is being
/// re-split, a cache. It calls maps for these only; of a generator `begin`, `reset` as often as
/// before, and `next` for each element of the pass. It does not compare the data.
#[c_call(long_text(position), get(iterator))]
pub fn umbo_iterator_restore_position(iterator: *mut umbo_iterator, position: *const c_char) {
    iterator.restore_position(position)
}
