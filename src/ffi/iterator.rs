//! Iterators over datasets, plain or distributed.

use std::ptr;
use std::sync::Arc;

use super::boundary::{boundary, out, quietly};
use super::handle::{self, get, make, reserve};
use super::object::{umbo_element_spec, umbo_iterator, umbo_value};
use super::status::umbo_status;

/// The next element, which the caller releases; NULL at the end of the pass and ever after.
///
/// Waits until the element is there. Threads may share an iterator; each element goes to one of
/// them, in the order in which they ask. The memory of an element that was released, with all that
/// was made from it, serves a later one. After an error the call may be repeated and goes on behind
/// what failed.
///
/// FAILED_PRECONDITION: in a function that this iterator has called, on whatever thread (of a
/// generator, a map, the release of an element), since the call would wait for itself; where
/// functions of several iterators would wait for each other; in the child of a fork, if the iterator
/// had threads or another thread was in it; for an iterator over a distributed dataset inside of a
/// replica's callback, since an element is for all replicas, and in the scope of another strategy.
/// RESOURCE_EXHAUSTED: no memory or no thread; nothing is lost, and the next call tries again.
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

/// The structure, dtypes and shapes of the elements, which the caller releases: those of the
/// dataset.
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

/// Starts a new pass from the beginning, in another order if the dataset is shuffled. What the
/// iterator has allocated is used again. FAILED_PRECONDITION as for umbo_iterator_next().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_iterator_reset(iterator: *mut umbo_iterator) -> umbo_status {
    boundary("umbo_iterator_reset", || get(iterator, "iterator")?.reset())
}

/// Another handle to the same object, to be released like the first; also of what a callback was
/// only lent, which then stays.
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

/// Releases a reference; the last one stops and joins the iterator's threads, if it has any. In a
/// function that the iterator has called it does not wait for a thread that waits for that function;
/// the thread ends by itself. A call that another thread is in goes on to its end. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_iterator_release(iterator: *const umbo_iterator) {
    quietly("umbo_iterator_release", || handle::release(iterator, "iterator"));
}
