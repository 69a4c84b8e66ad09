//! Iterators over datasets, plain or distributed.

use crate::machinery::first_batch::next_noted;
use crate::machinery::prelude::*;

/// Gets a new handle to the next element of a pass, and waits until it is there.
///
/// @param[out] element The element. At the end of the pass it gets NULL, and so it does in all
///   later calls before umbo_iterator_reset() begins the next pass. A thread that gets NULL twice
///   in a row is warned: a loop over several epochs that never resets makes only the first.
/// @return UMBO_OK, also at the end of the pass, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: elements are not as a transformation or a spec needs them.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: no element is lost; the next call tries again.
/// - UMBO_STATUS_FAILED_PRECONDITION: a function that this iterator calls; more than 32 iterators
///   whose functions call each other; over a distributed dataset, a replica's callback or another
///   strategy's scope; in strict mode, the second NULL in a row.
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

/// Finds out whether the pass has ended, so that the next element can only come after
/// umbo_iterator_reset().
///
/// @param[out] has_ended 1: umbo_iterator_next() has given NULL, or umbo_train_epoch() has ended
///   the pass with `reset_iterator` 0. 0: it has not, even if no element is left.
/// @return As umbo_iterator_next().
#[c_call(out(has_ended), get(iterator))]
pub fn umbo_iterator_has_ended(iterator: *mut umbo_iterator, has_ended: *mut i32) {
    has_ended.write(iterator.has_ended()?.into());
}

/// Gets a new handle to the spec of the elements.
#[c_call(out(spec), get(iterator))]
pub fn umbo_iterator_element_spec(
    iterator: *const umbo_iterator,
    spec: *mut *mut umbo_element_spec,
) {
    spec.write(make(Arc::new(iterator.element_spec().clone()))?);
}

/// Starts a new pass from the beginning.
///
/// @return As umbo_iterator_next().
///
/// A loop over several epochs calls it at the end of each: the iterator stays at its end otherwise.
/// umbo_train_epoch() does it by itself.
///
/// The iterator keeps its memory and threads. If elements are made ahead, the function waits for
/// the one that is being made, and goes back to the element that was returned last: the new pass
/// does not depend on how many were made ahead. A shuffled dataset has another order, unless its
/// options say otherwise.
#[c_call(get(iterator))]
pub fn umbo_iterator_reset(iterator: *mut umbo_iterator) {
    iterator.reset()
}
