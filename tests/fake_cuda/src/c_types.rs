//! What functions of C take, with the checks that a null pointer needs.

use std::ffi::{CStr, c_char};

use crate::codes::{Code, Outcome};

/// Where a function of C leaves a result.
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// A place whose type depends on what the caller asked for.
    pub fn at(place: *mut T) -> Out<T> {
        Out(place)
    }

    pub fn put(&self, value: T) -> Outcome {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the caller of the C function promises that the pointer is null or a place for a
        // value; it is not null.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }
}

/// Values that a function of C reads.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct In<T>(*const T);

impl<T: Copy> In<T> {
    pub fn get(&self, index: usize) -> Outcome<T> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the caller of the C function promises that the pointer is null or points to as
        // many values as the function reads; it is not null.
        Ok(unsafe { self.0.add(index).read_unaligned() })
    }
}

impl In<c_char> {
    /// The text that the pointer is the beginning of.
    pub fn text(&self) -> Outcome<&str> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the caller of the C function promises that the pointer is null or points to a
        // text with a zero at its end; it is not null.
        unsafe { CStr::from_ptr(self.0) }
            .to_str()
            .map_err(|_| Code::INVALID_VALUE)
    }
}

/// Room for a text.
#[repr(transparent)]
pub struct TextOut(*mut c_char);

impl TextOut {
    /// Leaves as much of the text as fits, with a zero at the end.
    pub fn put(&self, text: &str, room: usize) -> Outcome {
        if self.0.is_null() || room == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let bytes = &text.as_bytes()[..text.len().min(room - 1)];
        // SAFETY: the caller of the C function promises room for `room` bytes; what is written is
        // shorter by at least the zero.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.cast(), bytes.len());
            self.0.add(bytes.len()).write(0);
        }
        Ok(())
    }
}
