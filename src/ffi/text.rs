//! Text from and to C: UTF-8, ended by a NUL.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::ptr;

use super::pointers::{Out, check};
use crate::device::DeviceId;
use crate::device::name::DeviceName;
use crate::error::{Error, Result};
use parking_lot::Mutex;

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
    if text.len() > LONGEST {
        let problem = format!("has {} bytes; at most {LONGEST} are expected", text.len());
        return Err(Error::invalid(argument, problem));
    }
    Ok(text)
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
        Error::invalid(argument, format!("is not UTF-8 from byte {position} on"))
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
pub(crate) struct Buffer {
    start: *mut c_char,
    capacity: usize,
}

/// Checks room for a text.
///
/// # Safety
/// `capacity` bytes from `start` on may be written until the `Buffer` is used up; NULL goes with none.
pub(crate) unsafe fn buffer(
    start: *mut c_char,
    (capacity, _): (usize, &'static str),
    argument: &'static str,
) -> Result<Buffer> {
    if capacity > 0 {
        check(start.cast_const(), argument, "room for the text is expected")?;
    }
    Ok(Buffer { start, capacity })
}

impl Buffer {
    /// Writes a text and a NUL, and the length of the text in any case: if there is too little room, the
    /// caller asks again with more.
    pub(crate) fn write(self, text: &str, length: Out<usize>) -> Result<()> {
        let Buffer { start, capacity } = self;
        length.write(text.len());
        if capacity <= text.len() {
            let problem = format!("{capacity} bytes; the text and its NUL take {}", text.len() + 1);
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

/// A copy for C. A NUL inside would end the text early, so it becomes a visible sign.
pub(crate) fn c_string(text: &(impl fmt::Display + ?Sized)) -> CString {
    CString::new(text.to_string().replace('\0', "\u{2400}")).unwrap_or_default()
}

/// The canonical name of a device. Lives as long as the process: devices are few, and none ever gets another
/// name. Only the first call for a device allocates.
pub(crate) fn device_text(device: DeviceId) -> &'static CStr {
    static KEPT: Mutex<BTreeMap<DeviceId, &'static CStr>> = Mutex::new(BTreeMap::new());
    let mut kept = KEPT.lock();
    let name = || &*Box::leak(c_string(&DeviceName::local(device)).into_boxed_c_str());
    kept.entry(device).or_insert_with(name)
}

/// [`device_text`], for C.
pub(crate) fn device_name(device: DeviceId) -> *const c_char {
    device_text(device).as_ptr()
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
        }
    }

    #[test]
    fn names_of_devices_are_kept_once() {
        assert_eq!(device_name(DeviceId::cpu(0)), device_name(DeviceId::HOST));
        assert_ne!(device_name(DeviceId::cpu(0)), device_name(DeviceId::cpu(1)));
        // SAFETY: the name is ended by a NUL and stays.
        let name = unsafe { CStr::from_ptr(device_name(DeviceId::cpu(1))) };
        assert_eq!(name.to_str(), Ok(DeviceId::cpu(1).canonical_name().as_str()));
        assert_eq!(c_string("a\0b").as_c_str(), c"a\u{2400}b");
    }
}
