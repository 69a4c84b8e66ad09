//! Iterators over datasets, plain or distributed.

use super::first_batch::next_noted;
use super::prelude::*;

/// Gives the next element of a pass.
///
/// @param[out] element The element. Release it with umbo_value_release(). At the end of the pass it
///   gets NULL, and so it does in all later calls.
/// @return UMBO_OK, also at the end of the pass, or:
/// - UMBO_STATUS_FAILED_PRECONDITION: the call would wait for itself: it is made in a function that
///   this iterator calls, on whatever thread (of a generator, a map, the release of an element).
/// - UMBO_STATUS_FAILED_PRECONDITION: such calls of functions of iterators lie in one another over more than 32
///   iterators.
/// - UMBO_STATUS_FAILED_PRECONDITION: the iterator is over a distributed dataset, and the call is
///   made in a replica's callback (an element is for all replicas) or in the scope of another
///   strategy.
/// - UMBO_STATUS_INVALID_ARGUMENT: elements are not as a transformation or a spec needs them, or
///   `iterator` is not a valid handle.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is no memory, thread or handle left. No element is lost;
///   the next call tries again, also where a function of a map or of files returned it.
/// - Any other status with which a function of the program fails, or a source of the dataset.
///
/// The call waits until the element is there. Threads may share an iterator: each element goes to
/// one of them, in the order in which they ask. The library uses the memory of an element again
/// after the element, and all that was made from it, has been released. After a failure the program
/// may call again: the next call continues after the element that failed. An element that
/// umbo_train_epoch() would give to its next step again, because a step has failed, is passed over.
///
/// Over a distributed dataset whose ranks have data of their own (UMBO_SHARDING_OFF, UMBO_SHARDING_FILE, or
/// from a function) it is a call that all ranks make: it fails on all if it fails on one. Then
/// UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and UMBO_STATUS_UNAVAILABLE
/// for ranks that cannot meet any more.
#[c_call(out(element), get(iterator))]
pub fn umbo_iterator_next(iterator: *mut umbo_iterator, element: *mut *mut umbo_value) {
    let handle = reserve()?;
    let next = next_noted(&iterator)?;
    element.write(next.map_or(ptr::null_mut(), |next| handle.make(next)));
}

/// Gives the structure, dtypes and shapes of the elements.
///
/// @param[out] spec The spec, which is that of the dataset. Release it with
///   umbo_element_spec_release().
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `iterator` is not a valid handle, or `spec` is a null
///   pointer.
#[c_call(out(spec), get(iterator))]
pub fn umbo_iterator_element_spec(
    iterator: *const umbo_iterator,
    spec: *mut *mut umbo_element_spec,
) {
    spec.write(make(Arc::new(iterator.element_spec().clone()))?);
}

/// Starts a new pass from the beginning.
///
/// @return UMBO_OK, or:
/// - UMBO_STATUS_FAILED_PRECONDITION: for the causes that umbo_iterator_next() has.
/// - UMBO_STATUS_FAILED_PRECONDITION: the elements are made ahead, and the iterator was reset 1,048,576
///   times without being asked for an element.
/// - UMBO_STATUS_INVALID_ARGUMENT: `iterator` is not a valid handle.
/// - Any status with which a generator's function fails.
///
/// If the dataset is shuffled, the new pass has another order, unless the options of
/// umbo_dataset_shuffle() say otherwise. The iterator keeps its memory and its threads.
#[c_call(get(iterator))]
pub fn umbo_iterator_reset(iterator: *mut umbo_iterator) {
    iterator.reset()
}

/// Writes down the place of an iterator in its data.
///
/// @param[out] buffer The position, a text ended by a NUL. `buffer` may be NULL if `capacity` is 0.
/// @param[in] capacity The size of `buffer` in bytes.
/// @param[out] length The length of the text in bytes, without the NUL.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_OUT_OF_RANGE: `capacity` is too small. `buffer` is not written, but `length` is.
/// - UMBO_STATUS_FAILED_PRECONDITION: for the causes that umbo_iterator_next() has.
/// - UMBO_STATUS_INVALID_ARGUMENT: `iterator` is not a valid handle, or an output is a null pointer.
///
/// The place is behind the element that umbo_iterator_next() gave last, or behind its failure; but before an
/// element that umbo_train_epoch() gives again. What
/// the library has made ahead does not count. The text is JSON and can be kept in a file. It says of
/// which stages the pipeline consists and where each of them is. It does not contain the data. It is
/// short, unless many elements have failed.
#[c_call(out(length), buffer(buffer, capacity), get(iterator))]
pub fn umbo_iterator_save_position(
    iterator: *mut umbo_iterator,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) {
    buffer.write(&iterator.save_position()?, length)
}

/// Takes an iterator to a place in its data.
///
/// @param[in] iterator The iterator. It may be new or in use, and at any place.
/// @param[in] position The text that umbo_iterator_save_position() has written, for this iterator or
///   another one of the same pipeline, in this process or another.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: the position is of another pipeline; the message names the first
///   stage that differs. What does not matter: the seed of a shuffle, how many elements are made
///   ahead, how many calls of a map run at the same time, over how many replicas batches are split.
/// - UMBO_STATUS_INVALID_ARGUMENT: `position` is not the text of a position, is of another version, was
///   changed or damaged, or the data have become fewer.
/// - UMBO_STATUS_INVALID_ARGUMENT: `iterator` is not a valid handle, or `position` is a null pointer.
/// - UMBO_STATUS_FAILED_PRECONDITION: for the causes that umbo_iterator_next() has.
/// - Any status with which a function of the program fails, or a source of the dataset, where elements
///   are made again.
///
/// The elements that follow are those that followed where the position was saved, also in later passes
/// that umbo_iterator_reset() starts. A shuffle goes on with the seed of the position. Where a failure
/// is returned, the iterator stays where it was.
///
/// The library makes again what stages hold: the elements in the buffer of a shuffle, the batch that is
/// being cut anew, the elements of a cache. It calls the functions of maps for these, and for no other
/// elements. The functions of a generator are called for all elements of its present pass, since only
/// they know the way: `begin` first, then `reset` as often as before, then `next`. The library does
/// not compare the data themselves.
#[c_call(long_text(position), get(iterator))]
pub fn umbo_iterator_restore_position(iterator: *mut umbo_iterator, position: *const c_char) {
    iterator.restore_position(position)
}
