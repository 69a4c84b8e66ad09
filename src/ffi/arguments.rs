//! What C functions are given. Each function here checks one argument and converts it to what the core
//! takes. `#[c_call]` calls them by name, with the argument, with others that belong to it, such as the
//! number of elements of an array, and with the names of all, which an error says.

use std::ffi::c_char;
use std::slice;

use super::handle;
use super::object::{Opaque, umbo_dataset};
use crate::error::{Error, Result, memory};
use crate::input::Dataset;

pub(crate) use super::collective::reduction;
pub(crate) use super::constants::constant;
pub(crate) use super::device::device;
pub(crate) use super::dtype::{dtype, shape};
pub(crate) use super::element_spec::spec;
pub(crate) use super::handle::{borrow, get, get_optional};
pub(crate) use super::options::{optional_result, read as options, result, structure};
pub(crate) use super::replica_context::{context, within};
pub(crate) use super::run::optional_value;
pub(crate) use super::tensorflow::collective::destination;
pub(crate) use super::text::{buffer, long_text, optional_text, text};
pub(crate) use super::view::view;

/// A place for an output that was checked, to be written when everything has succeeded. That of an output
/// which the caller does not want is NULL.
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
    // SAFETY: the caller's promise is the same.
    if pointer.is_null() { Ok(Out(pointer)) } else { unsafe { out(pointer, argument) } }
}

/// An array that comes in: as many elements as the count says, which the caller knows by its name. It may be
/// NULL if there are none.
///
/// # Safety
/// `pointer` is NULL or leads to `count` initialised elements that nobody writes during `'a`.
pub(crate) unsafe fn array<'a, T>(
    pointer: *const T,
    (count, counted_by): (impl Into<i64>, &'static str),
    argument: &'static str,
) -> Result<&'a [T]> {
    let count = count.into();
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

/// As [`array`]; NULL is no array, however many elements it would have.
///
/// # Safety
/// As for [`array`].
pub(crate) unsafe fn optional_array<'a, T>(
    pointer: *const T,
    count: (impl Into<i64>, &'static str),
    argument: &'static str,
) -> Result<Option<&'a [T]>> {
    // SAFETY: the caller's promise is the same.
    (!pointer.is_null()).then(|| unsafe { array(pointer, count, argument) }).transpose()
}

/// Checks a place for as many elements as the capacity says. They are written one by one.
///
/// # Safety
/// `pointer` is NULL or leads to room for `capacity` elements.
pub(crate) unsafe fn room<T, C: PartialOrd + Default>(
    pointer: *mut T,
    (capacity, _): (C, &'static str),
    argument: &'static str,
) -> Result<*mut T> {
    if capacity > C::default() {
        check(pointer, argument, "room for as many elements as `capacity` says is expected")?;
    }
    Ok(pointer)
}

/// An array of texts.
///
/// # Safety
/// As for [`array`], and each element is NULL or leads to a text.
pub(crate) unsafe fn texts<'a>(
    pointer: *const *const c_char,
    count: (impl Into<i64>, &'static str),
    argument: &'static str,
) -> Result<Vec<&'a str>> {
    // SAFETY: the caller's promise is the same.
    collect(unsafe { array(pointer, count, argument)?.iter().map(|&one| text(one, argument)) })
}

/// As [`texts`]; NULL is none.
///
/// # Safety
/// As for [`texts`].
pub(crate) unsafe fn optional_texts<'a>(
    pointer: *const *const c_char,
    count: (impl Into<i64>, &'static str),
    argument: &'static str,
) -> Result<Option<Vec<&'a str>>> {
    // SAFETY: the caller's promise is the same.
    (!pointer.is_null()).then(|| unsafe { texts(pointer, count, argument) }).transpose()
}

/// A handle as C programs give it, also one to an object that is changed.
pub(crate) trait AsHandle: Copy {
    /// The C struct that stands for its object.
    type Opaque: Opaque;
    /// The handle.
    fn handle(self) -> *const Self::Opaque;
}

impl<H: Opaque> AsHandle for *const H {
    type Opaque = H;
    fn handle(self) -> *const H {
        self
    }
}

impl<H: Opaque> AsHandle for *mut H {
    type Opaque = H;
    fn handle(self) -> *const H {
        self
    }
}

/// The objects of an array of handles.
///
/// # Safety
/// As for [`array`].
pub(crate) unsafe fn handles<H: AsHandle>(
    pointer: *const H,
    count: (impl Into<i64>, &'static str),
    argument: &'static str,
) -> Result<Vec<<H::Opaque as Opaque>::Object>> {
    // SAFETY: the caller's promise is the same.
    let handles = unsafe { array(pointer, count, argument) }?;
    collect(handles.iter().map(|one| get(one.handle(), argument)))
}

/// Lets `body` make another dataset of the one whose handle is in a place, and puts the handle of that one
/// there. The one before is released. If anything fails, it stays.
///
/// # Safety
/// `place` is NULL or leads to a handle that may be written.
pub(crate) unsafe fn transforms(
    place: *mut *mut umbo_dataset,
    argument: &'static str,
    body: impl FnOnce(Dataset) -> Result<Dataset>,
) -> Result<()> {
    check(
        place,
        argument,
        "the address of the dataset's handle is expected, which gets the new one",
    )?;
    // SAFETY: it is not NULL, so it leads to a handle.
    let before = unsafe { place.read() };
    let object = get(before, argument)?;
    let handle = handle::reserve()?;
    let changed = body(object)?;
    handle::release(before, argument)?;
    Out(place).write(handle.make(changed));
    Ok(())
}

/// A yes or no.
pub(crate) fn flag(code: i32, argument: &'static str) -> Result<bool> {
    match code {
        0 | 1 => Ok(code == 1),
        _ => Err(Error::invalid(argument, format!("{code}; valid are 0 (no) and 1 (yes)"))),
    }
}

/// A number that is not negative.
pub(crate) fn natural<N: TryFrom<i64>>(
    number: impl Into<i64>,
    argument: &'static str,
) -> Result<N> {
    let number = number.into();
    let problem = || Error::invalid(argument, format!("{number}; must be 0 or more"));
    N::try_from(number).map_err(|_| problem())
}

/// A number of at least 1.
pub(crate) fn positive<N: TryFrom<i64>>(number: i64, argument: &'static str) -> Result<N> {
    let problem = || Error::invalid(argument, format!("{number}; must be 1 or more"));
    N::try_from(number).ok().filter(|_| number >= 1).ok_or_else(problem)
}

/// How many elements arrays have, of which there is at least one.
pub(crate) fn counted(count: i64, argument: &'static str) -> Result<i64> {
    let problem = || Error::invalid(argument, format!("{count}; 1 or more are expected"));
    Some(count).filter(|count| *count >= 1).ok_or_else(problem)
}

/// A place in a list.
pub(crate) fn index(index: i64, argument: &'static str) -> Result<usize> {
    let problem = || Error::out_of_range(argument, format!("{index}; indices are 0 or more"));
    usize::try_from(index).map_err(|_| problem())
}

/// What is at a place of a list of `count`, whose elements are called so.
pub(crate) fn at<T>(
    index: impl Into<i64>,
    argument: &'static str,
    (count, elements): (usize, &str),
    find: impl FnOnce(usize) -> Option<T>,
) -> Result<T> {
    let index = index.into();
    usize::try_from(index).ok().filter(|index| *index < count).and_then(find).ok_or_else(|| {
        Error::out_of_range(argument, format!("{index} is not in [0, {count}), {elements}"))
    })
}

/// A function of the program's that has to be there.
pub(crate) fn present<F>(function: Option<F>, argument: &'static str) -> Result<F> {
    function.ok_or_else(|| Error::invalid(argument, "is NULL; a function is expected"))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::boundary::boundary;
    use crate::ffi::status::{UMBO_STATUS_INVALID_ARGUMENT, last_message};

    #[test]
    fn counts_and_pointers_are_checked() {
        let none = std::ptr::null::<i32>();
        // SAFETY: no element is promised, or the pointer is refused before it is used.
        unsafe {
            assert!(array(none, (0, "count"), "items").unwrap().is_empty());
            for (pointer, count) in [(none, 1i64), (none, -1), (&raw const COUNT, i64::MAX)] {
                let status =
                    boundary("count", || array(pointer, (count, "count"), "items").map(drop));
                assert_eq!(status, UMBO_STATUS_INVALID_ARGUMENT);
                assert!(last_message().contains("items"), "{}", last_message());
            }
            let misaligned = (&raw const COUNT).wrapping_byte_add(1);
            assert!(array(misaligned, (1, "count"), "items").is_err());
            assert!(out(std::ptr::null_mut::<i32>(), "out").is_err());
        }
    }

    static COUNT: i32 = 3;
}
