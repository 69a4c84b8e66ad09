//! Handles of the library, owned.

use std::ffi::{CStr, CString, c_char};
use std::sync::Arc;
use std::{fmt, ptr};

use umbo::*;

use crate::failure::{Result, check, wrong};

/// A type of handle that can be released.
pub trait Object {
    /// The constant of the type.
    const TYPE: umbo_handle_type;
}

macro_rules! objects {
    ($($object:ident: $kind:ident,)*) => {$(
        impl Object for $object {
            const TYPE: umbo_handle_type = $kind;
        }
    )*};
}

objects! {
    umbo_tensor: UMBO_HANDLE_TENSOR,
    umbo_value: UMBO_HANDLE_VALUE,
    umbo_strategy: UMBO_HANDLE_STRATEGY,
    umbo_variable: UMBO_HANDLE_VARIABLE,
    umbo_dataset: UMBO_HANDLE_DATASET,
    umbo_distributed_dataset: UMBO_HANDLE_DISTRIBUTED_DATASET,
    umbo_iterator: UMBO_HANDLE_ITERATOR,
    umbo_cluster_resolver: UMBO_HANDLE_CLUSTER_RESOLVER,
    umbo_element_spec: UMBO_HANDLE_ELEMENT_SPEC,
    umbo_checkpoint: UMBO_HANDLE_CHECKPOINT,
}

/// One reference to an object, released when dropped.
pub struct Handle<T: Object>(*mut T);

// SAFETY: a handle is a number that is never dereferenced here, and any thread may call any
// function of the library with it.
unsafe impl<T: Object> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T: Object> Sync for Handle<T> {}

impl<T: Object> Handle<T> {
    /// Takes a reference over.
    pub fn own(handle: *mut T) -> Handle<T> {
        Handle(handle)
    }

    /// To be given to a call.
    pub fn get(&self) -> *mut T {
        self.0
    }

    /// Gives the reference away.
    pub fn into_raw(self) -> *mut T {
        let handle = self.0;
        std::mem::forget(self);
        handle
    }
}

impl<T: Object> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl<T: Object> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: the handle is owned, and released once.
        unsafe { umbo_release(self.0.cast(), T::TYPE) }
    }
}

/// A value with shared ownership: what names are bound to.
pub type Value = Arc<Handle<umbo_value>>;

/// Runs a call that may store a handle; None if it stored NULL.
pub fn maybe_made<T: Object>(
    call: impl FnOnce(*mut *mut T) -> umbo_status,
) -> Result<Option<Handle<T>>> {
    let mut handle = ptr::null_mut();
    check(call(&raw mut handle))?;
    Ok((!handle.is_null()).then(|| Handle::own(handle)))
}

/// Runs a call that stores a handle.
pub fn made<T: Object>(call: impl FnOnce(*mut *mut T) -> umbo_status) -> Result<Handle<T>> {
    match maybe_made(call)? {
        Some(handle) => Ok(handle),
        None => wrong("a call succeeded and stored no handle"),
    }
}

/// Runs a call that stores a number or a plain struct.
pub fn read<T>(start: T, call: impl FnOnce(*mut T) -> umbo_status) -> Result<T> {
    let mut place = start;
    check(call(&raw mut place))?;
    Ok(place)
}

/// Runs a call that stores a text which lives long enough to be copied.
pub fn read_text(call: impl FnOnce(*mut *const c_char) -> umbo_status) -> Result<String> {
    let text = read(ptr::null(), call)?;
    if text.is_null() {
        return wrong("a call succeeded and stored no text");
    }
    // SAFETY: the library stores texts that live at least as long as the object they describe.
    Ok(unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned())
}

/// A text for the library.
pub fn c_text(text: &str) -> Result<CString> {
    CString::new(text).or_else(|_| wrong(format!("a NUL in {text:?}")))
}
