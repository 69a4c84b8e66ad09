//! Iterators over datasets, plain or distributed.

use std::ptr;
use std::sync::Arc;

use super::boundary::{boundary, out, quietly};
use super::handle::{self, get, make, reserve};
use super::object::{umbo_element_spec, umbo_iterator, umbo_value};
use super::status::umbo_status;

/// Gives the next element of a pass.
///
/// @param[in] iterator The iterator.
/// @param[out] element The element. Release it with umbo_value_release(). At the end of the pass it
///   gets NULL, and so it does in all later calls.
/// @return UMBO_OK, also at the end of the pass, or:
/// - UMBO_STATUS_FAILED_PRECONDITION: the call would wait for itself: it is made in a function that
///   this iterator calls, on whatever thread (of a generator, a map, the release of an element).
/// - UMBO_STATUS_FAILED_PRECONDITION: functions that iterators call would wait for each other, or
///   such calls lie in one another over more than 32 iterators.
/// - UMBO_STATUS_FAILED_PRECONDITION: the process is the child of a fork, and the iterator had
///   threads or another thread was using it.
/// - UMBO_STATUS_FAILED_PRECONDITION: the iterator is over a distributed dataset, and the call is
///   made in a replica's callback (an element is for all replicas) or in the scope of another
///   strategy.
/// - UMBO_STATUS_INVALID_ARGUMENT: elements are not as a transformation or a spec needs them, or
///   `iterator` is not a valid handle.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is no memory, thread or handle left. No element is lost;
///   the next call tries again.
/// - Any status with which a function of the program fails, or a source of the dataset.
///
/// The call waits until the element is there. Threads may share an iterator: each element goes to
/// one of them, in the order in which they ask. The library uses the memory of an element again
/// after the element, and all that was made from it, has been released. After a failure the program
/// may call again: the next call continues after the element that failed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_iterator_next(
    iterator: *mut umbo_iterator,
    element: *mut *mut umbo_value,
) -> umbo_status {
    boundary("umbo_iterator_next", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let element = unsafe { out(element, "element") }?;
        let handle = reserve()?;
        let next = get(iterator, "iterator")?.next()?;
        element.write(next.map_or(ptr::null_mut(), |next| handle.make(next)));
        Ok(())
    })
}

/// Gives the structure, dtypes and shapes of the elements.
///
/// @param[in] iterator The iterator.
/// @param[out] spec The spec, which is that of the dataset. Release it with
///   umbo_element_spec_release().
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: `iterator` is not a valid handle, or `spec` is a null pointer.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is no memory or no handle left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_iterator_element_spec(
    iterator: *const umbo_iterator,
    spec: *mut *mut umbo_element_spec,
) -> umbo_status {
    boundary("umbo_iterator_element_spec", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let spec = unsafe { out(spec, "spec") }?;
        spec.write(make(Arc::new(get(iterator, "iterator")?.element_spec().clone()))?);
        Ok(())
    })
}

/// Starts a new pass from the beginning.
///
/// @param[in] iterator The iterator.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_FAILED_PRECONDITION: for the causes that umbo_iterator_next() has.
/// - UMBO_STATUS_INVALID_ARGUMENT: `iterator` is not a valid handle.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is no memory.
/// - Any status with which a generator's function fails.
///
/// If the dataset is shuffled, the new pass has another order, unless the options of
/// umbo_dataset_shuffle() say otherwise. The iterator keeps its memory and its threads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_iterator_reset(iterator: *mut umbo_iterator) -> umbo_status {
    boundary("umbo_iterator_reset", || get(iterator, "iterator")?.reset())
}

/// Makes another handle to the same iterator.
///
/// @param[in] iterator The iterator.
/// @param[out] retained The other handle. Release it with umbo_iterator_release(); the first handle
///   stays as it is.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: `iterator` is not a valid handle, or `retained` is a null
///   pointer.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is no memory or no handle left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_iterator_retain(
    iterator: *const umbo_iterator,
    retained: *mut *mut umbo_iterator,
) -> umbo_status {
    boundary("umbo_iterator_retain", || {
        // SAFETY: the caller gives NULL or a place for the output.
        unsafe { handle::retain(iterator, "iterator", retained) }
    })
}

/// Releases a handle to an iterator.
///
/// @param[in] iterator The handle. NULL does nothing.
///
/// The release of the last handle stops the iterator's threads and waits for their end. There is
/// one exception: in a function that the iterator calls, it does not wait for a thread that waits
/// for this function; that thread ends by itself. A call that another thread makes at the same time
/// continues to its end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_iterator_release(iterator: *const umbo_iterator) {
    quietly("umbo_iterator_release", || handle::release(iterator, "iterator"));
}
