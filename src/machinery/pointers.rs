//! Pointers that C functions are given: to places for outputs, and to arrays.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::slice;

use super::handle;
use umbo_core::error::{Error, Result};

/// A place for an output that was checked, to be written when everything has succeeded. That of an
/// output which the caller does not want is NULL.
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Writes the output.
    pub(crate) fn write(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: `out`'s caller promised that the pointer may be written until now, and it was
            // checked to be aligned.
            unsafe { self.0.write(value) }
        }
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

/// As [`out`], for an output that the caller may not want.
///
/// # Safety
/// As for [`out`].
pub(crate) unsafe fn optional_out<T>(pointer: *mut T, argument: &'static str) -> Result<Out<T>> {
    if pointer.is_null() {
        return Ok(Out(pointer));
    }
    // SAFETY: the caller's promise is the same.
    unsafe { out(pointer, argument) }
}

/// The number of elements of an array, or the number of those that there is room for.
#[derive(Clone, Copy)]
pub(crate) struct Count<N> {
    /// The number.
    pub(crate) number: N,
    /// The argument that gives it.
    pub(crate) argument: &'static str,
}

impl<N> Count<N> {
    pub(crate) fn new(number: N, argument: &'static str) -> Count<N> {
        Count { number, argument }
    }
}

/// An array that comes in: as many elements as the count says. It may be NULL if there are none.
///
/// # Safety
/// `pointer` is NULL or leads to `count` initialised elements that nobody writes during `'a`.
pub(crate) unsafe fn array<'a, T>(
    pointer: *const T,
    count: Count<impl Into<i64>>,
    argument: &'static str,
) -> Result<&'a [T]> {
    let elements = length::<T>(count, argument)?;
    if elements == 0 {
        return Ok(&[]);
    }
    check(pointer, argument, "an array is expected")?;
    // SAFETY: the pointer is neither null nor misaligned, the size fits in memory, and the caller
    // promises that the elements are there.
    Ok(unsafe { slice::from_raw_parts(pointer, elements) })
}

/// The number of elements of an array of `T`. It is not so large that no memory could have them.
pub(crate) fn length<T>(count: Count<impl Into<i64>>, argument: &'static str) -> Result<usize> {
    let number = count.number.into();
    let elements = usize::try_from(number).map_err(|_| {
        let problem = format!("{number}; must be 0 or more, the number of elements of {argument}");
        Error::invalid(count.argument, problem)
    })?;
    if elements
        .checked_mul(size_of::<T>())
        .is_none_or(|bytes| bytes > isize::MAX as usize)
    {
        let problem = format!("{number}; {argument} of so many elements cannot be in memory");
        return Err(Error::invalid(count.argument, problem));
    }
    Ok(elements)
}

/// As [`array`]; NULL is not an array, however many elements it would have.
///
/// # Safety
/// As for [`array`].
pub(crate) unsafe fn optional_array<'a, T>(
    pointer: *const T,
    count: Count<impl Into<i64>>,
    argument: &'static str,
) -> Result<Option<&'a [T]>> {
    // SAFETY: the caller's promise is the same.
    (!pointer.is_null())
        .then(|| unsafe { array(pointer, count, argument) })
        .transpose()
}

/// Checks a place for as many elements as the capacity says. They are written one by one.
///
/// # Safety
/// `pointer` is NULL or leads to room for `capacity` elements.
pub(crate) unsafe fn array_out<T, C: PartialOrd + Default>(
    pointer: *mut T,
    capacity: Count<C>,
    argument: &'static str,
) -> Result<*mut T> {
    if capacity.number > C::default() {
        check(
            pointer,
            argument,
            "room for as many elements as `capacity` says is expected",
        )?;
    }
    Ok(pointer)
}

/// Room for bytes that go out, which may hold anything before. It was checked by [`array_out`].
///
/// # Safety
/// `pointer` is NULL or leads to `capacity` bytes that nobody else uses during `'a`.
pub(crate) unsafe fn bytes_out<'a>(
    pointer: *mut c_void,
    capacity: usize,
    argument: &'static str,
) -> Result<&'a mut [MaybeUninit<u8>]> {
    let capacity = length::<u8>(Count::new(capacity as i64, argument), "data")?;
    if capacity == 0 {
        return Ok(&mut []);
    }
    // SAFETY: the caller promises as many bytes, and nothing is expected to be in them.
    Ok(unsafe { slice::from_raw_parts_mut(pointer.cast(), capacity) })
}

/// Refuses room for fewer bytes than there are to write.
pub(crate) fn check_capacity(size: usize, capacity: usize) -> Result<()> {
    if size <= capacity {
        return Ok(());
    }
    let problem = format!("{capacity} bytes; the checkpoint takes {size}");
    Err(Error::out_of_range("capacity", problem))
}

/// Refuses NULL and misaligned pointers.
pub(crate) fn check<T>(
    pointer: *const T,
    argument: &'static str,
    expected: &'static str,
) -> Result<()> {
    if pointer.is_null() || handle::kind_of(pointer.addr()).is_some() || !pointer.is_aligned() {
        return Err(refused(pointer.addr(), align_of::<T>(), argument, expected));
    }
    Ok(())
}

/// The error for such a pointer to what has this alignment.
#[cold]
fn refused(address: usize, align: usize, argument: &'static str, expected: &str) -> Error {
    if address == 0 {
        return invalid!(argument, "is NULL; {expected}");
    }
    // No address is as large as a handle.
    if let Some(kind) = handle::kind_of(address) {
        return invalid!(argument, "is {kind} handle itself; {expected}");
    }
    let problem = format!("{address:#x} is not a multiple of {align}, as its type asks");
    invalid!(argument, "{problem}; {expected}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machinery::boundary::boundary;
    use crate::machinery::status::{UMBO_STATUS_INVALID_ARGUMENT, last_message};

    #[test]
    fn counts_and_pointers_are_checked() {
        let none = std::ptr::null::<i32>();
        // SAFETY: no element is promised, or the pointer is refused before it is used.
        unsafe {
            assert!(
                array(none, Count::new(0, "count"), "items")
                    .unwrap()
                    .is_empty()
            );
            for (pointer, count) in [(none, 1i64), (none, -1), (&raw const COUNT, i64::MAX)] {
                let status = boundary("count", || {
                    array(pointer, Count::new(count, "count"), "items").map(drop)
                });
                assert_eq!(status, UMBO_STATUS_INVALID_ARGUMENT);
                assert!(last_message().contains("items"), "{}", last_message());
            }
            let misaligned = (&raw const COUNT).wrapping_byte_add(1);
            assert!(array(misaligned, Count::new(1, "count"), "items").is_err());
            assert!(out(std::ptr::null_mut::<i32>(), "out").is_err());
        }
    }

    static COUNT: i32 = 3;
}
