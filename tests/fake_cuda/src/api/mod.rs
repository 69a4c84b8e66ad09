//! The functions of the driver as C sees them, one file a subject. They hold no logic.

use std::ffi::{CStr, c_char};

use crate::codes::{Code, Outcome};

mod context;
mod control;
mod copy;
mod device;
mod error;
mod event;
mod launch;
mod memory;
mod module;
mod pool;
mod stream;

/// Defines functions of the driver: `fn NAME(ARGUMENTS) |SESSION| EXPRESSION;`.
macro_rules! api {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) |$session:pat_param| $body:expr;)*) => {
        $(
            // SAFETY: the name and the type are those of the CUDA driver, which programs that load this
            // library in its place expect.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) -> std::ffi::c_int {
                $crate::session::enter(stringify!($name), |$session| $body)
            }
        )*
    };
}
pub(crate) use api;

/// Where a function of C leaves a result.
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// A place whose type depends on what the caller asked for.
    pub fn at(place: *mut T) -> Out<T> {
        Out(place)
    }

    pub fn put(&self, value: T) -> Outcome {
        self.put_at(0, value)
    }

    /// Leaves nothing where the caller wants nothing.
    pub fn put_if_wanted(&self, value: T) -> Outcome {
        if self.0.is_null() { Ok(()) } else { self.put(value) }
    }

    pub fn put_at(&self, index: usize, value: T) -> Outcome {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the caller of the C function promises that the pointer is null or points to as many
        // values as the function writes; it is not null.
        unsafe { self.0.add(index).write_unaligned(value) };
        Ok(())
    }
}

/// Values that a function of C reads.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// A place whose type depends on what the caller asked for.
    pub fn at(place: *const T) -> In<T> {
        In(place)
    }

    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    pub fn get(&self, index: usize) -> Outcome<T> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the caller of the C function promises that the pointer is null or points to as many
        // values as the function reads; it is not null.
        Ok(unsafe { self.0.add(index).read_unaligned() })
    }
}

impl In<c_char> {
    /// The text that the pointer is the beginning of.
    pub fn text(&self) -> Outcome<&CStr> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the caller of the C function promises that the pointer is null or points to a text
        // with a zero at its end; it is not null.
        Ok(unsafe { CStr::from_ptr(self.0) })
    }
}

/// Room for a text.
#[repr(transparent)]
pub struct TextOut(*mut c_char);

impl TextOut {
    /// A place that depends on what the caller asked for.
    pub fn at(place: *mut c_char) -> TextOut {
        TextOut(place)
    }

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
