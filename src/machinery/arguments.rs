//! The arguments of C functions. Each function here checks one argument and converts it to what the
//! core takes. `#[c_call]` calls them by name, with the argument, with others that belong to it,
//! such as the number of elements of an array, and with the names of all, which an error says.

use std::ffi::c_char;
use std::path::Path;

use super::handle;
use super::object::{Opaque, umbo_dataset};
use umbo_core::error::{Result, memory};
use umbo_core::input::Dataset;

pub(crate) use super::constants::constant;
pub(crate) use super::handle::{borrow, get, get_optional};
pub(crate) use super::options::{optional_result, read as options, result, structure};
pub(crate) use super::pointers::{
    Count, Out, array, array_out, bytes_out, check, check_capacity, length, optional_array,
    optional_out, out,
};
pub(crate) use super::text::{buffer, long_text, optional_text, path, text};
pub(crate) use crate::nouns::collective::reduction;
pub(crate) use crate::nouns::device::device;
pub(crate) use crate::nouns::dtype::{dtype, shape};
pub(crate) use crate::nouns::element_spec::spec;
pub(crate) use crate::nouns::replica_context::{context, within};
pub(crate) use crate::nouns::run::optional_value;
use crate::nouns::special_numbers::described;
pub(crate) use crate::nouns::view::view;
pub(crate) use crate::tensorflow::collective::destination;

/// An array of texts.
///
/// # Safety
/// As for [`array`], and each element is NULL or leads to a text.
pub(crate) unsafe fn texts<'a>(
    pointer: *const *const c_char,
    count: Count<impl Into<i64>>,
    argument: &'static str,
) -> Result<Vec<&'a str>> {
    // SAFETY: the caller's promise is the same.
    let texts = unsafe { array(pointer, count, argument) }?.iter();
    // SAFETY: the caller promises that each element is NULL or leads to a text.
    collect(texts.map(|&one| unsafe { text(one, argument) }), argument)
}

/// An array of paths.
///
/// # Safety
/// As for [`texts`].
pub(crate) unsafe fn paths<'a>(
    pointer: *const *const c_char,
    count: Count<impl Into<i64>>,
    argument: &'static str,
) -> Result<Vec<&'a Path>> {
    // SAFETY: the caller's promise is the same.
    let paths = unsafe { array(pointer, count, argument) }?.iter();
    // SAFETY: the caller promises that each element is NULL or leads to a text.
    collect(paths.map(|&one| unsafe { path(one, argument) }), argument)
}

/// As [`texts`]; NULL is none.
///
/// # Safety
/// As for [`texts`].
pub(crate) unsafe fn optional_texts<'a>(
    pointer: *const *const c_char,
    count: Count<impl Into<i64>>,
    argument: &'static str,
) -> Result<Option<Vec<&'a str>>> {
    // SAFETY: the caller's promise is the same.
    (!pointer.is_null())
        .then(|| unsafe { texts(pointer, count, argument) })
        .transpose()
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
    count: Count<impl Into<i64>>,
    argument: &'static str,
) -> Result<Vec<<H::Opaque as Opaque>::Object>> {
    // SAFETY: the caller's promise is the same.
    let handles = unsafe { array(pointer, count, argument) }?;
    let objects = handles.iter().enumerate().map(|(index, one)| {
        let handle = one.handle();
        if handle.is_null() {
            let expected = <H::Opaque as Opaque>::KIND.name();
            return Err(invalid!(
                format!("{argument}[{index}]"),
                "is NULL; {expected} is expected"
            ));
        }
        get(handle, argument)
    });
    collect(objects, argument)
}

/// Replaces the dataset behind `*handle` by the one that `body` makes of it, and puts the handle of
/// that one there. The one before is released. If anything fails, it stays.
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
    // SAFETY: it was checked, and the caller promises that it may be written.
    unsafe { place.write(handle.make(changed)) };
    Ok(())
}

/// A yes or no.
pub(crate) fn flag(code: i32, argument: &'static str) -> Result<bool> {
    match code {
        0 | 1 => Ok(code == 1),
        _ => Err(invalid!(argument, "{code}; valid are 0 (no) and 1 (yes)")),
    }
}

/// A number that is not negative.
pub(crate) fn natural<N: TryFrom<i64>>(
    number: impl Into<i64>,
    argument: &'static str,
) -> Result<N> {
    let number = number.into();
    let problem = || invalid!(argument, "{}; must be 0 or more", described(number));
    N::try_from(number)
        .ok()
        .filter(|_| number >= 0)
        .ok_or_else(problem)
}

/// A number of at least 1.
pub(crate) fn positive<N: TryFrom<i64>>(number: i64, argument: &'static str) -> Result<N> {
    let problem = || invalid!(argument, "{}; must be 1 or more", described(number));
    N::try_from(number)
        .ok()
        .filter(|_| number >= 1)
        .ok_or_else(problem)
}

/// How many elements arrays have, of which there is at least one.
pub(crate) fn counted(count: i64, argument: &'static str) -> Result<i64> {
    let problem = || invalid!(argument, "{}; 1 or more are expected", described(count));
    Some(count).filter(|count| *count >= 1).ok_or_else(problem)
}

/// A place in a list.
pub(crate) fn index(index: i64, argument: &'static str) -> Result<usize> {
    let problem = || out_of_range!(argument, "{}; indices are 0 or more", described(index));
    usize::try_from(index).map_err(|_| problem())
}

/// A list of the library's in which a caller asks for an element.
#[derive(Clone, Copy)]
pub(crate) struct Listed<'a> {
    /// How many elements it has.
    pub(crate) count: usize,
    /// The elements in a message, such as `the replicas`.
    pub(crate) elements: &'a str,
}

/// The element at a position of a list.
pub(crate) fn at<T>(
    index: impl Into<i64>,
    argument: &'static str,
    list: Listed<'_>,
    find: impl FnOnce(usize) -> Option<T>,
) -> Result<T> {
    let index = index.into();
    usize::try_from(index)
        .ok()
        .filter(|index| *index < list.count)
        .and_then(find)
        .ok_or_else(|| {
            let Listed { count, elements } = list;
            out_of_range!(
                argument,
                "{} is not in [0, {count}), {elements}",
                described(index)
            )
        })
}

/// A function of the program's that has to be there.
pub(crate) fn present<F>(function: Option<F>, argument: &'static str) -> Result<F> {
    function.ok_or_else(|| invalid!(argument, "is NULL; a function is expected"))
}

/// A list as long as the caller's array `argument`: RESOURCE_EXHAUSTED if there is no memory for
/// it.
pub(crate) fn collect<T>(
    items: impl ExactSizeIterator<Item = Result<T>>,
    argument: &'static str,
) -> Result<Vec<T>> {
    memory::collect(items, format_args!("elements of {argument}"))
}
