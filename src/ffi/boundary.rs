//! The border itself: no panic crosses it, every error becomes a status, and every pointer and
//! count that comes in is checked.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::slice;

pub(crate) use umbo_macros::c_call;

use super::callback::check_no_rule;
use super::handle;
use super::status::{self, UMBO_OK, umbo_status};
use crate::error::{Error, Result, memory};
use crate::executor::{fork, thread};
use crate::observe::log::{self, Level};

/// Runs the body of the C function of this name. An error becomes the thread's last error, with the
/// name in front of its message, and its status is returned; so does a panic, as INTERNAL. In the child
/// of a fork, and on a thread that has all but ended, the body does not run: it is dropped, with what it has
/// taken over, and the status is FAILED_PRECONDITION.
pub(crate) fn boundary(function: &'static str, body: impl FnOnce() -> Result<()>) -> umbo_status {
    let result = caught(|| {
        fork::check()?;
        thread::init_thread()?;
        check_no_rule()?;
        body()
    });
    match result {
        Ok(()) => UMBO_OK,
        Err(error) => status::set(function, error),
    }
}

/// Runs the body of a C function that returns nothing, such as a release. What is wrong with its
/// argument changes nothing and is logged; it does not become the last error, since nobody would
/// look there. In the child of a fork nothing is done and nothing said.
pub(crate) fn quietly(function: &'static str, body: impl FnOnce() -> Result<()>) {
    if fork::is_child() {
        return;
    }
    let result = caught(|| {
        // A thread that has all but ended can still release.
        let _ = thread::init_thread();
        body()
    });
    if let Err(error) = result {
        log::log(Level::Error, || error.named(function).to_string());
    }
}

fn caught(body: impl FnOnce() -> Result<()>) -> Result<()> {
    // Unwind safety: the core keeps its invariants by locks that are released and guards that
    // undo; whatever else a panic interrupted is not used again, since outputs are not written.
    panic::catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|payload| Err(Error::Internal(panic_text(payload.as_ref()))))
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("panic: {}", text.unwrap_or("no message"))
}

/// A place for an output that was checked, to be written when everything has succeeded.
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Writes the output.
    pub(crate) fn write(self, value: T) {
        // SAFETY: `out`'s caller promised that the pointer may be written until now, and it was
        // checked not to be null and to be aligned.
        unsafe { self.0.write(value) }
    }
}

/// Checks an output pointer.
///
/// # Safety
/// `pointer` is NULL or may be written as a `T` until the `Out` is used up.
pub(crate) unsafe fn out<T>(pointer: *mut T, argument: &'static str) -> Result<Out<T>> {
    check(pointer, argument, "a place for the output is expected")?;
    Ok(Out(pointer))
}

/// An array that comes in: `count` elements, which may be NULL if there are none. The caller knows their
/// number as `count`.
///
/// # Safety
/// `pointer` is NULL or leads to `count` initialised elements that nobody writes during `'a`.
pub(crate) unsafe fn array<'a, T>(
    pointer: *const T,
    count: i64,
    argument: &'static str,
) -> Result<&'a [T]> {
    // SAFETY: the caller's promise is the same.
    unsafe { array_of(pointer, (count, "count"), argument) }
}

/// As [`array`], where the caller knows the number of elements by another name.
///
/// # Safety
/// As for [`array`].
pub(crate) unsafe fn array_of<'a, T>(
    pointer: *const T,
    (count, counted_by): (i64, &'static str),
    argument: &'static str,
) -> Result<&'a [T]> {
    let elements = usize::try_from(count).map_err(|_| {
        let problem = format!("{count}; must be 0 or more, the number of elements of {argument}");
        Error::invalid(counted_by, problem)
    })?;
    if elements.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > isize::MAX as usize) {
        let problem = format!("{count}; {argument} of so many elements cannot be in memory");
        return Err(Error::invalid(counted_by, problem));
    }
    if elements == 0 {
        return Ok(&[]);
    }
    check(pointer, argument, "an array is expected")?;
    // SAFETY: the pointer is neither null nor misaligned, the size fits in memory, and the caller
    // promises that the elements are there.
    Ok(unsafe { slice::from_raw_parts(pointer, elements) })
}

/// Refuses NULL and misaligned pointers.
pub(crate) fn check<T>(
    pointer: *const T,
    argument: &'static str,
    expected: &'static str,
) -> Result<()> {
    if pointer.is_null() {
        return Err(Error::invalid(argument, format!("is NULL; {expected}")));
    }
    // No address is as large as a handle.
    if let Some(kind) = handle::kind_of(pointer.addr()) {
        return Err(Error::invalid(argument, format!("is {kind} handle itself; {expected}")));
    }
    if !pointer.is_aligned() {
        let align = align_of::<T>();
        let problem = format!("{pointer:p} is not a multiple of {align}, as its type asks");
        return Err(Error::invalid(argument, format!("{problem}; {expected}")));
    }
    Ok(())
}

/// A list as long as the caller's: RESOURCE_EXHAUSTED if there is no memory for it.
pub(crate) fn collect<T>(items: impl ExactSizeIterator<Item = Result<T>>) -> Result<Vec<T>> {
    memory::collect(items, "items")
}

/// The core's counterpart of an integer constant, or an error that lists the valid ones.
pub(crate) fn constant<T>(
    code: i32,
    found: Option<T>,
    argument: &'static str,
    valid: &'static str,
) -> Result<T> {
    found.ok_or_else(|| Error::invalid(argument, format!("{code}; valid are {valid}")))
}

/// A yes or no argument.
pub(crate) fn flag(code: i32, argument: &'static str) -> Result<bool> {
    constant(code, (0..=1).contains(&code).then_some(code == 1), argument, "0 (no) and 1 (yes)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::status::{UMBO_STATUS_INTERNAL, UMBO_STATUS_INVALID_ARGUMENT, last_message};

    #[test]
    fn a_panic_becomes_internal() {
        assert_eq!(boundary("tip", || panic!("the {} fell over", "cart")), UMBO_STATUS_INTERNAL);
        assert!(last_message().starts_with("tip: panic: the cart fell over"), "{}", last_message());
    }

    #[test]
    fn counts_and_pointers_are_checked() {
        let none = std::ptr::null::<i32>();
        // SAFETY: no element is promised, or the pointer is refused before it is used.
        unsafe {
            assert!(array(none, 0, "items").unwrap().is_empty());
            for (pointer, count) in [(none, 1i64), (none, -1), (&raw const COUNT, i64::MAX)] {
                let status = boundary("count", || array(pointer, count, "items").map(drop));
                assert_eq!(status, UMBO_STATUS_INVALID_ARGUMENT);
                assert!(last_message().contains("items"), "{}", last_message());
            }
            let misaligned = (&raw const COUNT).wrapping_byte_add(1);
            assert!(array(misaligned, 1, "items").is_err());
            assert!(out(std::ptr::null_mut::<i32>(), "out").is_err());
        }
    }

    static COUNT: i32 = 3;
}
