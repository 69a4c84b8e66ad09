//! Texts and paths that C gives, and room for those that it gets, ended by a NUL. Texts are UTF-8;
//! paths are bytes.

use std::ffi::{CStr, c_char};
use std::path::Path;
use std::ptr;

use super::pointers::{Count, Out, check};
use umbo_core::error::{Error, Result};
use umbo_core::system::names;

/// The longest text that comes in, in bytes: as long as the longest path of the system. Copies and
/// messages that contain it are small then, so that there is always memory for them.
pub(crate) const LONGEST: usize = 4095;

/// A text argument of at most `LONGEST` bytes.
///
/// # Safety
/// `pointer` is NULL or leads to characters ended by a NUL that nobody writes during `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, argument: &'static str) -> Result<&'a str> {
    // SAFETY: the caller's promise is the same.
    let text = unsafe { long_text(pointer, argument) }?;
    check_length(text.len(), argument)?;
    Ok(text)
}

fn check_length(bytes: usize, argument: &'static str) -> Result<()> {
    match bytes <= LONGEST {
        true => Ok(()),
        false => Err(invalid!(
            argument,
            "has {bytes} bytes; at most {LONGEST} are expected"
        )),
    }
}

/// The path of a file, of at most `LONGEST` bytes. It need not be a text: on Unix, names are bytes.
/// On Windows it is UTF-8.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn path<'a>(pointer: *const c_char, argument: &'static str) -> Result<&'a Path> {
    check(pointer, argument, "a text is expected")?;
    // SAFETY: the pointer is not null, and the caller promises the rest.
    let bytes = unsafe { CStr::from_ptr(pointer) }.to_bytes();
    check_length(bytes.len(), argument)?;
    let name = names::from_bytes(bytes);
    name.map(Path::new).ok_or_else(|| {
        invalid!(
            argument,
            "the path '{}' is not UTF-8, as all paths are on this system",
            bytes.escape_ascii()
        )
    })
}

/// A text argument of any length.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn long_text<'a>(
    pointer: *const c_char,
    argument: &'static str,
) -> Result<&'a str> {
    check(pointer, argument, "a text is expected")?;
    // SAFETY: the pointer is not null, and the caller promises the rest.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|error| {
        let position = error.valid_up_to();
        invalid!(argument, "is not UTF-8 from byte {position} on")
    })
}

/// A text argument that may be NULL.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn optional_text<'a>(
    pointer: *const c_char,
    argument: &'static str,
) -> Result<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise is the same.
    unsafe { text(pointer, argument) }.map(Some)
}

/// Room for a text that goes out.
pub(crate) struct TextBuffer {
    start: *mut c_char,
    capacity: usize,
}

/// Checks room for a text.
///
/// # Safety
/// `capacity` bytes from `start` on may be written until the `TextBuffer` is used up; NULL goes
/// with none.
pub(crate) unsafe fn buffer(
    start: *mut c_char,
    capacity: Count<usize>,
    argument: &'static str,
) -> Result<TextBuffer> {
    let capacity = capacity.number;
    if capacity > 0 {
        check(
            start.cast_const(),
            argument,
            "room for the text is expected",
        )?;
    }
    Ok(TextBuffer { start, capacity })
}

impl TextBuffer {
    /// Writes a text and a NUL, and the length of the text in any case: if there is too little
    /// room, the caller asks again with more.
    pub(crate) fn write(
        self,
        text: &(impl AsRef<[u8]> + ?Sized),
        length: Out<usize>,
    ) -> Result<()> {
        let TextBuffer { start, capacity } = self;
        let text = text.as_ref();
        length.write(text.len());
        if capacity <= text.len() {
            let problem = format!(
                "{capacity} bytes; the text and its NUL take {}",
                text.len() + 1
            );
            return Err(Error::out_of_range("capacity", problem));
        }
        // SAFETY: `buffer`'s caller promised `capacity` bytes, which are more than the text has.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr(), start.cast::<u8>(), text.len());
            start.add(text.len()).write(0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_checked() {
        // SAFETY: the pointers are NULL or literals.
        unsafe {
            assert_eq!(text(c"x".as_ptr(), "name").unwrap(), "x");
            assert_eq!(
                text(std::ptr::null(), "name").unwrap_err().to_string(),
                "name: is NULL; a text is expected"
            );
            assert_eq!(
                text(c"ab\xff".as_ptr(), "name").unwrap_err().to_string(),
                "name: is not UTF-8 from byte 2 on"
            );
            assert_eq!(optional_text(std::ptr::null(), "name").unwrap(), None);
            assert_eq!(
                path(c"ab\xff".as_ptr(), "path").unwrap().as_os_str().len(),
                3
            );
            let long = std::ffi::CString::new("n".repeat(LONGEST + 1)).unwrap();
            assert!(
                path(long.as_ptr(), "path")
                    .unwrap_err()
                    .to_string()
                    .contains("4096 bytes")
            );
        }
    }
}
